#!/usr/bin/env bash
# The wheel for aarch64 with Debian's Python of that architecture under qemu-user: the batches of the recipes and the values of expr beside those of this
# machine, then the Python tests of the core. Needs root, apt-get, binfmt_misc, and the Python package of this machine (`make python`).
#     tools/aarch64_python.sh WHEEL PYTHON [FOLDER]     PYTHON: this machine's, with the tests' packages; FOLDER, kept: build-aarch64/python
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(realpath "$1") python=$2 work=${3:-$here/build-aarch64/python}
core=(loader open outputs ops windows groups resume csv ipc make_encode make_sample lookup mix missing sampling transform hdf5_tables hdf5_netcdf pipeline)
die() { printf 'aarch64_python.sh: error: %s\n' "$*" >&2; exit 1; }
cd "$here"
mkdir -p "$work"

tools/setup.sh aarch64 # the architecture, for apt-get
version=$(apt-cache depends python3-minimal | sed -n 's/.*Depends: python\(3\.[0-9]*\)-minimal.*/\1/p')
if [ ! -x "$work/bin/python$version" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "libpython$version-stdlib:arm64" libexpat1:arm64 binfmt-support qemu-user-static \
        >"$work/apt.log" 2>&1 || { tail "$work/apt.log"; exit 1; }
    # The program itself cannot lie beside this machine's: only its file is taken.
    (cd "$work" && apt-get download -q "python$version-minimal:arm64" && dpkg-deb -x python*.deb deb) >>"$work/apt.log" 2>&1
    mkdir -p "$work/bin"
    cp "$work/deb/usr/bin/python$version" "$work/bin/"
fi
"$work/bin/python$version" -c '' 2>/dev/null ||
    die "the kernel does not start programs of aarch64: binfmt_misc, with qemu-aarch64-static (Debian: update-binfmts --enable qemu-aarch64)"
site=$work/venv/lib/python$version/site-packages
install() { # from here: pip would take minutes there
    "$python" -m pip install -q --disable-pip-version-check --target "$site" --upgrade --only-binary :all: --implementation cp --python-version "$version" \
        --abi "cp${version/./}" --abi abi3 --abi none --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_26_aarch64 \
        --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 --platform any "$@"
}
if [ ! -e "$work/.stamp" ]; then
    "$work/bin/python$version" -m venv --without-pip --clear "$work/venv"
    grep -E '^(numpy|pandas|pyarrow|pytest|hypothesis|h5py|hdf5plugin|netCDF4)==' tests/requirements.txt >"$work/requirements.txt"
    install -r "$work/requirements.txt"
    touch "$work/.stamp"
fi
install --no-deps "$wheel"
there=$work/venv/bin/python
"$there" -c 'import forebay, platform; print("forebay", forebay.__version__, "on", platform.machine())'

echo "== the batches of the recipes, here and there"
[ -d "$work/generated" ] || { "$python" tools/recipe_batches.py generate "$work/generated.part" && mv "$work/generated.part" "$work/generated"; }
"$python" tools/recipe_batches.py "$work/generated" "$work/here.json"
"$there" tools/recipe_batches.py "$work/generated" "$work/there.json"
"$python" tools/batch_hashes.py "$work/here.json" "$work/there.json"
echo "== the functions of expr" # of two wheels, or of two builds by one compiler: a wheel's compiler brings some of them along
"$python" tools/expr_values.py "$work/here.npy"
"$there" tools/expr_values.py "$work/there.npy"
"$python" tools/expr_values.py "$work/here.npy" "$work/there.npy"
echo "== the core, there"
FOREBAY_CLI=$site/bin/forebay "$there" -m pytest -q $(printf 'tests/python/test_%s.py ' "${core[@]}")
