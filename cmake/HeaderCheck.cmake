# Every header compiles alone, and twice in one file: one generated source a header, compiled with
# the tests and never linked. A header that leans on its includer breaks the build here.
set(_headers "")
get_property(_rooms GLOBAL PROPERTY FOREGATHER_ROOMS)
foreach(_room IN LISTS _rooms ITEMS tests/fixtures tests/support)
  file(GLOB_RECURSE _found CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
       "${PROJECT_SOURCE_DIR}/${_room}/*.h")
  list(APPEND _headers ${_found})
endforeach()

set(_sources "")
foreach(_header IN LISTS _headers)
  set(_source "${PROJECT_BINARY_DIR}/header_check/${_header}.cpp")
  file(CONFIGURE OUTPUT "${_source}" CONTENT "#include \"@_header@\"\n#include \"@_header@\" // NOLINT\n"
       @ONLY)
  list(APPEND _sources "${_source}")
endforeach()
if(_sources)
  add_library(foregather_header_check OBJECT ${_sources})
  # Syntax is the question: no optimiser, no debug information.
  target_compile_options(foregather_header_check PRIVATE -O0 -g0)
  get_property(_libraries GLOBAL PROPERTY FOREGATHER_LIBRARIES)
  target_link_libraries(foregather_header_check PRIVATE Catch2::Catch2 rapidcheck ${_libraries})
endif()
