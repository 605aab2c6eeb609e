# SPDX-License-Identifier: Apache-2.0
# Debian packages with CPack: berth (program, manual, completion), libberthX (X: the soname's
# version), libberth-dev, and one package for each module. package/build builds them; in this folder there are also
#   build             packages, source archive, bill of materials and SHA256SUMS, reproducibly
#   debian/           their copyright file, and what is done to the files of each package
#   berth.spec        the same as an RPM
#   make_sbom.py      the bill of materials (SPDX)
#   wheel/            the Python package
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME berth)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# Who answers for a package is whoever builds it. Debian wants an address; no mail reaches one that ends in .invalid.
set(BERTH_MAINTAINER "The Berth authors <nobody@berth.invalid>" CACHE STRING "Who maintains the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT "${BERTH_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/finish.cmake)

set(BERTH_ABOUT "Berth is BERT in C. It pre-trains BERT, fine-tunes it on questions, classes,
tagged words and sentence embeddings, evaluates it and answers questions,
without padding and without Python.")

# berth_package(GROUP NAME SECTION SUMMARY WHAT): the package NAME of the install components in GROUP. WHAT: its last
# sentences.
function(berth_package group name section summary what)
  string(TOUPPER ${group} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${BERTH_ABOUT}\n\n${what}" PARENT_SCOPE)
endfunction()

berth_package(program berth science "BERT training and inference: the program"
              "This package contains the program, its manual and its completion in shells.")
set(library_package libberth${PROJECT_VERSION_MAJOR})
berth_package(library ${library_package} libs "BERT training and inference: the library"
              "This package contains the shared library.")
berth_package(development libberth-dev libdevel "BERT training and inference: files for development"
              "This package contains the header, the static library, and what\npkg-config and CMake need to find them.")
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs "libberth ${PROJECT_VERSION_MAJOR} ${library_package} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
# The static library, and berth.pc for it, name the libraries that Berth is built with.
set(development "libjansson-dev, libssl-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION}), ${development}")
set(CPACK_COMPONENT_HEADERS_GROUP development)
set(CPACK_COMPONENT_ARCHIVE_GROUP development)
set(CPACK_COMPONENT_PROGRAM_GROUP program)
set(CPACK_COMPONENT_LIBRARY_GROUP library)
set(CPACK_COMPONENTS_ALL program library headers archive)
foreach(module IN LISTS BERTH_MPIS BERTH_DEVICES)
  if(NOT module STREQUAL "emulated") # for tests
    berth_package(${module} berth-${module} science "BERT training and inference: module for ${module}"
                  "This package contains the module for ${module}, which the program opens at\nrun time.")
    string(TOUPPER ${module} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "berth (= ${PROJECT_VERSION})")
    set(CPACK_COMPONENT_${upper}_GROUP ${module})
    list(APPEND CPACK_COMPONENTS_ALL ${module})
  endif()
endforeach()
include(CPack)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  cpack_add_component_group(${CPACK_COMPONENT_${upper}_GROUP})
endforeach()
