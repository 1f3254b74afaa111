#!/bin/sh
# Installs into an empty prefix and builds against that copy alone: by pkg-config, by find_package, each header on its own in
# C and, where there is a compiler, in C++; then runs what was built.
#     tests/install/run.sh SOURCE BUILD CMAKE CC
set -eu
source=$1 build=$2 cmake=$3 cc=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log"
find "$prefix" -type f -o -type l | sed "s|^$prefix/||" | sort

libdir=$(dirname "$(find "$prefix" -name forebay.pc)")
# The .pc file has the configured prefix; an installation to another one says so, as packagers do.
export PKG_CONFIG_PATH=$libdir
pc() { pkg-config --define-variable=prefix="$prefix" "$@" forebay; }
export LD_LIBRARY_PATH=$libdir/..

echo '== each header alone, C and C++'
for header in "$prefix"/include/forebay/*.h; do
    name=forebay/$(basename "$header")
    printf '#include <%s>\n' "$name" >"$work/one.c"
    # shellcheck disable=SC2046 # flags are words
    "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror $(pc --cflags) -fsyntax-only "$work/one.c"
    if command -v c++ >/dev/null; then
        c++ -std=c++17 -Wall -Wextra -Werror $(pc --cflags) -fsyntax-only -x c++ "$work/one.c"
    fi
done

echo '== pkg-config'
for example in train_mean read_arrow; do
    # shellcheck disable=SC2046
    "$cc" -std=gnu17 -Wall -Wextra -Werror "$source/examples/$example.c" -o "$work/$example" $(pc --cflags --libs) -lm
done
"$cc" -std=gnu17 -Wall -Wextra -Werror "$source/tests/install/version.c" -o "$work/version" $(pc --cflags --libs)
version=$("$work/version")
[ "$version" = "$(pc --modversion)" ] || { echo "library says $version, forebay.pc says $(pc --modversion)"; exit 1; }

echo '== find_package'
"$cmake" -S "$source/examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$work/cmake.log"
"$cmake" --build "$work/cmake" >>"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }

echo '== what was built runs'
unset LD_LIBRARY_PATH
[ "$("$prefix/bin/forebay" --version)" = "forebay $version" ] # finds its library relative to itself
for program in "$work/cmake/train_mean" "$work/cmake/read_arrow"; do
    status=0
    "$program" 2>"$work/usage" || status=$?
    [ $status = 2 ] && grep -q '^usage:' "$work/usage"
done
golden=$source/tests/golden/parquet/flat_v1_two_groups.parquet
"$work/cmake/read_arrow" "$golden" id
[ "$("$work/cmake/read_arrow" "$golden" id | awk '{ print $NF }')" = 435 ] # 0 + 1 + … + 29
"$work/cmake/train_mean" "$golden" x id | tee "$work/train.log"
[ "$(grep -c '^epoch' "$work/train.log")" = 5 ]
echo "installed copy of $version works"
