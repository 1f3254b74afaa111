#!/bin/sh
# Programs of the kept headers (headers/) with the library as it is, and with one that has an option more; and what check_abi.py says of changes.
#     tests/abi/run.sh SOURCE CC LIBRARY PYTHON
set -eu
source=$1 cc=$2 library=$3 python=$4
here=$source/tests/abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags='-std=gnu17 -Wall -Wextra -Werror'

echo '== an old program, the library as it is'
# shellcheck disable=SC2086 # flags are words
"$cc" $flags -I "$here/headers" "$here/old_program.c" -o "$work/old_program" "$library" -Wl,-rpath,"$(dirname "$library")"
"$work/old_program" "$source/tests/golden/parquet/flat_v1_two_groups.parquet" x id

echo '== options on trial: every struct that may grow gets a field'
cp -r "$source/include" "$work/include"
"$python" "$source/tools/check_abi.py" --growing >"$work/growing"
[ "$(wc -l <"$work/growing")" -ge 20 ] || { echo "few structs may grow:"; cat "$work/growing"; exit 1; }
while read -r header struct; do
    sed -i "s/^} $struct;/    uint64_t on_trial;\n} $struct;/" "$work/include/forebay/$header"
done <"$work/growing"
[ "$(cat "$work"/include/forebay/*.h | grep -c on_trial)" -eq "$(wc -l <"$work/growing")" ]
"$python" "$source/tools/check_abi.py" "$cc" --headers="$work/include"

echo '== options of an old program, taken by a library that has those'
# shellcheck disable=SC2086
"$cc" $flags -I "$here/headers" -c "$here/old_options.c" -o "$work/old_options.o"
# shellcheck disable=SC2086
"$cc" $flags -D_GNU_SOURCE -I "$work/include" -I "$source/src" "$here/trial.c" "$work/old_options.o" "$source"/src/options/*.c \
    "$source/src/base/sized.c" "$source/src/base/arena.c" "$source/src/base/alloc.c" "$source/src/base/error.c" "$source/src/base/printable.c" \
    "$source/src/base/utf8.c" -o "$work/trial"
"$work/trial"

echo '== what would break programs is said'
breaks() { # file, sed script, what is said
    rm -rf "$work/broken"
    cp -r "$source/include" "$work/broken"
    sed -i "$2" "$work/broken/forebay/$1"
    if "$python" "$source/tools/check_abi.py" "$cc" --headers="$work/broken" >"$work/said"; then
        echo "nothing was said of $2"
        exit 1
    fi
    grep "$3" "$work/said" || { cat "$work/said"; exit 1; }
}
breaks loader.h 's/^    uint64_t batch_size;/    uint64_t on_trial;\n&/' 'fby_loader_opts.batch_size was 8 bytes at'
breaks loader.h 's/^    uint64_t seed;/    int64_t seed;/' 'fby_loader_opts.seed was uint64_t and is int64_t'
breaks loader.h 's/^    bool transform_unchecked;/    bool transform_unchecked, on_trial;/' 'fby_loader_opts.on_trial is new and lies at'
breaks dataset.h 's/^} fby_source;/    int on_trial;\n} fby_source;/' 'fby_source has no size and no stride'
breaks transform.h 's/FBY_GROUP_MOMENTS 6/FBY_GROUP_MOMENTS 7/' 'FBY_GROUP_MOMENTS was 6 and is 7'
breaks samples.h 's/FBY_SPLIT_FILES,/FBY_SPLIT_ON_TRIAL, &/' 'FBY_SPLIT_FILES was 0 and is 1'
breaks samples.h 's/uint64_t n, bool random, uint64_t seed/uint64_t n, uint64_t seed/' 'fby_samples_limit was'

echo '== what would break programs is not kept'
mkdir -p "$work/broken-tree/tests/abi"
cp -r "$source/tools" "$source/include" "$work/broken-tree"
cp -r "$here/headers" "$here/symbols" "$work/broken-tree/tests/abi"
sed -i 's/^    uint64_t seed;/    int64_t seed;/' "$work/broken-tree/include/forebay/loader.h"
if "$python" "$work/broken-tree/tools/check_abi.py" "$cc" "$library" --keep >"$work/said"; then
    echo "a break was kept"
    exit 1
fi
grep 'nothing is kept' "$work/said"
diff -r "$here/headers" "$work/broken-tree/tests/abi/headers"
