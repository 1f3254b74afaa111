#!/usr/bin/env bash
# A virtual environment with every rival of the benchmarks: Hugging Face datasets, LitData, Grain, scDataset, Ray, and what they need.
#     bench/setup.sh [DIR]        DIR is .demo/rivals-venv by default, where bench/run.py looks for it
# Without it the benchmarks run with the rivals that need only PyTorch and pyarrow, and say which rows they leave out.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-${FOREBAY_BENCH_DIR:-.demo}/rivals-venv}
torch=$(grep -E '^torch==' tests/requirements-torch.txt)
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
pip=("$venv/bin/python" -m pip install -q --disable-pip-version-check)
# The CPU build of torch first: the plain name brings gigabytes of CUDA libraries on x86-64.
"${pip[@]}" "$torch+cpu" 2>/dev/null ||
    "${pip[@]}" --extra-index-url https://download.pytorch.org/whl/cpu "$torch+cpu" 2>/dev/null ||
    "${pip[@]}" "$torch"
# torch is named again so that nothing replaces it.
"${pip[@]}" "$torch" $(grep -E '^(numpy|pandas|pyarrow|h5py)==' tests/requirements.txt) datasets==5.2.0 litdata==0.2.76 \
    grain==0.2.18 scDataset==0.3.0 ray==2.60.0
# LitData brings PyPI's torchvision, which is built for CUDA's torch and fails to load beside the CPU one; LitData needs it for images only.
"$venv/bin/python" -m pip uninstall -q -y torchvision 2>/dev/null || true
echo "rivals in $venv: datasets, litdata, grain, scDataset, ray"
