#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An installed tree is complete, can be moved, and needs nothing but pkg-config: the example is built
# against the shared and against the static library; the header stands alone under C11.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() {
    echo "FAILED: $1" >&2
    [ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
    exit 1
}

"$CMAKE" --install "$BUILD" --prefix "$work/first" >"$work/log" 2>&1 || die "installing"
mv "$work/first" "$work/moved"
root=$work/moved
pc=$(find "$root" -name berth.pc)
[ -n "$pc" ] || die "no berth.pc"
export PKG_CONFIG_PATH=${pc%/*}
package() { pkg-config --define-prefix "$@" berth; }
library=$(package --variable=libdir)
for file in "$root/include/berth.h" "$library/libberth.a" "$library/libberth.so" "$root/bin/berth"; do
    [ -s "$file" ] || die "$file is not installed"
done
[ "$(package --modversion)" = "$BERTH_VERSION" ] || die "pkg-config tells another version"
"$root/bin/berth" --version 2>"$work/log" | grep -qF "$BERTH_VERSION" ||
    die "the program tells another version"

sanitize=${SANITIZE:+-fsanitize=$SANITIZE}
echo '#include <berth.h>' >"$work/alone.c"
# shellcheck disable=SC2046
"$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror $(package --cflags) -fsyntax-only "$work/alone.c" \
    2>"$work/log" || die "the header does not stand alone"

# shellcheck disable=SC2046
"$CC" $sanitize "$EXAMPLE_SOURCE" $(package --cflags --libs) -o "$work/shared" 2>"$work/log" ||
    die "building against the shared library"
# shellcheck disable=SC2046
"$CC" $sanitize "$EXAMPLE_SOURCE" $(package --cflags) \
    $(package --libs --static | sed 's/-lberth /-l:libberth.a /') -o "$work/static" 2>"$work/log" ||
    die "building against the static library"

for kind in shared static; do
    path=
    [ "$kind" = static ] || path=$library
    LD_LIBRARY_PATH=$path "$work/$kind" >"$work/log" 2>&1
    [ $? -eq 2 ] || die "$kind: no arguments should be exit code 2"
    LD_LIBRARY_PATH=$path "$work/$kind" "$work/none" 'Where?' 'There.' >"$work/log" 2>&1
    [ $? -eq 66 ] || die "$kind: a missing model should be exit code 66"
    grep -qF "$work/none" "$work/log" || die "$kind: the error does not name the folder"
done
echo "all good"
