#!/usr/bin/env bash
# The library's types and symbols against the description that is kept (tests/abi/libforebay.abi.gz), by libabigail, which reads the debug information.
#     tools/abidiff.sh LIBRARY            what would break programs, or nothing; exit 77 where libabigail is not installed
#     tools/abidiff.sh LIBRARY --keep     the library as it is becomes the one that is kept: at a release
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
library=$1 kept=${FOREBAY_ABI_KEPT:-$here/tests/abi/libforebay.abi.gz}
command -v abidiff >/dev/null || { echo "libabigail is not installed (Debian: abigail-tools)"; exit 77; }
describe() { abidw --headers-dir "$here/include" --drop-private-types --no-corpus-path --no-show-locs --no-comp-dir-path --type-id-style hash "$1"; }
if [ "${2:-}" = --keep ]; then
    describe "$library" | gzip -9n >"$kept"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gzip -dc "$kept" >"$work/kept.abi"
describe "$library" >"$work/now.abi"
# Added functions are no break; which structs may grow at their end, abidiff.suppr says.
status=0
abidiff --no-added-syms --suppressions "$here/tests/abi/abidiff.suppr" "$work/kept.abi" "$work/now.abi" || status=$?
[ $((status & 12)) -eq 0 ] || { echo "abidiff: the ABI of $library differs from $kept: see CONTRIBUTING.md, Versions and the ABI"; exit 1; }
