#!/usr/bin/env bash
# Installs what a build needs and this machine lacks; says nothing when nothing is missing.
#     tools/setup.sh system            compilers, tools and libraries, with apt where there is apt
#     tools/setup.sh fuzz              clang with its libFuzzer
#     tools/setup.sh aarch64           what a cross build for aarch64 needs, and qemu to run it
#     tools/setup.sh deb               what debian/control names, and lintian
#     tools/setup.sh venv .venv REQ    the virtual environment of the tests, from the pinned list REQ
#     tools/setup.sh torch .venv REQ   PyTorch into it: the CPU build unless another is there already
#     tools/setup.sh wheel DIR REQ     the virtual environment that wheels are built in, from the list with hashes REQ
set -euo pipefail

TORCH_INDEX=https://download.pytorch.org/whl/cpu

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# A Python that the pinned packages support: $PYTHON, else the first that fits.
find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.11 python3.12 python3.13; do
        if command -v "$candidate" >/dev/null &&
           "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

missing_packages() {
    local package
    for package in libzstd-dev liblz4-dev libbrotli-dev libdeflate-dev libsnappy-dev libxxhash-dev liburing-dev \
                   libblosc-dev liblzf-dev libaec-dev libyaml-dev libhdf5-dev libjansson-dev libcmocka-dev; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
    done
    command -v cc >/dev/null && cc -E -x c -include stdio.h /dev/null >/dev/null 2>&1 || echo "gcc libc6-dev"
    command -v pkg-config >/dev/null || echo pkg-config
    command -v cmake >/dev/null && cmake --version >/dev/null 2>&1 || echo cmake
    command -v ninja >/dev/null && ninja --version >/dev/null 2>&1 || echo ninja-build
    command -v abidiff >/dev/null || echo abigail-tools
    local python
    if python=$(find_python); then
        # Debian splits what other Pythons bring along: ensurepip and Python.h.
        if [ "$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable).startswith("/usr/bin/"))')" = True ]; then
            local version
            version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
            "$python" -c 'import ensurepip' 2>/dev/null || echo "python$version-venv"
            [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
                echo "python$version-dev"
        fi
    else
        echo "python3 python3-venv python3-dev"
    fi
}

setup_system() {
    if ! command -v apt-get >/dev/null; then
        for tool in cc cmake ninja pkg-config; do
            command -v $tool >/dev/null || die "$tool is missing and there is no apt-get: install a C compiler, cmake, ninja, pkg-config
and the headers of zstd, lz4, brotli, libdeflate, snappy, xxhash, liburing, blosc, liblzf, libaec, libyaml, hdf5, jansson and cmocka"
        done
        return 0
    fi
    local packages root=()
    packages=$(missing_packages | tr '\n' ' ')
    [ -n "${packages// /}" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "these packages are missing and there is no sudo; as root: apt-get install $packages"
        root=(sudo)
    fi
    say "installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of words
    if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages >/dev/null 2>&1; then
        "${root[@]}" apt-get update -q >/dev/null
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >/dev/null
    fi
    packages=$(missing_packages | tr '\n' ' ')
    [ -z "${packages// /}" ] || die "still missing after apt-get install: $packages"
}

# Only the fuzzers need it. A clang without its runtime (Debian: libclang-rt-…-dev) is none here.
has_libfuzzer() { echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; }

setup_fuzz() {
    local root=()
    has_libfuzzer && return 0
    command -v apt-get >/dev/null || die "the fuzzers need clang with libFuzzer, and there is no apt-get to install it"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "the fuzzers need clang; as root: apt-get install clang"
        root=(sudo)
    fi
    say "installing clang"
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q clang >/dev/null # with what it recommends: the runtime
    has_libfuzzer || die "clang has no libFuzzer (Debian: libclang-rt-14-dev, of the version that clang --version says)"
}

# The compiler, the libraries and the emulator of `make aarch64`, on Debian.
setup_aarch64() {
    local packages=(gcc-aarch64-linux-gnu qemu-user-static) name
    command -v cmake >/dev/null || packages+=(cmake)
    command -v ninja >/dev/null || packages+=(ninja-build)
    command -v pkg-config >/dev/null || packages+=(pkg-config)
    for name in libc6-dev libzstd-dev liblz4-dev libbrotli-dev libdeflate-dev libsnappy-dev libxxhash-dev liburing-dev libblosc-dev liblzf-dev \
                libaec-dev libyaml-dev libjansson-dev libcmocka-dev; do
        packages+=("$name:arm64")
    done
    dpkg-query -W "${packages[@]}" >/dev/null 2>&1 && return 0
    command -v apt-get >/dev/null || die "the aarch64 build is Debian's: it needs apt-get, or ${packages[*]} by another way"
    [ "$(id -u)" -eq 0 ] || die "as root: dpkg --add-architecture arm64 && apt-get update && apt-get install ${packages[*]}"
    say "installing ${packages[*]}"
    dpkg --add-architecture arm64
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}" >/dev/null
}

# What Debian's packages are built and checked with, on Debian.
setup_deb() {
    local tools=(dpkg-dev lintian) root=()
    dpkg-query -W "${tools[@]}" >/dev/null 2>&1 && dpkg-checkbuilddeps 2>/dev/null && return 0
    command -v apt-get >/dev/null || die "Debian's packages are built on Debian: there is no apt-get"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "as root: apt-get install ${tools[*]} && apt-get build-dep ."
        root=(sudo)
    fi
    say "installing ${tools[*]} and what debian/control names"
    "${root[@]}" apt-get update -q >/dev/null
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${tools[@]}" >/dev/null
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get build-dep -y -q --no-install-recommends . >/dev/null
}

setup_venv() {
    local venv=$1 requirements=$2 python
    python=$(find_python) || die "no Python 3.11 or newer; set PYTHON=/path/to/python3"
    if ! "$venv/bin/python" -c '' 2>/dev/null; then
        say "creating $venv with $python"
        "$python" -m venv "$venv"
    fi
    say "installing $requirements into $venv (once)"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check -r "$requirements"
}

setup_torch() {
    local venv=$1 requirements=$2 pin
    pin=$(grep -E '^torch==' "$requirements")
    "$venv/bin/python" - "$pin" <<'PYTHON' && return 0
import importlib.metadata as metadata, sys
try:
    sys.exit(metadata.version("torch").split("+")[0] != sys.argv[1].split("==")[1])
except metadata.PackageNotFoundError:
    sys.exit(1)
PYTHON
    say "installing $pin into $venv (once)"
    # The CPU build first: the plain name brings gigabytes of CUDA libraries with it on x86-64.
    local pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check)
    "${pip[@]}" --timeout 15 --retries 1 "$pin+cpu" 2>/dev/null ||
        "${pip[@]}" --timeout 15 --retries 1 --extra-index-url "$TORCH_INDEX" "$pin+cpu" 2>/dev/null ||
        "${pip[@]}" "$pin"
}

# What wheels are built with: every file has its hash in the list.
setup_wheel() {
    local venv=$1 requirements=$2 python
    python=$(find_python) || die "no Python 3.11 or newer; set PYTHON=/path/to/python3"
    [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
        die "$python has no Python.h (Debian: python3-dev); set PYTHON to one that has it"
    command -v pkg-config >/dev/null || die "pkg-config is missing (Debian: pkg-config)"
    command -v readelf >/dev/null || die "readelf is missing (Debian: binutils)"
    say "installing $requirements into $venv (once)"
    "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: -r "$requirements"
}

case ${1:-} in
system) setup_system ;;
fuzz) setup_fuzz ;;
deb) setup_deb ;;
venv) setup_venv "$2" "$3" ;;
torch) setup_torch "$2" "$3" ;;
wheel) setup_wheel "$2" "$3" ;;
aarch64) setup_aarch64 ;;
*) die "usage: tools/setup.sh system | fuzz | aarch64 | deb | venv DIR REQUIREMENTS | torch DIR REQUIREMENTS | wheel DIR REQUIREMENTS" ;;
esac
