// A workload on its way to a schedule.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/plan/model.h"
#include "core/plan/workload.h"
#include "sim/cost/hardware.h"

namespace foregather::tasks {

/// Models and machines that were read before: many candidates share a few. Thread safe. Nothing is
/// forgotten.
class KeptParts {
 public:
  /// plan::read_model().
  Result<std::shared_ptr<const plan::ModelConfig>> model(const plan::Workload& workload);
  /// load_machine().
  Result<std::shared_ptr<const sim::Hardware>> machine(const plan::Cluster& cluster);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const plan::ModelConfig>> models_;
  std::map<std::string, std::shared_ptr<const sim::Hardware>> machines_;
};

/// Resolved, checked, and with all that lowering it takes.
struct ReadWorkload {
  plan::Workload workload;
  std::shared_ptr<const plan::ModelConfig> model;
  std::shared_ptr<const sim::Hardware> hardware;
  plan::Implementation implementation;
  std::vector<std::string> warnings;
};

/// `source` is for places and relative paths. Errors: bad input, at its place.
Result<ReadWorkload> read_workload_source(const std::string& text, const std::string& source,
                                          const std::vector<std::string>& sets, KeptParts& kept);

/// The schedule. It follows from the workload without its prices: the keys of is_price_key() do not
/// enter, but for the implementation. Errors: a plan that cannot be, a step of too many ops.
Result<Graph> lower_workload(const ReadWorkload& read);

/// Does the key change prices, checks of the machine and the allocator alone, never the schedule?
bool is_price_key(std::string_view key);

/// An error whose place is a key, at the place of that key.
tl::unexpected<Error> at_key(const plan::Workload& workload, Error error);

}  // namespace foregather::tasks
