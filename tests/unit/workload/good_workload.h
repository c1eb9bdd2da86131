// Workloads from texts.
#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "core/plan/workload_toml.h"

namespace foregather::test {

using Sets = std::vector<std::string>;

inline const std::string kModel = "[model]\nconfig = \"m.json\"\n";

/// Of dir/w.toml, which names a model in its first two lines.
inline plan::Workload good(const std::string& text, const Sets& sets = {}) {
  const auto workload = plan::parse_workload(kModel + text, "dir/w.toml", sets);
  if (!workload) FAIL(workload.error().text());
  return *workload;
}

/// What is said of w.toml, which is refused.
inline std::string error_of(const std::string& text, const Sets& sets = {}) {
  const auto workload = plan::parse_workload(kModel + text, "w.toml", sets);
  REQUIRE_FALSE(workload.has_value());
  CHECK(workload.error().fault == Fault::input);
  return workload.error().text();
}

}  // namespace foregather::test
