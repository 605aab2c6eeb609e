#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that an installed tree is complete, can be moved, and needs only pkg-config. Programs are built
# against the shared and against the static library, including one that defines all of the library's internal
# names; the header compiles alone under C11. berth.pc is correct for any folders.
. "$(dirname "$0")/lib.sh"
package() { pkg-config "$@" berth; }
sanitize=${SANITIZE:+-fsanitize=$SANITIZE}

# --- the tree ---
root=$work/tree
"$CMAKE" --install "$BUILD" --prefix "$root" >"$work/log" 2>&1 || die "installing"
pc=$(find "$root" -name berth.pc)
[ -n "$pc" ] || die "no berth.pc"
export PKG_CONFIG_PATH=${pc%/*}
library=$(package --variable=libdir)
for file in "$root/include/berth.h" "$library/libberth.a" "$library/libberth.so" "$root/bin/berth"; do
    [ -s "$file" ] || die "$file is not installed"
done
[ "$(package --modversion)" = "$BERTH_VERSION" ] || die "pkg-config reports another version"
"$root/bin/berth" --version 2>"$work/log" | grep -qF "$BERTH_VERSION" ||
    die "the program reports another version"

# --- what shells and man look for ---
share=$root/share
for file in man/man1/berth.1 man/man1/berth-finetune-squad.1 man/man7/berth-environment.7 \
    bash-completion/completions/berth zsh/site-functions/_berth fish/vendor_completions.d/berth.fish; do
    [ -s "$share/$file" ] || die "$share/$file is not installed"
done
# --help says where the documents are, and each that one of them links to is there.
index=$("$root/bin/berth" --help | sed -n '/^documents:$/{n;s/^ *//p}')
[ "$index" = "$(realpath "$share/doc/berth/doc/index.md")" ] || die "--help does not say where the documents are: $index"
for link in $(grep -oE '\]\([a-z/.-]+\.md' "$index" | cut -c3-); do
    [ -s "${index%/*}/$link" ] || die "$index: no $link"
done
[ -z "$(find "$share/man/man1" -name '*.7')$(find "$share/man/man7" -name '*.1')" ] || die "pages in another section"

for mpi in $BERTH_MPIS; do
    "$root/bin/berth" doctor 2>&1 | grep -qE "^comm_modules .*$mpi \(" ||
        die "the installed program does not find the module for $mpi"
done

echo '#include <berth.h>' >"$work/alone.c"
# shellcheck disable=SC2046
"$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror $(package --cflags) -fsyntax-only "$work/alone.c" \
    2>"$work/log" || die "the header does not compile alone"

# --- names: the library exports exactly what the header declares ---
grep -v '^static inline' "$root/include/berth.h" | grep -oE '\bberth_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$work/declared"
# While the major number is 0, another minor version may be incompatible.
soname=libberth.so.${BERTH_VERSION%%.*}
[ "${BERTH_VERSION%%.*}" -gt 0 ] || soname=libberth.so.${BERTH_VERSION%.*}
readelf -d "$library/libberth.so" >"$work/log"
grep -qF "soname: [$soname]" "$work/log" || die "the library's soname is not $soname"

nm -D --defined-only "$library/libberth.so" | awk '{print $3}' | sort -u >"$work/shared.names"
nm -g --defined-only "$library/libberth.a" | awk 'NF == 3 {print $3}' | sort -u >"$work/static.names"
for kind in shared static; do
    diff "$work/declared" "$work/$kind.names" >"$work/log" ||
        die "$kind: the names are not those of berth.h"
done

# --- programs --- build KIND PROGRAM SOURCE...: against one of the libraries only ----------------
mkdir "$work/only-static"
cp "$library/libberth.a" "$work/only-static"
build() {
    local kind=$1 program=$2
    shift 2
    if [ "$kind" = shared ]; then
        # shellcheck disable=SC2046
        "$CC" $sanitize "$@" $(package --cflags --libs) -o "$program"
    else
        # shellcheck disable=SC2046
        "$CC" $sanitize "$@" $(package --cflags) "-L$work/only-static" \
            $(package --libs --static | sed "s|-L$library ||") -o "$program"
    fi >"$work/log" 2>&1 || die "building ${program##*/} against the $kind library"
}

find "$BUILD/src" -path '*/berth_*.dir/*.o' -exec nm -g --defined-only {} + |
    awk 'NF == 3 && $3 ~ /^[a-zA-Z_][a-zA-Z_0-9]*$/ && $3 !~ /^(berth|__)/ {print $3}' | sort -u >"$work/inside"
grep -qx file_exists "$work/inside" || die "the names inside were not found"
{
    echo 'void abort(void);'
    sed 's/.*/void &(void) { abort(); }/' "$work/inside"
} >"$work/clash.c"

mkdir "$work/models"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' hello wor '##ld' 1 . 5 >"$work/models/vocab.txt"
for model in a b; do
    size=16
    [ "$model" = a ] || size=24
    cat >"$work/models/$model.json" <<END
{"model_type": "bert", "vocab_size": 11, "hidden_size": $size, "num_hidden_layers": 2, "num_attention_heads": 2,
 "intermediate_size": 32, "max_position_embeddings": 64, "initializer_range": 0.25}
END
done

for kind in shared static; do
    path=
    [ "$kind" = static ] || path=$library
    build $kind "$work/$kind" "$EXAMPLE_SOURCE"
    LD_LIBRARY_PATH=$path "$work/$kind" >"$work/log" 2>&1
    [ $? -eq 2 ] || die "$kind: no arguments should be exit code 2"
    LD_LIBRARY_PATH=$path "$work/$kind" "$work/none" 'Where?' 'There.' >"$work/log" 2>&1
    [ $? -eq 66 ] || die "$kind: a missing model should be exit code 66"
    grep -qF "$work/none" "$work/log" || die "$kind: the error does not name the folder"

    build $kind "$work/$kind-embedder" "$EMBEDDER_SOURCE" -w -fno-builtin "$work/clash.c" -pthread
    for locale in C ${LOCALES:+test_TR.UTF-8}; do
        rm -rf "$work/models/a" "$work/models/b"
        LD_LIBRARY_PATH=$path "$work/$kind-embedder" "$work/models" "$locale" ${LOCALES:+"$LOCALES"} \
            >"$work/$kind.$locale" 2>"$work/log"
        code=$?
        [ ! -s "$work/log" ] || die "$kind, locale $locale: something printed on standard error"
        cp "$work/$kind.$locale" "$work/log"
        [ "$code" -eq 0 ] || die "$kind, locale $locale: a program with names of its own, exit code $code"
        grep -v '^[0-9]* numbers, the same in a thread:' "$work/log" && die "$kind, locale $locale: something printed"
        cmp -s "$work/shared.C" "$work/log" || die "$kind, locale $locale: other numbers"
    done
done

# --- a tree that was moved ---
mv "$root" "$work/moved"
PKG_CONFIG_PATH=$work/moved${PKG_CONFIG_PATH#"$root"}
[ "$(package --define-prefix --variable=includedir)" = "$work/moved/include" ] ||
    die "the moved tree's header is not found"

# --- folders that are not below the prefix, and OpenMP's library (clang's) where only CMake finds it ---
mkdir "$work/open mp"
cp "$("$CC" -print-file-name=libgomp.so)" "$work/open mp/libomp.so"
"$CMAKE" -S "$SOURCE" -B "$work/build" -DBERTH_BUILD_TESTS=OFF "-DCMAKE_C_COMPILER=$CC" \
    "-DCMAKE_INSTALL_LIBDIR=$work/elsewhere/lib" "-DCMAKE_INSTALL_INCLUDEDIR=$work/headers" \
    -DOpenMP_C_FLAGS=-fopenmp -DOpenMP_C_LIB_NAMES=omp "-DOpenMP_omp_LIBRARY=$work/open mp/libomp.so" \
    >"$work/log" 2>&1 || die "configuring with absolute folders"
"$CMAKE" --install "$work/build" --prefix "$work/unused" --component headers >"$work/log" 2>&1 ||
    die "installing into absolute folders"
PKG_CONFIG_PATH=$work/elsewhere/lib/pkgconfig
[ "$(package --variable=includedir)" = "$work/headers" ] && [ -s "$work/headers/berth.h" ] ||
    die "berth.h is not where berth.pc says"
[ "$(package --variable=libdir)" = "$work/elsewhere/lib" ] ||
    die "the library is not where berth.pc says"
[ "$(package --variable=prefix)" = "$work/unused" ] ||
    die "berth.pc has not the prefix of the installation"
words=()
eval "words=($(package --libs --static))"
[[ " ${words[*]} " = *" -L$work/open mp -lomp "* ]] || die "berth.pc does not say where OpenMP's library is: ${words[*]}"
grep -qF -- "-L\\\"$work/open mp\\\";-lomp" "$work"/elsewhere/lib/cmake/berth/berth-targets.cmake ||
    die "the CMake package does not say where OpenMP's library is"

# --- a prefix with blanks, named from where one is ---
mkdir "$work/a folder"
(cd "$work/a folder" && "$CMAKE" --install "$BUILD" --prefix "its prefix" --component headers) >"$work/log" 2>&1 ||
    die "installing into a prefix with blanks"
PKG_CONFIG_PATH=$(dirname "$(find "$work/a folder" -name berth.pc)")
[ "$(package --variable=prefix)" = "$work/a folder/its prefix" ] || die "berth.pc has a relative prefix"
eval "words=($(package --cflags --libs))"
[ "${words[0]}" = "-I$work/a folder/its prefix/include" ] && [ "${words[1]}" = "-L$(package --variable=libdir)" ] ||
    die "berth.pc: a prefix with blanks: ${words[*]}"
echo "all good"
