"""The programs of docs/languages.md: what they print is what NumPy finds. Each runs where its compiler is; the reason is printed where it is not."""

import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from real_data import ROOT

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
BUILD = ROOT / "build"

pytestmark = pytest.mark.skipif(not (BUILD / "libforebay.so").exists(), reason=f"no library in {BUILD}: run make")


def need(program):
    if not shutil.which(program):
        pytest.skip(f"no {program} here")


@pytest.fixture
def basins(tmp_path):
    """(the pipeline file of docs/languages.md over generated files, the means of its output)."""
    (tmp_path / "basins").mkdir()
    rng, rows = np.random.default_rng(0), []
    for k in range(3):
        values = rng.gamma(2, 3, (700, 2)).astype(np.float32)
        rows.append(values)
        pq.write_table(pa.table({"prcp": values[:, 0], "tmax": values[:, 1]}), tmp_path / f"basins/b{k}.parquet")
    yaml = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/languages.md").read_text(), re.S)[1]
    (tmp_path / "basins.yaml").write_text(yaml)
    return tmp_path / "basins.yaml", np.concatenate(rows).astype(np.float64).mean(0)


def run(command, cwd, check=True, **env):
    env = {**os.environ, "LD_LIBRARY_PATH": str(BUILD), **env}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def check(command, basins, cwd):
    path, means = basins
    np.testing.assert_allclose([float(word) for word in run([*command, path], cwd).stdout.split()], means, rtol=1e-6)
    failed = run([*command, path.with_name("none.yaml")], cwd, check=False)
    assert failed.returncode != 0 and "none.yaml" in failed.stderr


def test_c(basins, tmp_path):
    """The programs of docs/loading-in-c.md: the one without a pipeline file on other columns than those of its text."""
    need("gcc")
    without, of_a_file = re.findall(r"```c\n(.*?)```", (ROOT / "docs/loading-in-c.md").read_text(), re.S)
    for name, program in (("sum", without.replace('"f00", "f01"', '"prcp", "tmax"')), ("mean", of_a_file)):
        (tmp_path / f"{name}.c").write_text(program)
        run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", f"{name}.c", "-o", name, f"-L{BUILD}", "-lforebay"], tmp_path)
    total = float(run([tmp_path / "sum", basins[0].parent / "basins"], tmp_path).stdout)
    assert total == pytest.approx(basins[1][0] * 2100, rel=1e-4)
    check([tmp_path / "mean"], basins, tmp_path)


def test_fortran(basins, tmp_path):
    need("gfortran")
    sources = [ROOT / "examples/fortran" / name for name in ("forebay.f90", "mean.f90")]
    run(["gfortran", "-Wall", *sources, "-o", "mean", f"-L{BUILD}", "-lforebay"], tmp_path)
    check([tmp_path / "mean"], basins, tmp_path)


def test_r(basins, tmp_path):
    need("Rscript")
    shutil.copy(ROOT / "examples/r/forebay.c", tmp_path)
    run(["R", "CMD", "SHLIB", "forebay.c"], tmp_path, PKG_CFLAGS=f"-I{ROOT / 'include'}", PKG_LIBS=f"-L{BUILD} -lforebay")
    check(["Rscript", ROOT / "examples/r/mean.R", tmp_path / "forebay.so"], basins, tmp_path)
