# SPDX-License-Identifier: Apache-2.0
# The device modules berth-device-NAME.so: the same kernels for each kind of GPU, and for the
# emulation. Nothing else of Berth is C++, and a build without it is complete but for these files.
option(BERTH_EMULATED_DEVICE "Build the emulated GPU (needs a C++ compiler)" ON)

set(gpu_sources attention.cu attention_mma.cu device.cu linear.cu loss.cu norm.cu optimizer.cu rows.cu)
list(TRANSFORM gpu_sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/gpu/)

set(BERTH_DEVICES)
if(BERTH_EMULATED_DEVICE)
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    set_source_files_properties(${gpu_sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
    add_library(berth-device-emulated MODULE ${gpu_sources} ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation.cpp
                                             ${CMAKE_CURRENT_SOURCE_DIR}/gpu/gemm_host.cpp)
    target_compile_features(berth-device-emulated PRIVATE cxx_std_17)
    target_compile_options(berth-device-emulated PRIVATE -fno-exceptions -fno-rtti)
    target_link_libraries(berth-device-emulated PRIVATE OpenMP::OpenMP_CXX)
    berth_module(berth-device-emulated berth_device_module)
    list(APPEND BERTH_DEVICES emulated)
  endif()
endif()
set(BERTH_DEVICES ${BERTH_DEVICES} PARENT_SCOPE) # for the tests
list(JOIN BERTH_DEVICES " and " names)
message(STATUS "  device modules: ${names}")
