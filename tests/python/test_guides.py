"""The guides of docs/: every block of code runs, in the order of the page, in a folder that is empty at first.

Of docs/migration.md runs what stands after the change. The Python of every other page parses, and names what there is. A block that cannot run here has
`<!-- not run: why -->` above it. Blocks of Python share a process and its names; blocks of sh have the command.
"""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

from real_data import ROOT

GUIDES = ("quickstart.md", "tuning.md", "memory.md", "writing-files.md")
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay")).resolve()
BLOCK = re.compile(r"^(?:<!-- not run: ([^\n]+?) -->\n)?```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(path):
    """(line, language, code, why it is not run or None) of every block of a page."""
    text = path.read_text()
    return [(text.count("\n", 0, found.start(3)) + 1, found[2], found[3], found[1]) for found in BLOCK.finditer(text)]


def script(path):
    """A page as one program: its Python, and its sh by subprocess, each where it stands in the page's own lines."""
    lines, at = [], 1
    for line, language, code, why in blocks(path):
        if why:
            continue
        if language == "sh":
            code = f"__import__('subprocess').run(['bash', '-euo', 'pipefail', '-c', {code!r}], check=True)\n"
        elif language != "python":
            continue
        lines.append("\n" * (line - at) + code)
        at = line + code.count("\n")
    return "".join(lines)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_runs(name, tmp_path):
    for package in ("torch", "pyarrow", "h5py", "netCDF4"):
        pytest.importorskip(package)
    if not CLI.exists():
        pytest.skip(f"no command at {CLI}: run make, or set FOREBAY_CLI")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/forebay").symlink_to(CLI)
    (tmp_path / "empty").mkdir()
    (tmp_path / name).with_suffix(".py").write_text(script(ROOT / "docs" / name))
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, str((tmp_path / name).with_suffix(".py"))]
    done = subprocess.run(command, cwd=tmp_path / "empty", env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"docs/{name}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def migration():
    """docs/migration.md as a program: of each block what stands there after the change, with what a reader's program has around it."""
    parts = [(ROOT / "tests/python/migration_names.py").read_text()]
    for _, language, code, _ in blocks(ROOT / "docs/migration.md"):
        if language == "python":
            parts.append(code[code.index("# after") :] if "# after" in code else code)
    return "\n".join(parts).replace('device="cuda"', "device=DEVICE")


def test_what_stands_after_a_migration_runs(tmp_path):
    for package in ("torch", "pandas", "pyarrow", "lightning", "accelerate"):
        pytest.importorskip(package)
    (tmp_path / "migration.py").write_text(migration())
    done = subprocess.run([sys.executable, "migration.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"docs/migration.md:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def test_blocks_keep_their_lines(tmp_path):
    (tmp_path / "x.md").write_text("# X\n\n```python\na = 1\n```\n\n<!-- not run: no network -->\n```sh\nfalse\n```\n\n```python\n1 / 0\n```\n")
    found = [(line, language, why) for line, language, _, why in blocks(tmp_path / "x.md")]
    assert found == [(4, "python", None), (9, "sh", "no network"), (13, "python", None)]
    (tmp_path / "x.py").write_text(script(tmp_path / "x.md"))
    done = subprocess.run([sys.executable, str(tmp_path / "x.py")], capture_output=True, text=True)
    assert done.returncode != 0 and "line 13" in done.stderr and "ZeroDivisionError" in done.stderr


def pages():
    """Every page in git, as README.md or docs/loader.md."""
    found = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    return [name for name in found if (ROOT / name).exists()] or [f"docs/{name}" for name in GUIDES]


@pytest.mark.parametrize("name", pages())
def test_python_of_a_page_parses_and_names_what_there_is(name):
    import forebay as fb

    for line, language, code, _ in blocks(ROOT / name):
        if language == "python":
            try:
                tree = ast.parse(re.sub(r",\s*…", "", code).replace("…", "..."))  # … stands for what is left out
            except SyntaxError as error:
                pytest.fail(f"{name}:{line + error.lineno - 1}: {error.msg}")
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fb":
                    assert hasattr(fb, node.attr), f"{name}:{line + node.lineno - 1}: there is no fb.{node.attr}"


def symptoms():
    """The lines of the table of symptoms in docs/diagnosis.md, as their cells."""
    page = (ROOT / "docs/diagnosis.md").read_text()
    table = page[page.index("## Symptom, cause, cure") : page.index("## Settings side by side")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("|")][2:]


def test_what_shows_a_symptom_and_what_cures_it_runs(tmp_path, monkeypatch):
    np, pa, pq = (pytest.importorskip(name) for name in ("numpy", "pyarrow", "pyarrow.parquet"))

    import forebay as fb

    if not CLI.exists():
        pytest.skip(f"no command at {CLI}: run make, or set FOREBAY_CLI")
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"x": np.arange(20_000, dtype="f4")}), "data.parquet", row_group_size=2_000)
    (tmp_path / "pipeline.yaml").write_text("data: data.parquet\noutputs: {x: {columns: x}}\nloader: {batch_size: 512}\n")
    names = {"PATH": "data.parquet", "PIPELINE": "pipeline.yaml"}
    loader = fb.open("data.parquet").loader({"x": "x"}, batch_size=512)
    for _ in loader:
        pass
    scope = {"loader": loader, "report": loader.report}
    commands, seen = ["forebay bench pipeline.yaml --save base.json --quick --runs 2"], 0
    for cells in symptoms():
        assert len(cells) == 4, cells
        quoted = re.findall(r"`([^`]+)`", f"{cells[2]} {cells[3]}")
        expressions = [code for code in quoted if "report()" in code]
        commands += [code for code in quoted if code.startswith("forebay ")]
        assert expressions or any(code.startswith("forebay ") for code in quoted), f"nothing shows {cells[0]!r}"
        for code in expressions:
            eval(code, scope)
            seen += 1
    for command in dict.fromkeys(commands):
        words = [names.get(word, word) for word in command.replace("DIR", f"packed-{len(command)}").split()[1:]]
        quick = ["--quick", "--runs", "2"] if words[0] == "bench" and not {"--runs", "--work"} & set(words) else []
        done = subprocess.run([CLI, *words, *quick], capture_output=True, text=True, timeout=120)
        judged = "--against" in words and "times as fast as in base.json" in done.stdout  # on a machine that others use, two runs may be slower
        assert done.returncode == 0 or judged, f"{command}\n{done.stdout[-2000:]}\n{done.stderr}"
    assert seen > 12 and len(commands) > 8


def options(which):
    """Keys of a table of options of docs/pipelines.md, which is made from the library's own."""
    table = re.search(rf"<!-- options: {which} -->\n(.*?)<!-- end of options -->", (ROOT / "docs/pipelines.md").read_text(), re.S)[1]
    return re.findall(r"^\| `(\w+)`", table, re.M)


def test_tuning_names_every_option_and_no_other():
    import inspect

    import forebay as fb

    cells = [line.split("|")[1] for line in (ROOT / "docs/tuning.md").read_text().splitlines() if line.startswith("| `")]
    known = {*inspect.signature(fb.Loader).parameters, *inspect.signature(fb.open).parameters, *options("loader"), *options("open")}
    named = set(re.findall(r"`(\w+)`", "".join(cells)))
    assert named <= known
    assert known - named <= {"source", "samples", "outputs", "epoch", "check", "progress"}  # what is loaded, not how
