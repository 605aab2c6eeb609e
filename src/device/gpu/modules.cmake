# SPDX-License-Identifier: Apache-2.0
# The device modules berth-device-NAME.so: the same kernels for each kind of GPU. Nothing else in Berth
# is C++, and a build without C++ lacks only these files.
berth_switch(CUDA "the device module for NVIDIA's GPUs")
berth_switch(HIP "the device module for AMD's GPUs")
# Machine code for those that nvcc supports, and PTX of the last of them for newer GPUs.
set(BERTH_CUDA_ARCHITECTURES 80 86 89 90 100 CACHE STRING "Compute capabilities to build for")
# Machine code for those that hipcc supports.
set(BERTH_HIP_ARCHITECTURES gfx908 gfx90a gfx942 CACHE STRING "AMD's architectures to build for")

set(gpu_sources
    attention.cu attention_mma.cu attention_mma_backward.cu checksums.cu device.cu embedding.cu linear.cu loss.cu
    norm.cu optimizer.cu peak.cu rows.cu tables.cu)
set(gpu_library_sources attention_cudnn.cu peers.cu) # which name a library of the GPU's maker
list(TRANSFORM gpu_sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/device/gpu/)
list(TRANSFORM gpu_library_sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/device/gpu/)

set(gpu_products ${CMAKE_CURRENT_SOURCE_DIR}/device/gpu/gemm_lt.cu) # by a GPU's library

set(BERTH_DEVICES)
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
endif()

# --- a GPU's compiler -----------------------------------------------------------------------------
# Sets `objects` to the objects of the sources, compiled by the words of `command`, also through C++'s
# compiler launcher (ccache). HIP's clang leaves empty folders behind among temporary files, so these
# go to the build folder.
function(berth_gpu_objects kind objects command sources)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/gpu-${kind})
  file(MAKE_DIRECTORY ${folder})
  set(made)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME)
    set(object ${folder}/${name}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E env TMPDIR=${folder} ${CMAKE_CXX_COMPILER_LAUNCHER} ${command} -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include
              -c ${source} -o ${object} -MD -MF ${object}.d
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "Building ${kind} object ${name}" VERBATIM)
    list(APPEND made ${object})
  endforeach()
  set(${objects} "${made}" PARENT_SCOPE)
endfunction()

# The module of a kind of GPU: all sources, compiled by the words of `command` and linked with the
# libraries that follow. The first library's folder is stored in the module, so that it is found
# without LD_LIBRARY_PATH.
function(berth_gpu_module kind command first)
  berth_gpu_objects(${kind} objects "${command}" "${gpu_sources};${gpu_library_sources};${gpu_products}")
  add_library(berth-device-${kind} MODULE ${objects})
  set_target_properties(berth-device-${kind} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(berth-device-${kind} PRIVATE ${first} ${ARGN})
  get_filename_component(folder ${first} DIRECTORY)
  if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    target_link_options(berth-device-${kind} PRIVATE -Wl,-rpath,${folder})
  endif()
  berth_module(berth-device-${kind} berth_device_module)
endfunction()

# Sets `text` to a list of these architectures; if only some are known, to those, and which are not.
function(berth_known known all text)
  list(JOIN all ", " names)
  if(known AND NOT known STREQUAL all)
    list(JOIN known ", " names)
    list(REMOVE_ITEM all ${known})
    list(JOIN all ", " unknown)
    string(APPEND names " (its compiler does not know ${unknown})")
  endif()
  set(${text} "${names}" PARENT_SCOPE)
endfunction()

# --- CUDA -----------------------------------------------------------------------------------------
# Sets BERTH_CUDA_MISSING to what the build of the module lacks, BERTH_CUDA_KNOWN to the architectures, and finds the
# toolkit's parts.
function(berth_find_cuda)
  find_program(BERTH_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
  mark_as_advanced(BERTH_NVCC)
  set(missing)
  set(known)
  if(NOT CMAKE_CXX_COMPILER)
    set(missing "no C++ compiler")
  elseif(NOT BERTH_NVCC)
    set(missing "no nvcc")
  else()
    file(REAL_PATH ${BERTH_NVCC} nvcc)
    get_filename_component(root ${nvcc}/../.. ABSOLUTE)
    find_path(BERTH_CUBLAS_INCLUDE_DIR cublasLt.h HINTS ${root}/include)
    find_library(BERTH_CUBLASLT cublasLt HINTS ${root} PATH_SUFFIXES lib64 lib)
    find_library(BERTH_CUDART cudart_static HINTS ${root} PATH_SUFFIXES lib64 lib)
    mark_as_advanced(BERTH_CUBLAS_INCLUDE_DIR BERTH_CUBLASLT BERTH_CUDART)
    set(empty ${CMAKE_CURRENT_BINARY_DIR}/empty.cu)
    file(WRITE ${empty} "#if CUDART_VERSION < 12000\n#error \"Berth needs CUDA 12.0 or later\"\n#endif\n")
    set(error)
    foreach(architecture IN LISTS BERTH_CUDA_ARCHITECTURES)
      execute_process(COMMAND ${BERTH_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++17
                              -gencode=arch=compute_${architecture},code=sm_${architecture} -c ${empty} -o ${empty}.o
                      RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
      if(result EQUAL 0)
        list(APPEND known ${architecture})
      elseif(NOT error)
        string(REGEX MATCH "[^\n]*(error|fatal)[^\n]*" error "${output}")
      endif()
    endforeach()
    if(NOT BERTH_CUBLASLT OR NOT BERTH_CUBLAS_INCLUDE_DIR OR NOT BERTH_CUDART)
      set(missing "no cuBLASLt or CUDA runtime beside ${BERTH_NVCC}")
    elseif(NOT known)
      string(REPLACE ";" "," error "${error}") # the summary is a list
      set(missing "${BERTH_NVCC} fails: ${error}")
    endif()
  endif()
  set(BERTH_CUDA_MISSING "${missing}" PARENT_SCOPE)
  set(BERTH_CUDA_KNOWN "${known}" PARENT_SCOPE)
endfunction()

# CUDA's runtime is linked statically and loads the driver (libcuda) itself when it is first called.
function(berth_cuda_module)
  set(command ${BERTH_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++17 -O3
              -Xcompiler=-fPIC,-fno-exceptions,-fno-rtti,-Wall,-Wno-unused-parameter -isystem=${BERTH_CUBLAS_INCLUDE_DIR})
  set(compiled 0)
  foreach(architecture IN LISTS BERTH_CUDA_KNOWN)
    set(name ${architecture})
    if(architecture EQUAL 90) # with what only this one has: products of warpgroups
      set(name 90a)
      set(compiled 1)
    endif()
    list(APPEND command -gencode=arch=compute_${name},code=sm_${name})
  endforeach()
  list(APPEND command -DGPU_WGMMA_COMPILED=${compiled})
  list(GET BERTH_CUDA_KNOWN -1 newest)
  list(APPEND command -gencode=arch=compute_${newest},code=compute_${newest})
  if(BERTH_WERROR)
    list(APPEND command -Werror=all-warnings -Xcompiler=-Werror)
  endif()
  berth_gpu_module(cuda "${command}" ${BERTH_CUBLASLT} ${BERTH_CUDART} Threads::Threads rt)
endfunction()

set(BERTH_CUDA_MISSING "")
if(BERTH_CUDA)
  berth_find_cuda()
endif()
set(found ON)
if(BERTH_CUDA_MISSING)
  set(found OFF)
endif()
berth_known("${BERTH_CUDA_KNOWN}" "${BERTH_CUDA_ARCHITECTURES}" names)
set(BERTH_CUDA_KNOWN "${BERTH_CUDA_KNOWN}" PARENT_SCOPE) # for the tests
berth_decide(CUDA "--device cuda for compute capabilities ${names}" ${found} "the CUDA toolkit (${BERTH_CUDA_MISSING})")
if(BERTH_HAS_CUDA)
  berth_cuda_module()
  list(APPEND BERTH_DEVICES cuda)
endif()

# --- HIP ------------------------------------------------------------------------------------------
# Sets BERTH_HIP_MISSING to what the build of the module lacks, BERTH_HIP_KNOWN to the architectures.
function(berth_find_hip)
  find_program(BERTH_HIPCC hipcc HINTS ENV ROCM_PATH ENV HIP_PATH PATHS /opt/rocm PATH_SUFFIXES bin)
  mark_as_advanced(BERTH_HIPCC)
  set(missing)
  set(known)
  if(NOT CMAKE_CXX_COMPILER)
    set(missing "no C++ compiler")
  elseif(NOT BERTH_HIPCC)
    set(missing "no hipcc")
  else()
    file(REAL_PATH ${BERTH_HIPCC} hipcc)
    get_filename_component(root ${hipcc}/../.. ABSOLUTE)
    find_library(BERTH_AMDHIP64 amdhip64 HINTS ${root} PATH_SUFFIXES lib lib64)
    mark_as_advanced(BERTH_AMDHIP64)
    set(empty ${CMAKE_CURRENT_BINARY_DIR}/empty.hip)
    file(WRITE ${empty} "#include <hip/hip_runtime.h>\n")
    foreach(architecture IN LISTS BERTH_HIP_ARCHITECTURES)
      execute_process(COMMAND ${CMAKE_COMMAND} -E env TMPDIR=${CMAKE_CURRENT_BINARY_DIR}
                              ${BERTH_HIPCC} --offload-arch=${architecture} -x hip -c ${empty} -o ${empty}.o
                      RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
      if(result EQUAL 0)
        list(APPEND known ${architecture})
      endif()
    endforeach()
    if(NOT BERTH_AMDHIP64)
      set(missing "no libamdhip64 beside ${BERTH_HIPCC}")
    elseif(NOT known)
      set(missing "${BERTH_HIPCC} knows none of ${BERTH_HIP_ARCHITECTURES}")
    endif()
  endif()
  set(BERTH_HIP_MISSING "${missing}" PARENT_SCOPE)
  set(BERTH_HIP_KNOWN "${known}" PARENT_SCOPE)
endfunction()

function(berth_hip_module)
  set(command ${BERTH_HIPCC} -std=c++17 -O3 -fPIC -fno-exceptions -fno-rtti -fvisibility=hidden -Wall
              -Wno-unused-parameter)
  foreach(architecture IN LISTS BERTH_HIP_KNOWN)
    list(APPEND command --offload-arch=${architecture})
  endforeach()
  if(BERTH_WERROR)
    list(APPEND command -Werror)
  endif()
  berth_gpu_module(hip "${command};-x;hip" ${BERTH_AMDHIP64})
endfunction()

set(BERTH_HIP_MISSING "")
if(BERTH_HIP)
  berth_find_hip()
endif()
set(found ON)
if(BERTH_HIP_MISSING)
  set(found OFF)
endif()
berth_known("${BERTH_HIP_KNOWN}" "${BERTH_HIP_ARCHITECTURES}" names)
berth_decide(HIP "--device hip for ${names}" ${found} "ROCm's compiler (${BERTH_HIP_MISSING})")
if(BERTH_HAS_HIP)
  berth_hip_module()
  list(APPEND BERTH_DEVICES hip)
endif()

set(BERTH_DEVICES ${BERTH_DEVICES} PARENT_SCOPE) # for the tests
