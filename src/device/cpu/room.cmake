# SPDX-License-Identifier: Apache-2.0
# The row kernels are one source (src/device/cpu/kernels/) that is compiled once per instruction set;
# everything else is compiled for the base architecture, so that the program starts anywhere.
target_link_libraries(berth_cpu PUBLIC OpenMP::OpenMP_C)

set(BERTH_KERNEL_OPTIMIZATION -O3 CACHE STRING
    "Optimization of the CPU's kernels, whatever the build type (dev/check-same-results lowers it)")
# No -ffast-math, only the promise that nobody reads errno or floating-point traps. Multiply-adds are fused where the
# source says so (kernels/math.h), so that all compilers and instruction sets compute the same bits.
# No function with a vector as its argument is called from elsewhere, so how it is passed is of no concern.
set(kernel_flags ${BERTH_KERNEL_OPTIMIZATION} -ffp-contract=off -fno-math-errno -fno-trapping-math
    -Wno-psabi ${kernel_sanitize_flags})
# GCC marks the scopes of what is inlined into a function that AddressSanitizer leaves out (kernels/sanitizer.h), and nothing
# takes the marks from its stack.
if(BERTH_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND kernel_flags -fno-sanitize-address-use-after-scope)
endif()
set(kernel_avx2_flags -mavx2 -mfma)
set(kernel_avx512_flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
set(kernel_dir ${CMAKE_CURRENT_SOURCE_DIR}/device/cpu)
# This pass of clang 16 and 17 does not end where a word is spread over a vector of bf16.
if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND CMAKE_C_COMPILER_VERSION MATCHES "^1[67]\\.")
  set(kernel_bf16_flags -mllvm -disable-vector-combine)
endif()
set_source_files_properties(${kernel_dir}/kernels_generic.c PROPERTIES
  COMPILE_OPTIONS "${kernel_flags}")
set_source_files_properties(${kernel_dir}/kernels_int8_generic.c PROPERTIES
  COMPILE_OPTIONS "${kernel_flags}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${kernel_dir}/kernels_fma.c PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};-mfma")
  set_source_files_properties(${kernel_dir}/kernels_avx2.c PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};${kernel_avx2_flags}")
  set_source_files_properties(${kernel_dir}/kernels_avx512.c PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};${kernel_avx512_flags}")
  set_source_files_properties(${kernel_dir}/kernels_avx512bf16.c PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};${kernel_avx512_flags};-mavx512bf16;-mamx-tile;-mamx-bf16;${kernel_bf16_flags}")
  foreach(row "avx2;${kernel_avx2_flags}" "avxvnni;${kernel_avx2_flags};-mavxvnni"
      "avx512vnni;${kernel_avx512_flags};-mavx512vnni"
      "avx512bf16;${kernel_avx512_flags};-mavx512vnni;-mavx512bf16")
    list(POP_FRONT row name)
    set_source_files_properties(${kernel_dir}/kernels_int8_${name}.c PROPERTIES
      COMPILE_OPTIONS "${kernel_flags};${row}")
  endforeach()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set_source_files_properties(${kernel_dir}/kernels_neonbf16.c PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};-march=armv8.2-a+bf16")
  set_source_files_properties(${kernel_dir}/kernels_int8_dotprod.c PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};-march=armv8.2-a+dotprod")
endif()
