#!/bin/sh
# Only fby_ leaves the library, and everything the public headers declare does.
#     tools/check_symbols.sh build/libforebay.so include/forebay
set -eu
lib=$1
headers=$2

# Defined dynamic symbols; the version node itself (type A) is no symbol of ours.
exported=$(nm -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
# A declaration ends in a semicolon; joined lines, so that wrapped ones count too.
declared=$(cat "$headers"/*.h | grep -v '^#' | tr '\n' ' ' | sed 's/;/;\n/g' | grep -o 'FBY_API .*;' |
           sed 's/(.*//; s/.*[ *]//' | sort -u)
status=0

strangers=$(printf '%s\n' "$exported" | grep -v '^fby_[a-z]' || true)
if [ -n "$strangers" ]; then
    printf 'exported, but not fby_:\n%s\n' "$strangers"
    status=1
fi
for name in $declared; do
    if ! printf '%s\n' "$exported" | grep -qx "$name"; then
        echo "declared in $headers, but not exported: $name"
        status=1
    fi
done
for name in $exported; do
    if ! printf '%s\n' "$declared" | grep -qx "$name"; then
        echo "exported, but declared in no public header: $name"
        status=1
    fi
done
echo "check_symbols: $(printf '%s\n' "$exported" | wc -l) exported, $(printf '%s\n' "$declared" | wc -l) declared"
exit $status
