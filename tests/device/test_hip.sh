#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hipcc compiles every kernel for AMD's GPUs with wavefronts of 64: gfx90a, and gfx942 where it knows that one.
# SOURCE: Berth's folder.
if ! command -v hipcc >/dev/null; then
    echo "skipped: no hipcc"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
compile() { # ARCHITECTURE FILE
    hipcc -std=c++17 -O2 --offload-arch="$1" -I"$SOURCE/src" -I"$SOURCE/include" -x hip -c "$2" -o "$work/object.o" \
        >"$work/messages" 2>&1
}
echo '#include <hip/hip_runtime.h>' >"$work/empty.cpp"
for architecture in gfx90a gfx942; do
    if ! compile $architecture "$work/empty.cpp"; then
        echo "hipcc does not know $architecture: $(head -1 "$work/messages")"
        [ $architecture != gfx90a ] || failures=1
        continue
    fi
    for file in "$SOURCE"/src/gpu/*.cu; do
        if ! compile $architecture "$file"; then
            echo "FAILED: $file for $architecture"
            grep -E 'error' "$work/messages" | head -5
            failures=$((failures + 1))
        fi
    done
done
exit $((failures > 0))
