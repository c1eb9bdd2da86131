# Rooms: the folders of the source tree, one library each.

# foregather_add_rooms(FOLDER...)
# Adds each folder that has a CMakeLists.txt, in the order given, and records in global properties
#   FOREGATHER_ROOMS      the folders added, relative to the repository root
#   FOREGATHER_LIBRARIES  their library targets, most dependent first (the order a linker wants)
function(foregather_add_rooms)
  foreach(room IN LISTS ARGN)
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/${room}/CMakeLists.txt")
      continue()
    endif()
    add_subdirectory("${PROJECT_SOURCE_DIR}/${room}" "${PROJECT_BINARY_DIR}/${room}")
    set_property(GLOBAL APPEND PROPERTY FOREGATHER_ROOMS "${room}")
    get_property(targets DIRECTORY "${PROJECT_SOURCE_DIR}/${room}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(type MATCHES "^(STATIC|INTERFACE)_LIBRARY$" AND target MATCHES "^foregather_")
        get_property(libraries GLOBAL PROPERTY FOREGATHER_LIBRARIES)
        list(PREPEND libraries ${target})
        set_property(GLOBAL PROPERTY FOREGATHER_LIBRARIES "${libraries}")
      endif()
    endforeach()
  endforeach()
endfunction()
