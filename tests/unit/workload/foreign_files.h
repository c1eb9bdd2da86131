// Workloads from files of other tools.
#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "core/plan/workload_toml.h"

namespace foregather::test {

inline const std::vector<std::string> kModelSet{"model.config=m.json"};

inline plan::Workload read(const std::string& text, const std::vector<std::string>& sets) {
  const auto workload = plan::parse_workload(text, "dir/f", sets);
  if (!workload) FAIL(workload.error().text());
  return *workload;
}

inline bool ignores(const plan::Workload& workload, const std::string& what) {
  REQUIRE(workload.warnings.size() == 1);
  return workload.warnings.front().find(what) != std::string::npos;
}

}  // namespace foregather::test
