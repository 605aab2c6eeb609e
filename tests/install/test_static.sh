#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the static program, for ARM64 too where its compiler and qemu are; it needs no file beside it, stays below its
# size, and is used in an empty root (bare.py) and by tests of the program. Long: it builds a C library and OpenSSL.
#
# BERTH_STATIC names a folder of a finished package/static/build instead; BERTH_STATIC_LIBRARIES one of
# package/static/libraries. ON_TERMINAL: of tests/cli.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
tests=$(dirname "$here")
export PYTHONDONTWRITEBYTECODE=1
for tool in dpkg-source openssl readelf perl; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
unshare -rn true 2>/dev/null || { echo "skipped: no namespaces"; exit 77; }
size_limit=8000000 # bytes, with fetch and serve

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
    [ "$(stat -c %s "$program")" -le $size_limit ] || die "$program has $(stat -c %s "$program") bytes"
    emulator=
    [ "$processor" = x86_64 ] || emulator=$(command -v "qemu-$processor-static")
    # shellcheck disable=SC2086
    unshare -rn "$here/bare.py" "$program" "$tests/golden/encoder" $emulator >"$work/log" 2>&1 || die "in an empty root, $processor"
done
(cd "$folder" && sha256sum --quiet -c SHA256SUMS) >"$work/log" 2>&1 || die "SHA256SUMS"

# Against sentence-transformers' numbers, and what else depends on the C library: names of files, streams, terminals.
program=$(ls "$folder"/berth-*-x86_64)
for name in embeddings cross_encoders sentences; do
    python3 "$tests/cli/$name.py" "$program" "$SOURCE" >"$work/log" 2>&1 || die "tests/cli/$name.py"
done
for name in launchers streams embed squad tokenizer; do
    BERTH=$program bash "$tests/cli/test_$name.sh" >"$work/log" 2>&1 || die "tests/cli/test_$name.sh"
done
echo "all good"
