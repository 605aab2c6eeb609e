# SPDX-License-Identifier: Apache-2.0
# The fuzz targets and the rooms each needs: fuzz_NAME.c with the corpus in corpus/NAME.
set(BERTH_FUZZ_TARGETS safetensors json config vocab tokenizer squad features table torch tensorflow tfrecord)
set(BERTH_FUZZ_ROOMS_safetensors core format)
set(BERTH_FUZZ_ROOMS_json core format)
set(BERTH_FUZZ_ROOMS_config core format model)
set(BERTH_FUZZ_ROOMS_vocab core text)
set(BERTH_FUZZ_ROOMS_tokenizer core text)
set(BERTH_FUZZ_ROOMS_squad core text format data)
set(BERTH_FUZZ_ROOMS_features core text format data)
set(BERTH_FUZZ_ROOMS_table core text format data)
set(BERTH_FUZZ_ROOMS_torch core format)
set(BERTH_FUZZ_ROOMS_tensorflow core format)
set(BERTH_FUZZ_ROOMS_tfrecord core format)

# berth_fuzz_program(PROGRAM TARGET SOURCES...)
function(berth_fuzz_program program target)
  add_executable(${program} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/fuzz_${target}.c ${ARGN})
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                                ${PROJECT_SOURCE_DIR}/include)
  foreach(room IN LISTS BERTH_FUZZ_ROOMS_${target})
    target_link_libraries(${program} PRIVATE berth_${room})
  endforeach()
endfunction()
