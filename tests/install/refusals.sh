#!/bin/sh
# What configuring refuses, and how it says so: libraries that are missing, all at once; Pythons that are not tested; a big-endian machine and musl, where
# there is a compiler for them.
#     tests/install/refusals.sh SOURCE CMAKE CC
set -eu
source=$1 cmake=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER

echo '== no libraries'
if PKG_CONFIG_LIBDIR=/nonexistent PKG_CONFIG_PATH= "$cmake" -S "$source" -B "$work/none" -DCMAKE_C_COMPILER="$cc" -DCMAKE_FIND_ROOT_PATH=/nonexistent \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DFBY_BUILD_PYTHON=ON >"$work/said" 2>&1; then
    echo "configured without libraries"
    exit 1
fi
for package in libzstd-dev liblz4-dev libbrotli-dev libyaml-dev libdeflate-dev libsnappy-dev libxxhash-dev libblosc-dev liblzf-dev libaec-dev libjansson-dev \
    python3-dev; do
    grep -q "(Debian: $package)" "$work/said" || { echo "$package is not said to be missing"; cat "$work/said"; exit 1; }
done

echo '== big-endian'
if command -v s390x-linux-gnu-gcc >/dev/null; then
    if "$cmake" -S "$source" -B "$work/big" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=s390x \
        -DCMAKE_C_COMPILER=s390x-linux-gnu-gcc >"$work/said" 2>&1; then
        echo "configured for s390x"
        exit 1
    fi
    grep -q 's390x is big-endian' "$work/said" || { cat "$work/said"; exit 1; }
else
    echo "no s390x-linux-gnu-gcc: not tried"
fi

echo '== musl'
if command -v musl-gcc >/dev/null; then
    if "$cmake" -S "$source" -B "$work/musl" -DCMAKE_C_COMPILER=musl-gcc >"$work/said" 2>&1; then
        echo "configured for musl"
        exit 1
    fi
    grep -q 'does not build for glibc' "$work/said" || { cat "$work/said"; exit 1; }
else
    echo "no musl-gcc: not tried"
fi

# The Python that is there, which says of itself that it is another one.
refused_python() {
    mkdir -p "$work/python"
    printf '%s\n' "$1" >"$work/python/sitecustomize.py"
    if PYTHONPATH=$work/python "$cmake" -S "$source" -B "$work/build-python" -DCMAKE_C_COMPILER="$cc" \
        -DFBY_BUILD_PYTHON=ON -DFBY_BUILD_TESTS=OFF >"$work/said" 2>&1; then
        echo "configured for a Python of which it is said: $1"
        exit 1
    fi
    tr '\n' ' ' <"$work/said" | tr -s ' ' | grep -q "$2" || { cat "$work/said"; exit 1; }
}
echo '== Pythons'
refused_python 'import sysconfig; sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1' 'is a free-threaded Python'
refused_python 'import sys; sys.implementation.name = "pypy"' 'is pypy, with which Forebay has not been tested'
echo "refused, by name"
