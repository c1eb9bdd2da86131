// Run databases of tests.
#pragma once

#include <string>
#include <catch2/catch.hpp>

#include "core/run/run.h"
#include "core/store/writer.h"

namespace foregather::test {

/// `path`, behind having written the run there.
inline std::string written(const std::string& path, const run::Run& run) {
  auto writer = store::RunWriter::create(path);
  REQUIRE(writer);
  REQUIRE(writer->write(run));
  REQUIRE(writer->finish());
  return path;
}

}  // namespace foregather::test
