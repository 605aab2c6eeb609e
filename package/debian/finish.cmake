# SPDX-License-Identifier: Apache-2.0
# Run by CPack on the files of each package before they are packed: what Debian's policy asks for beyond what
# `cmake --install` installs. copyright and changelog of each, compressed manual pages.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH
string(CONCAT changelog "berth (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Release ${CPACK_PACKAGE_VERSION}.\n\n"
                 " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
file(GLOB groups LIST_DIRECTORIES true ${CPACK_TEMPORARY_DIRECTORY}/*)
foreach(group IN LISTS groups)
  if(NOT IS_DIRECTORY ${group}/usr)
    continue()
  endif()
  get_filename_component(name ${group} NAME)
  string(TOUPPER ${name} upper)
  set(doc ${group}/usr/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION ${doc})
  file(WRITE ${doc}/changelog "${changelog}")
  file(GLOB pages ${group}/usr/share/man/man*/*)
  execute_process(COMMAND gzip -9n ${doc}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD_RECURSE ${group}/usr/share FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
       DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
