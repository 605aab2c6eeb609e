#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every kernel is compiled for AMD's GPUs with wavefronts of 64: gfx908 (MI100), gfx90a and gfx942, which are those that
# BERTH_HIP_ARCHITECTURES names. Where hipcc does not know the last one
# (Debian 12's is of LLVM 15), LLVM 19 compiles what runs on the GPU, if it is installed. SOURCE: Berth's folder.
if ! command -v hipcc >/dev/null; then
    echo "skipped: no hipcc"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
with_hipcc() { # ARCHITECTURE FILE
    hipcc -std=c++17 -O2 --offload-arch="$1" -I"$SOURCE/src" -I"$SOURCE/include" -x hip -c "$2" -o "$work/object.o" \
        >"$work/messages" 2>&1
}

# The device libraries have a file for each architecture, with its number; the rest of them is the same for all.
newer=/usr/lib/llvm-19/bin
add_gfx942() {
    local libraries
    libraries=$(find /usr/lib -name oclc_isa_version_90a.bc 2>/dev/null | head -1)
    [ -n "$libraries" ] || { echo "no device libraries"; return 1; }
    for tool in clang++ lld llvm-dis llvm-as; do
        [ -x "$newer/$tool" ] || { echo "no $newer/$tool"; return 1; }
    done
    cp -r "$(dirname "$libraries")" "$work/libraries" || return 1
    "$newer/llvm-dis" "$work/libraries/oclc_isa_version_90a.bc" -o - | sed 's/i32 9010,/i32 9402,/' >"$work/number.ll"
    "$newer/llvm-as" "$work/number.ll" -o "$work/libraries/oclc_isa_version_942.bc"
}
with_newer() { # ARCHITECTURE FILE
    "$newer/clang++" -std=c++17 -O2 --offload-arch="$1" -I"$SOURCE/src" -I"$SOURCE/include" --rocm-path=/usr \
        --rocm-device-lib-path="$work/libraries" -mcode-object-version=4 --cuda-device-only --no-gpu-bundle-output \
        -x hip -c "$2" -o "$work/object.o" >"$work/messages" 2>&1
}

compile_all() { # COMPILER ARCHITECTURE
    for file in "$SOURCE"/src/device/gpu/*.cu; do
        if ! "$1" "$2" "$file"; then
            echo "FAILED: $file for $2"
            grep -E 'error' "$work/messages" | head -5
            failures=$((failures + 1))
        fi
    done
}
echo '#include <hip/hip_runtime.h>' >"$work/empty.cpp"
grep -qF 'set(BERTH_HIP_ARCHITECTURES gfx908 gfx90a gfx942 ' "$SOURCE/src/device/gpu/modules.cmake" ||
    { echo "FAILED: the build is for others"; failures=1; }
for architecture in gfx908 gfx90a; do
    if ! with_hipcc $architecture "$work/empty.cpp"; then
        echo "FAILED: hipcc does not know $architecture: $(head -1 "$work/messages")"
        exit 1
    fi
    compile_all with_hipcc $architecture
done
if with_hipcc gfx942 "$work/empty.cpp"; then
    compile_all with_hipcc gfx942
elif echo "hipcc does not know gfx942: $(head -1 "$work/messages")" && add_gfx942; then
    compile_all with_newer gfx942
else
    echo "skipped: gfx942"
fi
exit $((failures > 0))
