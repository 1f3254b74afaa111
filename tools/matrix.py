#!/usr/bin/env python3
"""The wheel with the oldest and the newest packages that it works with, each in an environment of its own: `make matrix`.

    tools/matrix.py WHEEL [--only=NAME] [--python=PYTHON,…] [--work=build-wheel/matrix]     a Markdown table, of docs/install.md; exit 1 when one fails

--python names the interpreters that all of it is tried with (default: this one). What cannot be installed here is a row that says so, not a failure.
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = {
    "nothing else": [],
    "NumPy 1.26": ["numpy==1.26.*"],
    "NumPy 2": ["numpy>=2"],
    "pandas 2, NumPy 1.26, pyarrow 14": ["pandas==2.1.*", "numpy==1.26.*", "pyarrow==14.*"],
    "pandas, the newest 2": ["pandas==2.*", "pyarrow==18.*"],
    "pandas 3": ["pandas>=3", "pyarrow"],
    "polars 1": ["polars==1.*"],
    "polars": ["polars"],
    "torch 2.2, NumPy 1.26": ["torch==2.2.*", "numpy==1.26.*"],
    "torch, newest": ["torch", "numpy"],
}
CHECK = """
import sys
import forebay as fb
names = sys.argv[2].split(",")
have = lambda name: any(word.startswith(name) for word in names)
path = sys.argv[1]
ds = fb.open(path)
for name in names:
    if name:
        __import__(name)
rows = 0
for batch in ds.rows().loader({"x": ["x"], "id": "id"}, batch_size=8, memory="64MiB"):
    rows += batch["x"].shape[0]
    kind = type(batch["x"]).__module__.split(".")[0]
assert rows == len(ds.rows()), rows
assert kind == ("torch" if have("torch") else "numpy" if have("numpy") or have("pandas") else "forebay"), kind
if have("pyarrow"):
    import pyarrow as pa
    assert (pa.table(ds) if hasattr(pa.Table, "_import_from_c_capsule") or int(pa.__version__.split(".")[0]) >= 15
            else pa.RecordBatchReader._import_from_c_capsule(ds.__arrow_c_stream__()).read_all()).num_rows == rows
if have("polars"):
    import polars
    assert len(polars.DataFrame(ds)) == rows
if have("pandas"):
    import pandas
    frame = pandas.DataFrame({"a": range(100), "b": [float(i) for i in range(100)]})
    if have("pyarrow"):
        source = frame if hasattr(frame, "__arrow_c_stream__") else {name: frame[name].to_numpy() for name in frame}  # before pandas 2.2
        n = sum(b["a"].shape[0] for b in fb.open(source).rows().loader({"a": "a"}, batch_size=10))
        assert n == 100, n
print("python", sys.version.split()[0], *(f"{n} {__import__(n).__version__}" for n in names if n))
"""


def try_set(name, words, wheel, work, interpreter):
    home = work / Path(interpreter).name / "".join(c if c.isalnum() else "-" for c in name)
    if not (home / "bin/python").exists():
        subprocess.run([interpreter, "-m", "venv", home], check=True)
    pip = [home / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False) if words else None
    if done and done.returncode:
        return "not installed here", done.stderr.strip().splitlines()[-1][:120]
    subprocess.run([*pip, "--no-index", "--force-reinstall", "--no-deps", wheel], check=True)
    golden = ROOT / "tests/golden/parquet/flat_v1_two_groups.parquet"
    names = ",".join(word.split("=")[0].split(">")[0] for word in words)
    done = subprocess.run([home / "bin/python", "-W", "ignore", "-c", CHECK, golden, names], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return "FAILED", (done.stderr.strip().splitlines() or ["?"])[-1][:120]
    return "works", done.stdout.strip()


def main(argv):
    given = dict(word.removeprefix("--").split("=", 1) for word in argv if word.startswith("--"))
    wheels = [word for word in argv if not word.startswith("--")]
    if len(wheels) != 1:
        sys.exit(__doc__)
    work = Path(given.get("work", ROOT / "build-wheel/matrix"))
    work.mkdir(parents=True, exist_ok=True)
    failed = False
    print("| with | | versions |\n|---|---|---|")
    for interpreter in given.get("python", sys.executable).split(","):
        for name, words in SETS.items():
            if given.get("only") in (None, name):
                result, said = try_set(name, words, Path(wheels[0]).resolve(), work, interpreter)
                print(f"| {name} | {result} | {said} |", flush=True)
                failed |= result == "FAILED"
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
