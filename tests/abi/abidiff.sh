#!/bin/sh
# The library against the kept description, and a planted break that must be found. 77 where libabigail is not installed.
#     tests/abi/abidiff.sh SOURCE LIBRARY
set -eu
source=$1 library=$2
status=0
"$source/tools/abidiff.sh" "$library" || status=$?
[ $status -eq 0 ] || exit $status
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gzip -dc "$source/tests/abi/libforebay.abi.gz" >"$work/kept"
# fby_error.file_offset a word further back than it was: what moving a field does.
sed "/<class-decl name='fby_error'/,/<\/class-decl>/ s/layout-offset-in-bits='64'/layout-offset-in-bits='128'/" "$work/kept" >"$work/moved"
cmp -s "$work/kept" "$work/moved" && { echo "nothing was planted: fby_error is described in another way"; exit 1; }
gzip -n "$work/moved"
if FOREBAY_ABI_KEPT=$work/moved.gz "$source/tools/abidiff.sh" "$library" >/dev/null; then
    echo "a field that moved was not found"
    exit 1
fi
echo "the ABI is the kept one, and a planted break is found"
