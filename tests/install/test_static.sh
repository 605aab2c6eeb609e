#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the static program, for ARM64 too where its compiler and qemu are; it needs no file beside it, is no larger than
# it may be, and is used in an empty root (bare.py) and by tests of the program. Long: it builds a C library and OpenSSL.
#
# BERTH_STATIC names a folder of a finished package/static/build instead; BERTH_STATIC_LIBRARIES one of
# package/static/libraries. BERTH: the program of this build.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
tests=$(dirname "$here")
export PYTHONDONTWRITEBYTECODE=1
for tool in dpkg-source openssl readelf perl; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
unshare -rn true 2>/dev/null || { echo "skipped: no namespaces"; exit 77; }
expect_size() { # FILE LIMIT
    [ "$(stat -c %s "$1")" -le "$2" ] || die "$1 has $(stat -c %s "$1") bytes, more than $2"
}

processors=x86_64
command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64-static >/dev/null && processors="x86_64 aarch64"
folder=${BERTH_STATIC:-$work/out}
for processor in $processors; do
    if [ -z "${BERTH_STATIC:-}" ]; then
        "$SOURCE/package/static/build" "$folder" "$processor" >"$work/log" 2>&1 || {
            grep -q "package/static/libraries: cannot download" "$work/log" && { echo "skipped: no packages of Debian"; exit 77; }
            die "building for $processor"
        }
    fi
    program=$(ls "$folder"/berth-*-"$processor") || die "no program for $processor"
    readelf -lWd "$program" >"$work/log"
    grep -qE 'INTERP|NEEDED' "$work/log" && die "$program needs other files"
    expect_size "$program" 12000000
    build=$folder/build-$processor
    { cmake -S "$SOURCE" -B "$build" -DBERTH_CURL=OFF && cmake --build "$build" --target berth; } >"$work/log" 2>&1 || die "without fetch"
    expect_size "$build/berth" 8000000
    emulator=
    [ "$processor" = x86_64 ] || emulator=$(command -v "qemu-$processor-static")
    # shellcheck disable=SC2086
    unshare -rn "$here/bare.py" "$program" "$tests/golden/encoder" $emulator >"$work/log" 2>&1 || die "in an empty root, $processor"
    # The bytes of every machine, by musl and for ARM64; ranks and a server are not tried where there is a runner.
    # shellcheck disable=SC2046
    BERTH_RUNNER=${emulator:-env} python3 "$tests/cli/same_bytes.py" "$program" "$SOURCE" $([ -z "$emulator" ] || echo generic) \
        >"$work/log" 2>&1 || die "other bytes, $processor"
done
(cd "$folder" && sha256sum --quiet -c SHA256SUMS) >"$work/log" 2>&1 || die "SHA256SUMS"

# Against sentence-transformers' numbers, and what depends on the C library and on OpenMP's.
program=$work/bin/berth # a name by which documents call it
mkdir "$work/bin"
cp "$folder"/berth-*-x86_64 "$program"
for precision in fp32 int8; do
    embed="embed --model $tests/golden/encoder --precision $precision $tests/golden/README.md"
    # shellcheck disable=SC2086
    { "$program" $embed >"$work/vectors" && "$BERTH" $embed >"$work/expected"; } 2>"$work/log" || die "berth embed"
    cmp "$work/vectors" "$work/expected" || die "other vectors than the program that needs libraries, $precision"
done
for name in gguf foreign_files; do
    python3 "$tests/cli/$name.py" "$program" "$SOURCE" >"$work/log" 2>&1 || die "tests/cli/$name.py"
done
for name in streams spinning texts embed squad tokenizer; do
    BERTH=$program bash "$tests/cli/test_$name.sh" >"$work/log" 2>&1 || die "tests/cli/test_$name.sh"
done
echo "all good"
