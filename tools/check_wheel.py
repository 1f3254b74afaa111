#!/usr/bin/env python3
"""Is a wheel what it promises? Platform, size, contents, licenses; then installed into an empty environment, command, helper and package run.

    tools/check_wheel.py WHEEL…        each check as a line; exit 1 at the first that fails
"""
import csv
import io
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

import vendor

ROOT = Path(__file__).resolve().parent.parent
BASE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
LIMIT_BYTES = 6_000_000


def say(ok, text):
    print(("ok    " if ok else "FAIL  ") + text, flush=True)
    if not ok:
        sys.exit(1)


def output(words, **kwargs):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **kwargs)
    return done.returncode, done.stdout + done.stderr


def check_file(path):
    arch = path.stem.rsplit("_2_28_", 1)[-1]
    say(path.name.endswith(f"-cp311-abi3-manylinux_2_28_{arch}.whl"), f"{path.name}: cp311-abi3, glibc 2.28")
    say(path.stat().st_size < LIMIT_BYTES, f"{path.stat().st_size / 1e6:.2f} MB, under {LIMIT_BYTES / 1e6:.0f}")
    code, text = output([sys.executable, "-m", "twine", "check", "--strict", path])
    say(code == 0, "twine check --strict" + ("" if code == 0 else f"\n{text}"))
    if arch == platform.machine():
        code, text = output([sys.executable, "-m", "auditwheel", "show", path])
        flat = re.sub(r"\s+", " ", text)
        good = f'consistent with the following platform tag: "manylinux_2_28_{arch}"' in flat or re.search(
            r'platform tag: "manylinux_2_(\d+)_' + arch, flat) and int(re.search(r'platform tag: "manylinux_2_(\d+)_', flat)[1]) <= 28
        say(code == 0 and bool(good), "auditwheel show" + ("" if good else f"\n{text}"))
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        info = next(name.split("/")[0] for name in names if name.endswith(".dist-info/WHEEL"))
        say(len(set(wheel.getinfo(name).date_time for name in names)) == 1, "one time for every file")
        rows = {row[0] for row in csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode()))}
        say(rows == set(names), f"RECORD names all {len(names)} files")
        parts = {part["name"] for part in json.loads(wheel.read(f"{info}/sboms/forebay.cdx.json"))["components"]}
        expected = {library["name"] for library in vendor.libraries()}
        say(parts == expected, f"the SBOM lists the {len(expected)} libraries inside")
        for name in expected:
            if not any(f.startswith(f"{info}/licenses/{name}-") for f in names):
                say(False, f"{name} has no license text in {info}/licenses")
        say(True, "a license text for each")
        named = [name for name in names if b"/build-wheel/" in wheel.read(name)]
        say(not named, "no file names the folder of its build" + (f" but {named}" if named else ""))
        shared = [name.split("/data/share/")[-1] for name in names if "/data/share/" in name]
        say(sum(name.startswith("man/man1/forebay") for name in shared) > 3 and len(shared) - 3 == sum(name.startswith("man/") for name in shared),
            "man pages, and completions for three shells")


def check_needs(package):
    """What the programs ask of the system beyond the C library: nothing."""
    for path in package:
        code, text = output(["readelf", "-d", path])
        if code:
            return
        needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", text))
        extra = {n for n in needed - BASE if not n.startswith("ld-linux")}
        say(not extra and "RUNPATH" not in text, f"{path.name} needs the C library alone" + (f", not {sorted(extra)}" if extra else ""))


def check_installed(path):
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "venv"
        venv.create(home, with_pip=True)
        python = home / "bin/python"
        env = dict(os.environ, FOREBAY_CACHE=f"{folder}/cache", PYTHONPATH="")
        env.pop("FOREBAY_HDF5_HELPER", None)
        before = {p.relative_to(home) for p in home.rglob("*") if not p.is_dir()}
        code, text = output([python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", path], env=env)
        say(code == 0, "pip install without an index" + ("" if code == 0 else f"\n{text}"))
        package = next(home.glob("lib/python3.*/site-packages/forebay"))
        check_needs([package / "_forebay.abi3.so", package / "forebay-hdf5", home / "bin/forebay"])
        code, text = output([home / "bin/forebay", "--version", "--verbose"], env=env)
        say(code == 0 and "zstd" in text and "hdf5" in text and "?" not in text, "forebay --version --verbose: a version of each library")
        golden = ROOT / "tests/golden/parquet/flat_v1_two_groups.parquet"
        code, text = output([home / "bin/forebay", "bench", golden, "--json", "--epochs", "1"], env=env)
        say(code == 0, "forebay bench on a file" + ("" if code == 0 else f"\n{text}"))
        code, text = output([package / "forebay-hdf5"], env=env, stdin=subprocess.DEVNULL)
        say(code not in (126, 127), "the helper starts")
        script = (
            "import forebay as fb, sys\n"
            f"ds = fb.open({str(golden)!r})\n"
            "n = sum(len(batch['x']) for batch in ds.rows().loader({'x': ['id']}, batch_size=8))\n"
            "assert n == ds.rows().__len__(), n\n"
            "fb.show_versions()\n"
        )
        code, text = output([python, "-c", script], env=env)
        say(code == 0 and "libraries inside" in text, "a loader without NumPy or torch" + ("" if code == 0 else f"\n{text}"))
        code, text = output([python, "-m", "pip", "uninstall", "-q", "-y", "forebay"], env=env)
        after = {p.relative_to(home) for p in home.rglob("*") if not p.is_dir() and "__pycache__" not in p.parts}
        left = sorted(map(str, after - before))
        say(code == 0 and not left, "pip uninstall leaves no file" + (f" but {left[:5]}" if left else ""))


def main(paths):
    if not paths:
        sys.exit(__doc__)
    for path in map(Path, paths):
        check_file(path)
        if path.stem.endswith(platform.machine()):
            check_installed(path)


if __name__ == "__main__":
    main(sys.argv[1:])
