#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lets cuDNN check the graphs of attention, without a GPU (check_cudnn_plans.cpp). Skipped without cuDNN.
# SOURCE: the repository; CXX: a C++ compiler; LIBRARIES: the folder of CUDA's libraries, or nothing.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$CXX" -x c -Wall -Wextra -Werror -shared -fPIC "$SOURCE/tests/device/driver_without_gpu.c" -o "$work/libcuda.so.1" &&
    "$CXX" -std=c++17 -Wall -Wextra -Werror -I"$SOURCE/src" "$SOURCE/tests/device/check_cudnn_plans.cpp" -ldl \
        -o "$work/check" || exit 1
LD_LIBRARY_PATH=$work:$LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$work/check"
