# embed.cmake: the files of a folder as one C source that holds them, byte for byte.
#
# ij_embed(OUT FOLDER) writes OUT when the build is configured; the assembler takes in the files themselves, so a model of many megabytes
# costs no compile time. Each file begins on a page, as a mapped one would.
function(ij_embed out folder)
  set(files "")
  if(folder)
    file(GLOB files CONFIGURE_DEPENDS LIST_DIRECTORIES false "${folder}/*")
  endif()
  set(blobs "")
  set(rows "")
  set(i 0)
  foreach(file ${files})
    get_filename_component(name "${file}" NAME)
    string(APPEND blobs "EMBED(${i}, \"${file}\")\n")
    string(APPEND rows "  {\"${name}\", embedded_${i}, embedded_end_${i}},\n")
    math(EXPR i "${i} + 1")
  endforeach()
  set(EMBED_BLOBS "${blobs}")
  set(EMBED_ROWS "${rows}")
  set(EMBED_COUNT "${i}")
  configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embedded.c.in" "${out}" @ONLY)
  set_source_files_properties("${out}" PROPERTIES OBJECT_DEPENDS "${files}")
endfunction()
