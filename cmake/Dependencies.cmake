# The libraries that Foregather is built on (Debian 12 package in brackets), and what is only looked
# for. `./dev setup` installs the former.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)            # fmt::fmt                     [libfmt-dev]
find_package(SQLite3 REQUIRED)        # SQLite::SQLite3              [libsqlite3-dev]
find_package(simdjson REQUIRED)       # simdjson::simdjson           [libsimdjson-dev]
find_package(ZLIB REQUIRED)           # ZLIB::ZLIB                   [zlib1g-dev]
find_package(zstd REQUIRED)           # zstd::libzstd_shared         [libzstd-dev]
find_package(nlohmann_json REQUIRED)  # nlohmann_json::nlohmann_json [nlohmann-json3-dev]
find_package(tomlplusplus REQUIRED)   # tomlplusplus::tomlplusplus   [libtomlplusplus-dev]
find_package(CLI11 REQUIRED)          # CLI11::CLI11                 [libcli11-dev]
find_package(tl-expected REQUIRED)    # tl::expected                 [libexpected-dev]

if(FOREGATHER_TESTS)
  find_package(Catch2 2 REQUIRED)     # Catch2::Catch2               [catch2]
  find_package(rapidcheck REQUIRED)   # rapidcheck                   [librapidcheck-dev]
  find_package(benchmark QUIET)       # benchmark::benchmark         [libbenchmark-dev]
endif()

# Detected, never required: what needs them lives in plug-ins that are opened at run time. Without GLPK
# its part of search is left out.
find_package(CUDAToolkit QUIET)
find_package(Qt6 6.4 QUIET COMPONENTS Widgets DBus Svg Test)
find_package(MPI QUIET COMPONENTS CXX)
find_path(GLPK_INCLUDE_DIR glpk.h)    # proofs of search              [libglpk-dev]
find_library(GLPK_LIBRARY glpk)
mark_as_advanced(GLPK_INCLUDE_DIR GLPK_LIBRARY)
if(GLPK_INCLUDE_DIR AND GLPK_LIBRARY)
  set(GLPK_FOUND ON)
endif()
foreach(_feature IN ITEMS CUDA:CUDAToolkit_FOUND Qt:Qt6_FOUND MPI:MPI_CXX_FOUND GLPK:GLPK_FOUND)
  string(REPLACE ":" ";" _feature "${_feature}")
  list(GET _feature 0 _name)
  list(GET _feature 1 _found)
  string(TOUPPER "${_name}" _upper)
  if(${_found})
    set(FOREGATHER_HAVE_${_upper} ON CACHE INTERNAL "${_name} was found at configure time")
  else()
    set(FOREGATHER_HAVE_${_upper} OFF CACHE INTERNAL "${_name} was found at configure time")
  endif()
  message(STATUS "Optional ${_name}: ${FOREGATHER_HAVE_${_upper}}")
endforeach()
if(FOREGATHER_REQUIRE_CUDA AND NOT FOREGATHER_HAVE_CUDA)
  message(FATAL_ERROR "The cuda preset needs the CUDA toolkit, and CMake did not find one. "
                      "Set CUDAToolkit_ROOT, or use the release preset: it builds without.")
endif()
