# SPDX-License-Identifier: Apache-2.0
# The fuzz targets and the rooms that each needs: fuzz_NAME.c, with the corpus in corpus/NAME.tar.xz.
set(BERTH_FUZZ_TARGETS safetensors json config vocab tokenizer squad features table torch deepspeed tensorflow tfrecord pretraining hdf5 hub wikitext mediawiki bzip2 corpus pretraining_hdf5 tagged texts run_log)
if(BERTH_HAS_SERVE)
  list(APPEND BERTH_FUZZ_TARGETS serve)
endif()
set(BERTH_FUZZ_ROOMS_safetensors core format)
set(BERTH_FUZZ_ROOMS_json core format)
set(BERTH_FUZZ_ROOMS_config core format model device)
set(BERTH_FUZZ_ROOMS_vocab core text format model device)
set(BERTH_FUZZ_ROOMS_tokenizer core text format)
set(BERTH_FUZZ_ROOMS_squad core text format data comm)
set(BERTH_FUZZ_ROOMS_features core text format data comm)
set(BERTH_FUZZ_ROOMS_table core text format data comm)
set(BERTH_FUZZ_ROOMS_tagged core text format data metrics comm)
set(BERTH_FUZZ_ROOMS_texts core text format data comm)
set(BERTH_FUZZ_ROOMS_torch core format)
set(BERTH_FUZZ_ROOMS_deepspeed core format)
set(BERTH_FUZZ_ROOMS_tensorflow core format)
set(BERTH_FUZZ_ROOMS_tfrecord core format)
set(BERTH_FUZZ_ROOMS_pretraining core text format data comm)
set(BERTH_FUZZ_ROOMS_hdf5 core format)
set(BERTH_FUZZ_ROOMS_hub fetch ${BERTH_ROOMS})
set(BERTH_FUZZ_ROOMS_wikitext wiki core text format data comm)
set(BERTH_FUZZ_ROOMS_mediawiki wiki core text format data comm)
set(BERTH_FUZZ_ROOMS_bzip2 wiki core text format data comm)
set(BERTH_FUZZ_ROOMS_corpus core text format data comm)
set(BERTH_FUZZ_ROOMS_pretraining_hdf5 core text format data comm)
set(BERTH_FUZZ_ROOMS_run_log page core format report)
set(BERTH_FUZZ_ROOMS_serve ${BERTH_ROOMS} serve)

# berth_fuzz_program(PROGRAM TARGET SOURCES...)
function(berth_fuzz_program program target)
  add_executable(${program} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/fuzz_${target}.c ${ARGN})
  target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}
                                                ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src
                                                ${PROJECT_SOURCE_DIR}/include)
  foreach(room IN LISTS BERTH_FUZZ_ROOMS_${target})
    target_link_libraries(${program} PRIVATE berth_${room})
  endforeach()
  berth_fuzz_corpus(${program} ${target})
endfunction()

# The folder where the build unpacks the corpora, each as a folder of files.
set(BERTH_FUZZ_CORPUS ${PROJECT_BINARY_DIR}/fuzz/corpus)

# berth_fuzz_corpus(PROGRAM TARGET): the corpus is unpacked before the program is built.
function(berth_fuzz_corpus program target)
  if(NOT TARGET corpus_${target})
    set(archive ${PROJECT_SOURCE_DIR}/fuzz/corpus/${target}.tar.xz)
    set(folder ${BERTH_FUZZ_CORPUS}/${target})
    add_custom_command(OUTPUT ${folder}.stamp
      COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${CMAKE_COMMAND} -E chdir ${folder} ${CMAKE_COMMAND} -E tar xf ${archive}
      COMMAND ${CMAKE_COMMAND} -E touch ${folder}.stamp
      DEPENDS ${archive} VERBATIM)
    add_custom_target(corpus_${target} DEPENDS ${folder}.stamp)
  endif()
  add_dependencies(${program} corpus_${target})
endfunction()
