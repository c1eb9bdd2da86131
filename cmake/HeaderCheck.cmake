# Every header compiles alone: a header that leans on its includer breaks the build. Most are shown to
# by the source of their name, which includes them before anything else. For each of the others one
# generated source, compiled with the tests and never linked, includes it, and includes it again.
set(_headers "")
get_property(_rooms GLOBAL PROPERTY FOREGATHER_ROOMS)
foreach(_room IN LISTS _rooms ITEMS tests/fixtures tests/support)
  file(GLOB_RECURSE _found CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
       "${PROJECT_SOURCE_DIR}/${_room}/*.h")
  list(APPEND _headers ${_found})
endforeach()

set(_sources "")
foreach(_header IN LISTS _headers)
  string(REGEX REPLACE "\\.h$" ".cpp" _own "${PROJECT_SOURCE_DIR}/${_header}")
  if(EXISTS "${_own}")
    file(STRINGS "${_own}" _first REGEX "^#include" LIMIT_COUNT 1)
    if(_first STREQUAL "#include \"${_header}\"")
      continue()
    endif()
  endif()
  set(_source "${PROJECT_BINARY_DIR}/header_check/${_header}.cpp")
  file(CONFIGURE OUTPUT "${_source}" CONTENT "#include \"@_header@\"\n#include \"@_header@\" // NOLINT\n"
       @ONLY)
  list(APPEND _sources "${_source}")
endforeach()
if(_sources)
  add_library(foregather_header_check OBJECT ${_sources})
  set_target_properties(foregather_header_check PROPERTIES UNITY_BUILD OFF)
  # Syntax is the question: no optimiser, no debug information.
  target_compile_options(foregather_header_check PRIVATE -O0 -g0)
  get_property(_libraries GLOBAL PROPERTY FOREGATHER_LIBRARIES)
  target_link_libraries(foregather_header_check PRIVATE Catch2::Catch2 rapidcheck ${_libraries})
endif()
