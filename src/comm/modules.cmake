# SPDX-License-Identifier: Apache-2.0
# The communication modules berth-comm-NAME.so: mpi_module.c once for each MPI whose compiler is in
# the path. NAME is the binary interface: openmpi, or mpich for MPICH and what descends from it
# (Intel MPI, MVAPICH, Cray MPICH). Nothing else of Berth knows an MPI, so a build without one is
# complete but for these files.
set(BERTH_MPI_COMPILERS mpicc mpicc.openmpi mpicc.mpich CACHE STRING
    "MPI's compilers to build communication modules with; the first of each kind counts")

# --- the MPI of a compiler ------------------------------------------------------------------------
# Sets `name` to the ABI of the compiler's MPI (empty: it has none) and `flags` to its flags.
function(berth_mpi_of compiler name flags)
  set(${name} "" PARENT_SCOPE)
  execute_process(COMMAND ${compiler} -show OUTPUT_VARIABLE command ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(words UNIX_COMMAND "${command}")
  list(FILTER words INCLUDE REGEX "^-[IDLlW]")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/mpi_kind.c "#include <mpi.h>\n"
       "#ifdef OPEN_MPI\nkind_openmpi\n#elif defined MPICH_VERSION || defined I_MPI_VERSION\nkind_mpich\n#endif\n")
  execute_process(COMMAND ${compiler} -E ${CMAKE_CURRENT_BINARY_DIR}/mpi_kind.c OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES "kind_(openmpi|mpich)")
    set(${name} ${CMAKE_MATCH_1} PARENT_SCOPE)
    set(${flags} "${words}" PARENT_SCOPE)
  endif()
endfunction()

# --- modules --------------------------------------------------------------------------------------
function(berth_mpi_module name flags)
  set(module berth-comm-${name})
  set(compile_flags ${flags})
  list(FILTER compile_flags INCLUDE REGEX "^-[ID]")
  list(TRANSFORM compile_flags REPLACE "^-I" "-isystem")
  set(link_flags ${flags})
  list(FILTER link_flags INCLUDE REGEX "^-[LlW]")
  foreach(flag IN LISTS flags)
    if(BERTH_MPI_RPATH AND flag MATCHES "^-L(/.*)" AND NOT CMAKE_MATCH_1 IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND link_flags -Wl,-rpath,${CMAKE_MATCH_1})
    endif()
  endforeach()
  add_library(${module} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/comm/mpi_module.c)
  target_compile_definitions(${module} PRIVATE BERTH_MODULE_NAME="${name}")
  target_compile_options(${module} PRIVATE ${compile_flags})
  target_link_libraries(${module} PRIVATE ${link_flags})
  berth_module(${module} berth_comm_module)
endfunction()

berth_switch(MPI "modules for MPI")
option(BERTH_MPI_RPATH "Let modules find an MPI outside the system's folders without LD_LIBRARY_PATH" ON)
set(BERTH_MPIS)
if(BERTH_MPI)
  set(candidates ${BERTH_MPI_COMPILERS})
endif()
foreach(candidate IN LISTS candidates)
  find_program(compiler ${candidate} NO_CACHE)
  if(compiler)
    berth_mpi_of(${compiler} name flags)
    if(name AND NOT name IN_LIST BERTH_MPIS)
      berth_mpi_module(${name} "${flags}")
      list(APPEND BERTH_MPIS ${name})
    endif()
  endif()
  unset(compiler)
endforeach()
set(BERTH_MPIS ${BERTH_MPIS} PARENT_SCOPE) # for the tests
list(JOIN BERTH_MPIS ", " names)
if(names)
  string(PREPEND names ": ")
endif()
berth_decide(MPI "several processes over MPI${names}" "${BERTH_MPIS}" "an MPI's compiler (libopenmpi-dev or libmpich-dev)")
