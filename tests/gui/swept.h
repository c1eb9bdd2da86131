// A sweep to open.
#pragma once

#include <cstdlib>
#include <string>
#include <catch2/catch.hpp>

#include "tests/support/places.h"
#include "tests/support/scratch.h"

namespace foregather::test {

/// The database of six points of a small step, two of them on the front.
inline std::string swept(const Scratch& folder) {
  const std::string path = folder.path("sweep.db");
  const std::string command = program_path() + " sweep " + source_dir() +
                              "/traces/samples/tiny_fsdp2.toml --vary train.micro_batch=1,2,4 "
                              "--vary what-if.reshard=,never -o " +
                              path + " >/dev/null 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
  return path;
}

}  // namespace foregather::test
