# SPDX-License-Identifier: Apache-2.0
# The device module berth-device-emulated.so: the kernels of src/device/gpu, run by the host. Tests alone use it, so it is built
# with them and not installed; the program opens it at run time as it opens the module of a GPU.
berth_switch(EMULATED_DEVICE "the emulated GPU, for tests")
set(emulation ${CMAKE_CURRENT_LIST_DIR})
set(gpu_host_sources emulation.cpp emulation_counts.cpp emulation_memory.cpp emulation_stream.cpp)
list(TRANSFORM gpu_host_sources PREPEND ${emulation}/)

function(set_emulated target)
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti ${kernel_sanitize_flags})
  target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
endfunction()
# What modules for warps of this many threads have in common, compiled once.
function(add_emulation warp)
  add_library(emulation_${warp} OBJECT ${gpu_sources} ${gpu_host_sources})
  target_compile_definitions(emulation_${warp} PRIVATE GPU_WARP=${warp})
  set_target_properties(emulation_${warp} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set_emulated(emulation_${warp})
endfunction()
# A module for tests, berth-device-emulated.so in the folder NAME of the build: warps of WARP threads, the
# SOURCES of its products and of its library, the symbols that it EXPORTS, and further definitions.
function(add_emulated_variant name warp sources exports)
  set(target berth-device-emulated-${name})
  add_library(${target} MODULE ${gpu_library_sources} ${sources})
  set_emulated(${target})
  berth_module_not_installed(${target} "${exports}")
  target_link_libraries(${target} PRIVATE emulation_${warp})
  target_compile_definitions(${target} PRIVATE GPU_WARP=${warp} ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME berth-device-emulated
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${name})
endfunction()
# Adds a call at each load and store of a kernel, which emulation_counts.cpp implements. The compiler
# inserts these calls for its thread sanitizer, whose library is not linked.
function(set_counted target)
  target_compile_definitions(${target} PRIVATE EMULATION_COUNTED)
  target_compile_options(${target} PRIVATE -fsanitize=thread -fno-threadsafe-statics)
endfunction()

berth_decide(EMULATED_DEVICE "--device emulated, for tests" "${CMAKE_CXX_COMPILER}" "a C++ compiler")
if(BERTH_HAS_EMULATED_DEVICE)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  set_source_files_properties(${gpu_sources} ${gpu_library_sources} ${gpu_products} PROPERTIES
                              LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  set(host_products ${emulation}/gemm_host.cpp)
  add_emulation(32)
  add_library(berth-device-emulated MODULE ${gpu_library_sources} ${host_products})
  set_emulated(berth-device-emulated)
  berth_module_not_installed(berth-device-emulated berth_device_module)
  target_link_libraries(berth-device-emulated PRIVATE emulation_32)
  list(APPEND BERTH_DEVICES emulated)
  set(library ${PROJECT_SOURCE_DIR}/tests/device/emulated_) # libraries of the tests, which are linked in
  set(module berth-device-emulated.so)
  add_emulation(64) # warps of 64 threads, as on AMD's GPUs
  add_emulated_variant(hipblaslt 64 "${gpu_products};${library}hipblaslt.cpp" "berth_device_module; hipblasLt*"
                       LT_LIBRARIES="${PROJECT_BINARY_DIR}/hipblaslt/${module}")
  add_emulated_variant(cudnn 32 "${host_products};${library}cudnn.cpp" "berth_device_module; cudnn*"
                       CUDNN_LIBRARY="${PROJECT_BINARY_DIR}/cudnn/${module}")
  if(NOT BERTH_SANITIZE) # with sanitizers, the emulation's fibers are slow
    add_emulated_variant(warps_of_64 64 ${host_products} berth_device_module)
    add_emulated_variant(nccl 32 "${host_products};${library}nccl.cpp" "berth_device_module; nccl*"
                         NCCL_LIBRARY="${PROJECT_BINARY_DIR}/nccl/${module}")
    set(counted berth-device-emulated-counted)
    add_library(${counted} MODULE ${gpu_sources} ${gpu_library_sources} ${gpu_host_sources} ${host_products})
    set_emulated(${counted})
    berth_module_not_installed(${counted} berth_device_module)
    set_counted(${counted})
    foreach(source emulation emulation_counts emulation_memory emulation_stream) # not the GPU's code
      set_property(SOURCE ${emulation}/${source}.cpp APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=thread)
    endforeach()
    set_target_properties(${counted} PROPERTIES OUTPUT_NAME berth-device-emulated
                          LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/counted)
  endif()
  set(programs broken_kernels) # to test the emulation
  if(NOT BERTH_SANITIZE)
    list(APPEND programs broken_kernels_counted)
  endif()
  foreach(program IN LISTS programs)
    add_executable(${program} ${PROJECT_SOURCE_DIR}/tests/device/broken_kernels.cpp ${gpu_host_sources})
    set_emulated(${program})
  endforeach()
  if(TARGET broken_kernels_counted)
    set_counted(broken_kernels_counted)
  endif()
endif()
set(BERTH_DEVICES ${BERTH_DEVICES} PARENT_SCOPE) # for the tests
