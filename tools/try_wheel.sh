#!/usr/bin/env bash
# Installs a wheel where there is a distribution's Python and nothing else, and uses it: the command, the helper, the five lines of the README, in under a
# minute; then uninstalls it and says what is left. Needs root, debootstrap and, once for each, the network.
#     tools/try_wheel.sh WHEEL SUITE [FOLDER]     a Debian suite (bookworm, trixie); the folder of its system, kept: build-wheel/chroot-SUITE
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(realpath "$1") suite=$2 root=${3:-$here/build-wheel/chroot-$2}

if [ ! -x "$root/usr/bin/python3" ]; then
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=$(dirname "$script")/sid # a suite that is younger than debootstrap here
    debootstrap --variant=minbase --include=python3-venv,python3-pip "$suite" "$root" http://deb.debian.org/debian "$script" >"$root.log" 2>&1 ||
        { tail "$root.log"; exit 1; }
fi
if chroot "$root" sh -c 'command -v cc || command -v gcc || command -v clang'; then
    echo "there is a compiler in $root"
    exit 1
fi
rm -rf "$root/try" "$root/root/.cache" && mkdir "$root/try"
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
there() { chroot "$root" env -i PATH=/try/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh -euc "$1"; }
files() { (cd "$root" && find . \( -path ./proc -o -name __pycache__ \) -prune -o ! -type d -print | sort); }
die() { printf 'try_wheel.sh: error: %s\n' "$*" >&2; exit 1; }

started=$(date +%s)
there 'python3 -m venv --clear /try/venv'
before=$(files)
there '
    python -m pip install -q --no-index --disable-pip-version-check /try/*.whl
    forebay --version --verbose
    forebay bench /try/flat_v1_two_groups.parquet
    python /try/quick_start.py
    python --version
'
seconds=$(($(date +%s) - started))
echo "from nothing to the end of the quick start: $seconds s"
[ $seconds -lt 60 ] || die "that is more than a minute"

there '
    forebay doctor /try
    python -m pip uninstall -q -y --disable-pip-version-check forebay
'
left=$(comm -13 <(echo "$before") <(files))
[ -n "$left" ] && ! grep -v '^\./root/\.cache/forebay/' <<<"$left" || die "not the index cache alone is left: $left"
echo "left when it is uninstalled: $left"
there '
    python -m pip install -q --no-index --disable-pip-version-check /try/*.whl
    forebay doctor --clear-cache --yes
    python -m pip uninstall -q -y --disable-pip-version-check forebay
'
left=$(comm -13 <(echo "$before") <(files))
[ -z "$left" ] || die "left after forebay doctor --clear-cache: $left"
echo "nothing is left after forebay doctor --clear-cache"
