#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RELIABILITY 44: a checkpoint of every release (releases/VERSION, made by dev/fixtures/make_release.sh) is intact,
# predicts, and its run goes on with the words of that time to the losses of that time. With moments, masks or an order of
# the data other than its own the losses would differ by more.
. "$(dirname "$0")/lib.sh"
releases=$(cd "$(dirname "$0")/releases" && pwd)
tried=0
for release in "$releases"/*/; do
    cp -r "$release" "$work/release"
    cd "$work/release" || exit 1
    run verify checkpoint-3
    expect_code 0
    run predict squad --model checkpoint-3 --input data.json --output answers --threads 1 --quiet
    expect_code 0
    run finetune squad --model checkpoint-3 --resume_from_checkpoint checkpoint-3 --output run --quiet $(cat words)
    expect_code 0
    losses_of run/checkpoint-6 >losses.now
    paste losses losses.now | awk 'NF != 2 || ($1 - $2) ^ 2 > 1e-8 { wrong = 1 } END { exit wrong || NR != 6 }' ||
        fail "other losses: $(paste losses losses.now)"
    cd "$work" && rm -rf release
    tried=$((tried + 1))
done
[ $tried -ge 1 ] || fail "no release"
finish
