#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The emulation catches wrong kernels (broken_kernels.cpp) in every order of threads, by wrong numbers or by a message that
# names the kernel, and accepts correct ones. KERNELS: that program; COUNTED: the same with counted loads and stores, empty
# with sanitizers; SANITIZED: the sanitizers.
BERTH=$KERNELS
. "$(dirname "$0")/../cli/lib.sh"

finds() { # ORDER ANSWER NAME
    export BERTH_EMULATION_ORDER=$1
    run "$3"
    what="$1: $3"
    expect_code 0
    [ "$(cat "$out")" = "$2" ] || fail "expected $2"
}
refuses() { # NAME TEXT...
    local text
    run "$1"
    what=$1
    [ "$code" -ge 128 ] || [ -n "$SANITIZED" ] && [ "$code" -ne 0 ] || fail "exit code $code"
    for text in "${@:2}"; do
        expect_err "$text"
    done
}
for order in forward reverse random; do
    for name in sum left right copy vectors copies; do
        finds $order right "$name"
    done
    # Shared memory that was never written is NaN.
    for name in "sum without a barrier" "sum of a part too many" "copies that nobody waits for"; do
        finds $order wrong "$name"
    done
done
# Only one of the orders shows these.
finds forward wrong "left without a barrier"
finds reverse right "left without a barrier"
finds forward right "right without a barrier"
finds reverse wrong "right without a barrier"
finds forward right "copies without a barrier"
finds reverse wrong "copies without a barrier"

# An upload from memory that is not pinned, memory of no bytes, a launch for another GPU than the thread's.
finds forward "1 0 null 400" "refused calls"

BERTH_EMULATION_ORDER=backwards
refuses sum "expected forward, reverse or random, found \"backwards\""
for BERTH_EMULATION_ORDER in forward reverse random; do
    refuses "half a barrier" "emulated GPU: kernel kernel, block (0, 0, 0): 64 of 128 threads wait at the barrier" \
        "broken_kernels.cpp:" ", the others have returned"
    refuses "two barriers" "threads are at the barriers"
    refuses "lanes that returned" "waits for lanes that have returned"
    refuses "two shuffles" "at once"
    refuses "sum by half a mask" "is not in its own mask"
    refuses "a lane outside the mask" "which is not in the mask"
    refuses "vectors at a wrong address" "misaligned 16-byte vector at"
    refuses "too much shared memory" "bytes of shared memory, the limit is"
done

# Beyond the end of device memory.
if [ -n "$SANITIZED" ]; then
    refuses "copy that reads a number too far" "heap-buffer-overflow"
    refuses "copy that writes a number too far" "heap-buffer-overflow"
    finish
fi
finds forward wrong "copy that reads a number too far"
refuses "copy that writes a number too far" "emulated GPU: the memory after a block of 1536 bytes was written"
BERTH=$COUNTED
finds forward right copy
refuses "copy that reads a number too far" "kernel kernel reads 4 bytes at offset 1536 of a block of 1536 bytes"
refuses "copy that writes a number too far" "kernel kernel writes 4 bytes at offset 1536 of a block of 1536 bytes"
finish
