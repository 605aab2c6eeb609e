# SPDX-License-Identifier: Apache-2.0
# The device modules berth-device-NAME.so: the same kernels for each kind of GPU, and for the
# emulation. Nothing else of Berth is C++, and a build without it is complete but for these files.
option(BERTH_EMULATED_DEVICE "Build the emulated GPU (needs a C++ compiler)" ON)

set(gpu_sources attention.cu attention_mma.cu device.cu linear.cu loss.cu norm.cu optimizer.cu rows.cu)
list(TRANSFORM gpu_sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/gpu/)

function(add_emulated_device target)
  add_library(${target} MODULE ${gpu_sources} ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation.cpp
                               ${CMAKE_CURRENT_SOURCE_DIR}/gpu/gemm_host.cpp)
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti)
  target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
endfunction()

set(BERTH_DEVICES)
if(BERTH_EMULATED_DEVICE)
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    set_source_files_properties(${gpu_sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
    add_emulated_device(berth-device-emulated)
    berth_module(berth-device-emulated berth_device_module)
    list(APPEND BERTH_DEVICES emulated)
    if(BERTH_BUILD_TESTS) # warps of 64 threads, as AMD's GPUs have; the same file in its own folder
      add_emulated_device(berth-device-emulated-64)
      berth_module_not_installed(berth-device-emulated-64 berth_device_module)
      target_compile_definitions(berth-device-emulated-64 PRIVATE GPU_WARP=64)
      set_target_properties(berth-device-emulated-64 PROPERTIES OUTPUT_NAME berth-device-emulated
                            LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/warps_of_64)
    endif()
  endif()
endif()
set(BERTH_DEVICES ${BERTH_DEVICES} PARENT_SCOPE) # for the tests
list(JOIN BERTH_DEVICES " and " names)
message(STATUS "  device modules: ${names}")
