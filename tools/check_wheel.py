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
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

import vendor

ROOT = Path(__file__).resolve().parent.parent
BASE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
LIMIT_BYTES = 6_000_000
# Functions that the compiler's runtime library has as well, which every program calls and no compiler puts in place: they are to be glibc's.
OF_GLIBC = {"exp", "log", "log10", "sin", "cos", "tan", "fmod", "memcpy", "memmove", "memset"}


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
        check_needs(wheel, names)


def files_of(folder):
    return {p.relative_to(folder) for p in folder.rglob("*") if not p.is_dir() and "__pycache__" not in p.parts}


def check_needs(wheel, names):
    """What the programs ask of the system beyond the C library: nothing."""
    for name in (n for n in names if n.endswith((".so", "/forebay-hdf5", "/scripts/forebay"))):
        with tempfile.NamedTemporaryFile() as program:
            program.write(wheel.read(name))
            program.flush()
            code, text = output(["readelf", "-d", program.name])
            _, symbols = output(["readelf", "-W", "--dyn-syms", program.name])
            asked = set(re.findall(r" UND (\w+)@GLIBC_", symbols))
        needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", text))
        extra = {n for n in needed - BASE if not n.startswith("ld-linux")}
        good = code == 0 and needed and not extra and "RUNPATH" not in text
        say(good, f"{name} needs the C library alone" + ("" if good else f", not {sorted(extra)}\n{text}"))
        if not name.endswith("/forebay-hdf5"):  # which has no expressions
            missing = OF_GLIBC - asked
            say(not missing, f"{name} takes {', '.join(sorted(OF_GLIBC))} from glibc" + (f", but not {', '.join(sorted(missing))}" if missing else ""))


def check_installed(path):
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "venv"
        venv.create(home, with_pip=True)
        python = home / "bin/python"
        user = Path(folder) / "user"  # whose home directory and temporary files these are
        user.mkdir()
        env = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "XDG_", "PYTHONPATH"))}
        env |= {"HOME": str(user), "TMPDIR": str(user)}
        of_pip = env | {"HOME": folder, "TMPDIR": folder, "PIP_NO_CACHE_DIR": "1"}  # what it leaves is its own
        before = files_of(home)
        code, text = output([python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", path], env=of_pip)
        say(code == 0, "pip install without an index" + ("" if code == 0 else f"\n{text}"))
        package = next(home.glob("lib/python3.*/site-packages/forebay"))
        code, text = output([home / "bin/forebay", "--version", "--verbose"], env=env)
        say(code == 0 and "zstd" in text and "hdf5" in text and "?" not in text, "forebay --version --verbose: a version of each library")
        golden = Path(folder) / "a.parquet"
        shutil.copy(ROOT / "tests/golden/parquet/flat_v1_two_groups.parquet", golden)
        os.utime(golden, (1e9, 1e9))
        time.sleep(2.1)  # its ctime cannot be set: the index cache leaves files alone that changed within two seconds
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
        check_uninstall(python, home, user, before, path, env, of_pip)


def check_uninstall(python, home, user, before, path, env, of_pip):
    """What was used a while leaves the index cache and nothing else, and that only until somebody says so."""
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
    code, text = output([home / "bin/forebay", "doctor", "--json"], env=env)
    cache = json.loads(text)["cache"]
    kept = {user / p for p in files_of(user)}
    told = kept and all(p.parent == Path(cache["folder"]) for p in kept) and cache["bytes"] == sum(p.stat().st_size for p in kept)
    say(code == 0 and cache["files"] == len(kept) and bool(told),
        f"the home directory has the index cache alone, whose place and size forebay doctor says: {cache}")
    code, text = output([*pip, "uninstall", "-y", "forebay"], env=of_pip)
    left = sorted(map(str, files_of(home) - before))
    say(code == 0 and not left and {user / p for p in files_of(user)} == kept,
        "pip uninstall leaves the index cache and no other file" + (f" but {left[:5]}" if left else ""))
    output([*pip, "install", "--no-index", path], env=of_pip)
    code, text = output([home / "bin/forebay", "doctor", "--clear-cache", "--yes"], env=env)
    say(code == 0 and not files_of(user), "forebay doctor --clear-cache removes it" + ("" if code == 0 else f"\n{text}"))


def main(paths):
    if not paths:
        sys.exit(__doc__)
    for path in map(Path, paths):
        check_file(path)
        if path.stem.endswith(platform.machine()):
            check_installed(path)


if __name__ == "__main__":
    main(sys.argv[1:])
