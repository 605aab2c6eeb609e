# SPDX-License-Identifier: Apache-2.0
# What the program writes about itself, at the build: manual pages and scripts for shells. A program for another
# processor cannot be run, so they are left out then, unless CMAKE_CROSSCOMPILING_EMULATOR runs it.
set(BERTH_HAS_HELP ON)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  set(BERTH_HAS_HELP OFF)
endif()
set(BERTH_HAS_HELP ${BERTH_HAS_HELP} PARENT_SCOPE)

if(BERTH_HAS_HELP)
  set(pages ${CMAKE_CURRENT_BINARY_DIR}/man)
  add_custom_command(
    OUTPUT ${pages}/berth.1
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND berth man --output ${pages}
    DEPENDS berth
    COMMENT "Writing manual pages" VERBATIM)
  add_custom_target(berth_man ALL DEPENDS ${pages}/berth.1)
  install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program FILES_MATCHING PATTERN "*.1")
  install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT program FILES_MATCHING PATTERN "*.7")
endif()

install(FILES completion/berth.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program RENAME berth)
install(FILES completion/berth.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program RENAME _berth)
install(FILES completion/berth.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
