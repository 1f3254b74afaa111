#!/usr/bin/env bash
# Installs the packages of `make deb` where there is a minimal Debian and nothing else, and uses them: the command, the helper, the Python package, a program
# built with pkg-config and one with CMake; then removes them and says what is left. Needs root, debootstrap and the network.
#     tools/try_deb.sh FOLDER SUITE [ROOT]     FOLDER: build-deb; the suite that they were built on; the folder of its system: build-deb/chroot-SUITE
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
packages=$(realpath "$1") suite=$2 root=${3:-$here/build-deb/chroot-$2}

if mountpoint -q "$root/proc"; then umount "$root/proc"; fi # of a run that was killed
rm -rf "$root"
debootstrap --variant=minbase "$suite" "$root" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
mkdir "$root/try"
cp "$packages"/*.deb "$here/tests/golden/parquet/flat_v1_two_groups.parquet" "$here/tests/install/version.c" "$root/try/"
cp -r "$here/examples" "$root/try/"
cat >"$root/try/quick_start.py" <<'PYTHON'
from importlib import metadata

import forebay as fb

assert metadata.version("forebay") == fb.__version__
ds = fb.open("/try/flat_v1_two_groups.parquet")
rows = sum(batch["x"].shape[0] for batch in ds.rows().loader({"x": ["x"], "id": "id"}, batch_size=8, memory="64MiB"))
assert rows == len(ds.rows()), rows
fb.show_versions()
PYTHON
cp /etc/resolv.conf "$root/etc/"
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"' EXIT
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc '
    say() { printf "\n== %s\n" "$*"; }
    install() { apt-get install -y -q --no-install-recommends "$@" >>/try/apt.log 2>&1 || { tail /try/apt.log; exit 1; }; }
    apt-get update -q >/try/apt.log

    say "the command, the library and the helper"
    install /try/libforebay0_*.deb /try/forebay_*.deb /try/forebay-hdf5_*.deb
    if command -v cc || command -v python3; then echo "there is a compiler or a Python before it was installed"; exit 1; fi
    forebay --version --verbose
    forebay bench /try/flat_v1_two_groups.parquet
    forebay doctor /try
    status=0
    /usr/libexec/forebay/forebay-hdf5 </dev/null || status=$?
    case $status in 126 | 127) exit 1 ;; esac

    say "the Python package"
    install /try/python3-forebay_*.deb
    python3 /try/quick_start.py

    say "pkg-config, find_package"
    install /try/libforebay-dev_*.deb gcc libc6-dev pkg-config cmake make
    cd /try
    cc version.c -o version $(pkg-config --cflags --libs forebay)
    [ "$(./version)" = "$(pkg-config --modversion forebay)" ]
    cmake -S examples -B build >cmake.log && cmake --build build >>cmake.log || { cat cmake.log; exit 1; }
    build/train_mean flat_v1_two_groups.parquet x id

    say "what is left when they are gone"
    apt-get purge -y -q "*forebay*" >>/try/apt.log 2>&1
    find / -xdev -name "*forebay*" ! -path "/try/*" ! -path "/var/cache/*" ! -path "/var/log/*" | tee left
    ! grep -v "^/root/.cache/forebay" left # the index cache is its user'"'"'s
'
