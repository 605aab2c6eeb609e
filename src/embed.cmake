# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a C source with the bytes of each of FILES as a NUL-terminated text, named by the file: page_html of
# page.html. HEADER declares them.
set(source "#include \"${HEADER}\"\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND source "const char ${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${source}")
