# What every source of the project is compiled with.

option(FOREGATHER_TESTS "Build the tests" ON)
option(FOREGATHER_BENCH "Build the benchmarks, where Google Benchmark is found" ON)
option(FOREGATHER_HEADER_CHECK "Compile every header alone" ON)
option(FOREGATHER_WERROR "Treat warnings as errors" ON)
option(FOREGATHER_FUZZ "Build tests/fuzz as libFuzzer programs (clang)" OFF)
option(FOREGATHER_REQUIRE_CUDA "Fail at configure time where the CUDA toolkit is missing" OFF)
set(FOREGATHER_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: address,undefined or thread")

# Recorded traces and published figures that are too large for the repository. Tests that need them
# say SKIPPED where the folder is absent.
set(_data "")
if(EXISTS "${PROJECT_SOURCE_DIR}/../shared/data")
  get_filename_component(_data "${PROJECT_SOURCE_DIR}/../shared/data" ABSOLUTE)
endif()
set(FOREGATHER_DATA "${_data}" CACHE PATH "Folder of shared test data; empty: none")
unset(_data)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
if(FOREGATHER_SANITIZE STREQUAL "thread")
  # Tests take twice as long as building them: the optimiser removes accesses that would be watched.
  set(CMAKE_CXX_FLAGS_DEBUG "-O2 -g1 -D_GLIBCXX_ASSERTIONS")
elseif(FOREGATHER_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1 -D_GLIBCXX_ASSERTIONS")
else()
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g -D_GLIBCXX_ASSERTIONS")
endif()

find_program(FOREGATHER_CCACHE ccache)
mark_as_advanced(FOREGATHER_CCACHE)
if(FOREGATHER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${FOREGATHER_CCACHE}")
  if(CMAKE_BUILD_TYPE STREQUAL "Release" OR FOREGATHER_SANITIZE)
    # The same in every clone: what one compiled serves all. Debuggers and gcov get whole paths.
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1)
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.>"
                        "$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}=.>")
  endif()
endif()

# Programs hold all that they link: a third of the time that linking them takes otherwise.
find_program(FOREGATHER_GOLD ld.gold)
mark_as_advanced(FOREGATHER_GOLD)
if(FOREGATHER_GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=gold)
endif()

# -ffp-contract=off: a fused multiply-add rounds once where two operations round twice; results
# must not depend on the machine that compiled them. -fno-semantic-interposition: no function of
# ours is replaced when a program is loaded, so that calls within a source may be inlined.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-ffp-contract=off;-fno-semantic-interposition>")
if(FOREGATHER_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
# In a batch a local may have the name of something in another source. What only other builds look at
# is no error there: who builds what passed its tests must not be stopped by a name.
if(CMAKE_UNITY_BUILD)
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wshadow=local>")
  # GCC collects its garbage all the time otherwise: a fourteenth of the time, for a third of a gigabyte.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=600000>")
else()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wshadow;-Wno-error=shadow>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: false -Wrestrict on "literal" + std::string.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>")
endif()

if(FOREGATHER_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(FOREGATHER_SANITIZE)
  # -Wmaybe-uninitialized guesses wrong on instrumented code.
  add_compile_options(
    "-fsanitize=${FOREGATHER_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>")
  add_link_options("-fsanitize=${FOREGATHER_SANITIZE}")
  # Each check has a place in the source: two million addresses, which a program that may lie anywhere
  # corrects when it starts. Tests start programs some thousand times.
  add_link_options("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>")
endif()
