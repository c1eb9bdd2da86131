// What a what-if is: graph -> graph, with a note of what it did. The passes are listed in
// sim/passes/registry.h; sim/passes/rewriter.h is the tool that they edit schedules with.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "sim/passes/price_changes.h"

namespace foregather::sim {

/// "NAME[=ARG[,KEY=VALUE]…]" in its parts. The views point into `text`.
struct PassArguments {
  std::string_view text;      ///< as given, for errors
  std::string_view argument;  ///< between the first '=' and the first ','; "" if there is none
  std::vector<std::pair<std::string_view, std::string_view>> options;
};

/// What scheduling passes know beyond the schedule.
struct PassContext {
  /// Prices of a graph's cost rows on the job's hardware, with those changes; empty: not known, and
  /// passes that go by times do nothing.
  std::function<CostTable(const Graph&, const PriceChanges&)> price = {};
  Bytes device_memory = 0;  ///< of a device, all of it; 0: not known
};

/// What the passes of a command line work on: a schedule, and what is to be changed about its
/// prices once it is priced.
struct PassTarget {
  Graph graph;
  PriceChanges prices = {};
  PassContext context = {};
  /// fuse-downcast,prefetch_dtype=shard: gathers that a later pass prefetches send the shard's
  /// dtype.
  bool prefetches_shards = false;
};

/// What one pass did.
struct PassNote {
  std::string pass;         ///< as given
  std::string did;          ///< one line for a person, without a full stop
  bool changed = true;      ///< false: it found nothing to do, and `did` says what it looked for
  bool is_foreign = false;  ///< what it found has not the shape of the schedules that it is for
};

/// A pass with its arguments read. The graph given is valid (see validate()), and so is the graph
/// left; after an error the target is unspecified. Errors: the schedule has what the pass needs,
/// but in a shape that it cannot rewrite; a rank that the job does not have.
class Pass {
 public:
  template <class Run>
  requires(!std::same_as<std::remove_cvref_t<Run>, Pass>) explicit Pass(Run run)
      : run_(std::move(run)) {}

  Result<PassNote> operator()(PassTarget& target) const { return run_(target); }
  std::string_view name;  ///< of its row in the registry

 private:
  std::function<Result<PassNote>(PassTarget&)> run_;
};

/// A row of the registry.
struct PassInfo {
  std::string_view name;
  std::string_view grammar;  ///< of what follows the name: "=KIND:FACTOR"
  std::string_view summary;  ///< a few words for the help of the command line
  std::string_view docs;     ///< its section of docs/passes.md, in Markdown, without the heading
  /// Reads the arguments; errors have the place "--what-if TEXT".
  Result<Pass> (*parse)(const PassArguments&);
};

/// "--what-if TEXT: …".
template <class... Args>
tl::unexpected<Error> bad_pass(const PassArguments& arguments, fmt::format_string<Args...> format,
                               Args&&... args) {
  return fail_at("--what-if " + std::string(arguments.text), format, std::forward<Args>(args)...);
}

}  // namespace foregather::sim
