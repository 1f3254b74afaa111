#!/usr/bin/env bash
# Installs a wheel where there is a distribution's Python and nothing else, and uses it: the command, the helper, the five lines of the README. Needs root,
# debootstrap and, once for each, the network.
#     tools/try_wheel.sh WHEEL SUITE [FOLDER]     a Debian suite (bookworm, trixie); the folder of its system, kept: build-wheel/chroot-SUITE
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(realpath "$1") suite=$2 root=${3:-$here/build-wheel/chroot-$2}

if [ ! -x "$root/usr/bin/python3" ]; then
    debootstrap --variant=minbase --include=python3-venv,python3-pip "$suite" "$root" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
fi
if chroot "$root" sh -c 'command -v cc || command -v gcc || command -v clang'; then
    echo "there is a compiler in $root"
    exit 1
fi
rm -rf "$root/try" && mkdir "$root/try"
cp "$wheel" "$here/tests/golden/parquet/flat_v1_two_groups.parquet" "$root/try/"
cat >"$root/try/quick_start.py" <<'PYTHON'
import forebay as fb

ds = fb.open("/try/flat_v1_two_groups.parquet")
loader = ds.rows().loader({"x": ["x"], "id": "id"}, batch_size=8, memory="64MiB")
rows = 0
for batch in loader:
    rows += batch["x"].shape[0]
assert rows == len(ds.rows()), rows
print(loader.report())
PYTHON
mountpoint -q "$root/proc" || { mount -t proc proc "$root/proc" && trap 'umount "$root/proc"' EXIT; }
started=$(date +%s.%N)
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh -euc '
    python3 -m venv --clear /try/venv
    /try/venv/bin/python -m pip install -q --no-index --disable-pip-version-check /try/*.whl
    PATH=/try/venv/bin:$PATH
    forebay --version --verbose
    forebay doctor /try
    forebay bench /try/flat_v1_two_groups.parquet
    python /try/quick_start.py
    python --version
'
python3 -c "import sys, time; print(f'from nothing to the end of the quick start: {time.time() - float(sys.argv[1]):.1f} s')" "$started"
