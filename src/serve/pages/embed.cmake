# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a C source with a text for each of FILES: page_html of page.html, page_openapi of
# openapi.json.
set(source "#include \"serve/pages.h\"\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\..*" "" name ${name})
  string(REGEX REPLACE "^page$" "html" name ${name})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND source "const char page_${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${source}")
