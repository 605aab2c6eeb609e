# SPDX-License-Identifier: Apache-2.0
# berth_embed(SOURCE HEADER NAME=FILE...): makes SOURCE, which defines a text NAME for each file; HEADER
# declares them.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(BERTH_EMBED ${CMAKE_CURRENT_LIST_FILE})
  function(berth_embed source header)
    set(files ${ARGN})
    list(TRANSFORM files REPLACE "^[^=]*=" "")
    add_custom_command(
      OUTPUT ${source}
      COMMAND ${CMAKE_COMMAND} -D "TEXTS=${ARGN}" -D HEADER=${header} -D OUTPUT=${source} -P ${BERTH_EMBED}
      DEPENDS ${files} ${BERTH_EMBED}
      VERBATIM)
  endfunction()
  return()
endif()

set(source "#include \"${HEADER}\"\n")
foreach(text IN LISTS TEXTS)
  string(REGEX MATCH "^([^=]*)=(.*)" ignored ${text})
  set(name ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND source "const char ${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${source}")
