#include "tests/models/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/plan/build_loss.h"
#include "core/plan/shard_layout.h"
#include "sim/memory/host_order.h"

namespace foregather::test {

namespace {

constexpr std::string_view kEmbedding = "embed";
constexpr std::string_view kHead = "head";

bool is_layer(std::string_view name) { return name.starts_with("layers."); }

/// The recording's names of the units of our graph, by row.
std::vector<std::string> unit_names(const Lowered& lowered, const RecordedCase& recorded) {
  const plan::Parallel& parallel = lowered.workload.parallel;
  const bool fsdp1 = parallel.strategy == plan::Strategy::fsdp1;
  const plan::ShardLayout layout = plan::shard_layout(
      lowered.model, parallel.wrap, fsdp1 ? plan::TiedUnits::at_root : plan::TiedUnits::merged);
  std::vector<std::string> ends;
  for (const RecordedUnit& unit : recorded.units)
    if (!unit.name.empty() && !is_layer(unit.name)) ends.push_back(unit.name);
  std::vector<std::string> names;
  std::uint32_t layer = 0;
  for (const plan::UnitPlan& unit : layout.units) {
    if (unit.parameters.count == 0) continue;
    if (unit.is_root)
      names.emplace_back();
    else if (lowered.model.is_tree)
      names.push_back(unit.path);
    else if (lowered.model.modules[unit.first_module].is_block)
      names.push_back(fmt::format("layers.{}", layer++));
    else
      names.push_back(ends.empty() ? "?" : unit.first_module == 0 ? ends.front() : ends.back());
  }
  return names;
}

/// Follows a section of the schedule and writes down what a recorder of PyTorch would.
class Listener {
 public:
  Listener(const Lowered& lowered, const RecordedCase& recorded)
      : graph_(lowered.graph),
        names_(unit_names(lowered, recorded)),
        reenters_(lowered.workload.parallel.reentrant_checkpoints) {
    for (const plan::Module& module : lowered.model.modules)
      if (module.is_block) blocks_.push_back(module.path);
    shows_group_ = !recorded.steady.collectives.empty() &&
                   std::count(recorded.steady.collectives[0].begin(),
                              recorded.steady.collectives[0].end(), ' ') == 7;
    for (const Op& op : graph_.ops) note_buffers(op);
    // Where a unit keeps a part, both parts and wholes are unsharded parameters: wholes are larger.
    std::map<std::pair<StringId, ScopeId>, Bytes> largest;
    const auto key = [](const Storage& s) { return std::pair(s.name, s.scope); };
    for (const Storage& storage : graph_.storages)
      if (storage.cause == Cause::unsharded_parameter)
        largest[key(storage)] = std::max(largest[key(storage)], storage.bytes);
    for (std::uint32_t row = 0; row < graph_.storages.size(); ++row) {
      const Storage& storage = graph_.storages[row];
      if (storage.cause == Cause::unsharded_parameter && storage.bytes < largest[key(storage)])
        parts_[row] = largest[key(storage)] / storage.bytes;
    }
    is_unsharded_.resize(graph_.units.size());
    sharers_.resize(graph_.units.size());
  }

  RecordedStep listen(Section section) {
    const Program& program = graph_.programs.front();
    const std::vector<sim::HostPoint> order = sim::host_order(program, section);
    // The unsharded state at the begin of a body is that at the end of the first step.
    if (section == Section::body) listen(Section::first);
    step_ = {};
    module_ = {};
    last_op_.clear();
    const auto action_at = [&](const sim::HostPoint& point) -> const Action& {
      return program.threads[point.thread].actions(section)[point.index];
    };
    std::map<std::uint32_t, std::set<std::uint32_t>> recorders;  // streams by event
    for (const sim::HostPoint& point : order) {
      const Action& action = action_at(point);
      if (action.kind == ActionKind::launch) note_last(graph_.ops[action.a]);
      if (action.kind == ActionKind::record) recorders[action.a].insert(action.stream.row());
    }
    for (const auto& [event, streams] : recorders)
      if (streams.size() > 1) joining_.insert(event);
    events_ = 0;
    for (const sim::HostPoint& point : order) hear(action_at(point));
    return std::move(step_);
  }

 private:
  void note(std::string_view token, std::string_view name) {
    step_.events.push_back(fmt::format("{} {}", token, name));
    step_.streams.push_back(step_.events.back());
  }

  std::string_view stream(StreamId id) const {
    return graph_.text(graph_.programs.front().streams[id.row()].name);
  }

  // --- streams ---

  /// Numbers events from 1 in each step. wait_stream() uses one event for all streams, recorded and
  /// waited for at once.
  void hear_record(const Action& action) {
    if (joining_.contains(action.a)) {
      joined_ = action.stream;
      return;
    }
    if (last_freed_) recorded_after_free_[action.a] = *last_freed_;
    numbers_[action.a] = ++events_;
    step_.streams.push_back(fmt::format("record e{} on {}", events_, stream(action.stream)));
  }

  void hear_wait(const Action& action) {
    if (joining_.contains(action.a)) {
      step_.streams.push_back(fmt::format("{} waits {}", stream(action.stream), stream(joined_)));
      return;
    }
    step_.streams.push_back(fmt::format("{} waits e{}", stream(action.stream), numbers_[action.a]));
  }

  void hear_host_wait(const Action& action) {
    if (recorded_after_free_.contains(action.a)) note("host_wait", recorded_after_free_[action.a]);
    step_.streams.push_back(fmt::format("host waits e{}", numbers_[action.a]));
  }

  void note_buffers(const Op& op) {
    if (op.kind != OpKind::all_gather && op.kind != OpKind::reduce_scatter) return;
    const bool gathers = op.kind == OpKind::all_gather;
    for (const AccessedTensor& access : graph_.accesses_of(op)) {
      const StorageId storage = graph_.at(access.tensor).storage;
      if (graph_.at(storage).cause != Cause::communication_buffer) continue;
      if (gathers && access.mode == Access::write) gathered_.insert(storage.row());
      if (!gathers && access.mode == Access::read) scattered_.insert(storage.row());
    }
  }

  // --- pieces ---

  std::string module_of(const Op& op) const {
    const std::string_view scope = graph_.scope_name(op.scope);
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      if (scope == blocks_[b] || scope.starts_with(blocks_[b] + '.'))
        return fmt::format("layers.{}", b);
    const bool forward = op.phase == Phase::forward;
    return std::string(forward == is_layer(module_) ? kHead : kEmbedding);
  }

  /// A pass of a module: its ops of one micro-batch in the forward, in the backward, or, where the
  /// checkpoint is around the unit, in the recomputation.
  std::string pass_of(const Op& op, const std::string& module) const {
    const std::string pass =
        fmt::format("{} {} {}", module, op.phase == Phase::forward, op.micro_batch);
    return is_again(op) ? pass + " alone" : pass;
  }
  bool is_again(const Op& op) const { return reenters_ && op.phase == Phase::recompute; }

  // The recorded models' callers compute the loss.
  bool is_of_a_module(const Op& op) const {
    return op.role == Role::compute && op.phase != Phase::optimizer && op.phase != Phase::other &&
           graph_.text(graph_.at(op.scope).name) != plan::kLossScope;
  }

  /// Tracks in which module the schedule is; embedding and head are told apart by what was before.
  std::string enter(const Op& op) {
    const std::string module = module_of(op);
    if (is_layer(module)) module_ = module;
    return module;
  }

  void note_last(const Op& op) {
    if (!is_of_a_module(op)) return;
    if (new_pass(op)) module_ = {};
    ++last_op_[pass_of(op, enter(op))];
  }

  bool new_pass(const Op& op) {
    const bool is_new = !pass_ || *pass_ != std::pair(op.phase == Phase::forward, op.micro_batch);
    pass_ = std::pair(op.phase == Phase::forward, op.micro_batch);
    return is_new;
  }

  void hear_compute(const Op& op) {
    if (new_pass(op)) module_ = {};
    const std::string module = enter(op);
    const std::string pass = pass_of(op, module);
    const bool forward = op.phase == Phase::forward || is_again(op);
    if (seen_.insert(pass).second) note(forward ? "fwd>" : "bwd>", module);
    if (!forward && op.phase == Phase::recompute && seen_.insert(pass + " again").second)
      note("fwd>", module);
    if (--last_op_[pass] == 0) {
      seen_.erase(pass);
      seen_.erase(pass + " again");
      if (forward || module != kEmbedding) note(forward ? "fwd<" : "bwd<", module);
    }
  }

  // --- actions ---

  void hear(const Action& action) {
    switch (action.kind) {
      case ActionKind::mark: return hear_mark(action);
      case ActionKind::launch: return hear_launch(graph_.ops[action.a]);
      case ActionKind::alloc: return hear_alloc(action.a);
      case ActionKind::free: return hear_free(action.a);
      case ActionKind::record: return hear_record(action);
      case ActionKind::wait: return hear_wait(action);
      case ActionKind::host_wait_event: return hear_host_wait(action);
      case ActionKind::record_stream:
        step_.streams.push_back(fmt::format("record_stream {} bytes on {}",
                                            graph_.storages[action.a].bytes,
                                            stream(action.stream)));
        return;
      default: return;
    }
  }

  void hear_mark(const Action& action) {
    const auto phase = static_cast<Phase>(action.b);
    if (phase == Phase::other) return;
    step_.events.push_back(fmt::format("== {} {}", name(phase), action.a));
    step_.streams.push_back(step_.events.back());
  }

  void hear_launch(const Op& op) {
    if (is_collective(op.kind)) return hear_collective(op);
    if (is_of_a_module(op)) hear_compute(op);
  }

  void hear_collective(const Op& op) {
    const Cost& cost = graph_.at(op.cost);
    const Communicator& communicator = graph_.at(op.communicator);
    const std::string unit = op.unit ? names_.at(op.unit.row()) : "";
    std::string_view group = graph_.text(communicator.name);
    if (group == "world") group = "shard";
    std::string row =
        fmt::format("{} {} {} {} {} {} {}", name(op.kind), op.unit ? "[" + unit + "]" : "-",
                    cost.message_bytes, name(cost.dtype), name(op.phase), op.micro_batch,
                    graph_.at(communicator.group).ranks.count);
    if (shows_group_) row += fmt::format(" {}", group);
    step_.collectives.push_back(std::move(row));
    const char* token = op.kind == OpKind::all_gather       ? "ag"
                        : op.kind == OpKind::reduce_scatter ? "rs"
                        : op.kind == OpKind::all_reduce     ? "ar"
                                                            : "bc";
    step_.events.push_back(op.unit ? fmt::format("{} {}", token, unit) : token);
    step_.streams.push_back(fmt::format("{} on {}", step_.events.back(), stream(op.stream)));
  }

  void hear_alloc(std::uint32_t row) {
    const Storage& storage = graph_.storages[row];
    if (storage.cause != Cause::unsharded_parameter || !storage.unit) return;
    const std::uint32_t unit = storage.unit.row();
    if (parts_.contains(row)) {
      sharers_[unit] = parts_.at(row);
    } else if (!is_unsharded_[unit]) {
      is_unsharded_[unit] = true;
      sharers_[unit] = 0;
      note("unshard", names_[unit]);
    }
  }

  void hear_free(std::uint32_t row) {
    const Storage& storage = graph_.storages[row];
    if (!storage.unit) return;
    const std::uint32_t unit = storage.unit.row();
    if (gathered_.contains(row)) note("agfree", names_[unit]);
    if (scattered_.contains(row)) note("rsfree", names_[unit]);
    if (storage.cause != Cause::unsharded_parameter || parts_.contains(row) || !is_unsharded_[unit])
      return;
    is_unsharded_[unit] = false;
    last_freed_ = names_[unit];
    note(sharers_[unit] > 0 ? fmt::format("reshard_to_{}", sharers_[unit]) : "reshard",
         names_[unit]);
  }

  const Graph& graph_;
  std::vector<std::string> names_;
  bool reenters_ = false;
  std::vector<std::string> blocks_;
  bool shows_group_ = false;
  std::set<std::uint32_t> gathered_, scattered_;  // storages
  std::map<std::uint32_t, Bytes> parts_;          // storages, and how many make up the whole
  std::vector<bool> is_unsharded_;                // by unit
  std::vector<Bytes> sharers_;                    // by unit: of a part allocated since, or 0
  int events_ = 0;                                // recorded in this step
  std::map<std::uint32_t, int> numbers_;          // of events, by id
  std::set<std::uint32_t> joining_;               // events of wait_stream()
  StreamId joined_;                               // where such an event was recorded last
  std::optional<std::string> last_freed_;
  std::map<std::uint32_t, std::string> recorded_after_free_;  // by event
  std::string module_;                                        // the latest layer, if any
  std::optional<std::pair<bool, std::uint16_t>> pass_;
  std::map<std::string, int> last_op_;  // ops left of a pass of a module
  std::set<std::string> seen_;
  RecordedStep step_;
};

}  // namespace

RecordedStep scheduled_step(const Lowered& lowered, Section section, const RecordedCase& recorded) {
  return Listener(lowered, recorded).listen(section);
}

std::vector<std::string> in_modules(const std::vector<std::string>& events) {
  std::vector<std::string> joined;
  for (const std::string& event : events) {
    const auto space = event.find(' ');
    const std::string token = event.substr(0, space);
    const std::string piece = space == std::string::npos ? "" : event.substr(space + 1);
    if (!token.ends_with('>') && !token.ends_with('<')) {
      joined.push_back(event);
      continue;
    }
    const std::string module = piece.starts_with("embed") || piece == "wte" || piece == "wpe"
                                   ? std::string(kEmbedding)
                               : is_layer(piece) ? piece
                                                 : std::string(kHead);
    // The next piece of the same module goes on where the last one ended.
    const std::string ended = token.substr(0, 3) + "< " + module;
    const std::string begun = token.substr(0, 3) + "> " + module;
    if (token.ends_with('>') && !joined.empty() && joined.back() == ended)
      joined.pop_back();
    else if (token.ends_with('<') || joined.empty() || joined.back() != begun)
      joined.push_back(token + ' ' + module);
  }
  return joined;
}

std::vector<std::string> only(const std::vector<std::string>& events,
                              std::initializer_list<std::string_view> tokens) {
  std::vector<std::string> kept;
  for (const std::string& event : events) {
    const std::string_view token = std::string_view(event).substr(0, event.find(' '));
    if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) kept.push_back(event);
  }
  return kept;
}

std::string difference(const std::vector<std::string>& expected,
                       const std::vector<std::string>& actual) {
  if (expected == actual) return {};
  const auto parted =
      std::mismatch(expected.begin(), expected.end(), actual.begin(), actual.end()).first;
  const auto at = static_cast<std::size_t>(parted - expected.begin());
  constexpr std::size_t kContext = 6;
  const auto shown = [at](const std::vector<std::string>& list) {
    std::string text;
    for (std::size_t i = at < kContext ? 0 : at - kContext;
         i < std::min(list.size(), at + kContext); ++i)
      text += fmt::format("\n    {}{}", i == at ? "* " : "  ", list[i]);
    return text;
  };
  return fmt::format("they part at {}\n  expected{}\n  actual{}", at, shown(expected),
                     shown(actual));
}

}  // namespace foregather::test
