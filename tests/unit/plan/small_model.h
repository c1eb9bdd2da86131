// Small models by their config.json, and steps of them.
#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "core/plan/model.h"
#include "core/plan/workload_toml.h"
#include "tests/unit/plan/temporary_file.h"

namespace foregather::test {

/// A config that must read.
inline plan::ModelConfig config_read(const std::string& text) {
  const TemporaryFile file(text);
  const auto config = plan::read_model_config(file.path());
  if (!config) FAIL(config.error().text());
  return *config;
}

/// Two sequences of 64 tokens on one GPU, unless `sets` say otherwise.
inline plan::Workload workload_of(const plan::ModelConfig& config,
                                  const std::vector<std::string>& sets) {
  auto workload = plan::parse_workload(
      "[model]\nconfig = \"m.json\"\n[train]\nmicro_batch = 2\nseq_len = 64\n"
      "[parallel]\nstrategy = \"single\"\n",
      "w.toml", sets);
  if (!workload) FAIL(workload.error().text());
  if (const Status resolved = plan::resolve_workload(*workload, config); !resolved)
    FAIL(resolved.error().text());
  return *workload;
}

inline Graph lowered_step(const plan::ModelConfig& config, const std::vector<std::string>& sets) {
  const plan::Workload workload = workload_of(config, sets);
  auto graph = plan::lower(plan::build_model(config, workload), workload);
  if (!graph) FAIL(graph.error().text());
  return std::move(*graph);
}

}  // namespace foregather::test
