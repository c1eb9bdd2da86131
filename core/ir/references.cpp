#include "core/ir/references.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ir/names.h"

namespace foregather {

std::string BadRow::label() const {
  const char letter = static_cast<char>(table);
  switch (table) {
    case RowTable::job: return "job";
    case RowTable::stream:
    case RowTable::thread: return fmt::format("p{} {}{}", program, letter, row);
    case RowTable::action:
      return fmt::format("p{} h{} {} action {}", program, thread, name(section), row);
    default: return fmt::format("{}{}", letter, row);
  }
}

std::optional<Bytes> bytes_of(const Graph& graph, const Tensor& tensor) {
  Bytes bytes = size_of(tensor.dtype);
  for (std::uint32_t at = tensor.shape.first; at < tensor.shape.end(); ++at)
    if (graph.dims[at] < 0 || __builtin_mul_overflow(bytes, graph.dims[at], &bytes))
      return std::nullopt;
  return bytes;
}

namespace {

bool inside(Range range, std::size_t pool) {
  return range.first <= pool && range.count <= pool - range.first;
}

bool between(std::int64_t value, std::int64_t most) { return value >= 0 && value <= most; }

// Walks all tables; `here_` is the row that report() blames.
class ReferenceCheck {
 public:
  ReferenceCheck(const Graph& graph, std::size_t limit)
      : graph_(graph), limit_(limit), rank_seen_by_(std::min(graph.world_size, kMostRanks)) {}

  std::vector<BadRow> run() {
    job();
    if (!bad_.empty()) return std::move(bad_);
    each(RowTable::scope, graph_.scopes, [this](const Scope& row) { named(row.name); });
    each(RowTable::group, graph_.groups, [this](const Group& row) { group(row); });
    each(RowTable::communicator, graph_.communicators, [this](const Communicator& row) {
      named(row.name);
      required("group", 'g', row.group, graph_.groups.size());
    });
    each(RowTable::unit, graph_.units, [this](const Unit& row) { unit(row); });
    each(RowTable::cost, graph_.costs, [this](const Cost& row) { cost(row); });
    each(RowTable::storage, graph_.storages, [this](const Storage& row) { storage(row); });
    each(RowTable::tensor, graph_.tensors, [this](const Tensor& row) { tensor(row); });
    each(RowTable::program, graph_.programs, [this](const Program& row) { program(row); });
    if (bad_.empty()) disjoint();
    if (bad_.empty()) {
      for (here_.program = 0; here_.program < graph_.programs.size(); ++here_.program)
        contents(graph_.programs[here_.program]);
      here_.program = 0;
    }
    std::fill(rank_seen_by_.begin(), rank_seen_by_.end(), 0);
    each(RowTable::rank_class, graph_.classes, [this](const RankClass& row) { rank_class(row); });
    return std::move(bad_);
  }

 private:
  template <class Rows, class Check>
  void each(RowTable table, const Rows& rows, Check check) {
    here_.table = table;
    for (here_.row = 0; here_.row < rows.size() && bad_.size() < limit_; ++here_.row)
      check(rows[here_.row]);
  }

  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    if (bad_.size() >= limit_) return;
    bad_.push_back(here_);
    bad_.back().message = fmt::format(format, std::forward<Args>(args)...);
  }

  void named(StringId id) {
    if (id && id.row() >= graph_.strings.size())
      report("name n{} is none of the {} strings", id.row(), graph_.strings.size());
  }

  template <class Tag>
  bool optional(const char* what, char letter, Id<Tag> id, std::size_t rows) {
    if (!id) return true;
    if (id.row() < rows) return true;
    report("{} {}{} does not exist, expected one of {} rows", what, letter, id.row(), rows);
    return false;
  }

  template <class Tag>
  bool required(const char* what, char letter, Id<Tag> id, std::size_t rows) {
    if (id) return optional(what, letter, id, rows);
    report("has no {}, expected an id {}0 …", what, letter);
    return false;
  }

  bool owned(const char* what, char letter, std::uint32_t row, Range range) {
    if (range.contains(row)) return true;
    report("{} {}{} is not one of its program's {} ({}{}+{})", what, letter, row, what, letter,
           range.first, range.count);
    return false;
  }

  template <class Enum>
  bool enumerator(const char* what, Enum value, Enum last) {
    if (value <= last) return true;
    report("{} {} is not a known value", what, static_cast<unsigned>(value));
    return false;
  }

  void quantity(const char* what, std::int64_t value, std::int64_t most) {
    if (!between(value, most)) report("{} {} is out of range, expected 0 to {}", what, value, most);
  }

  void job() {
    here_.table = RowTable::job;
    if (graph_.world_size == 0 || graph_.world_size > kMostRanks)
      report("world size {} is out of range, expected 1 to {}", graph_.world_size, kMostRanks);
    quantity("number of parameters", graph_.parameters, kMostWork);
    quantity("number of tokens", graph_.tokens_per_rank_step, kMostWork);
    quantity("model FLOPs", graph_.model_flops_per_rank_step, kMostWork);
  }

  // Ranks in range, and none twice under one `owner`, a number that must not be 0.
  bool ranks(Range range, std::uint32_t owner) {
    if (!inside(range, graph_.rank_lists.size())) {
      report("ranks {}+{} lie outside the pool of {}", range.first, range.count,
             graph_.rank_lists.size());
      return false;
    }
    if (range.count == 0) report("has no ranks");
    for (std::uint32_t rank : graph_.ranks_of(range)) {
      if (rank >= graph_.world_size) {
        report("rank {} is out of range, expected 0 to {}", rank, graph_.world_size - 1);
        return false;
      }
      if (rank_seen_by_[rank] == owner) {
        report("rank {} is listed twice", rank);
        return false;
      }
      rank_seen_by_[rank] = owner;
    }
    return true;
  }

  void group(const Group& row) {
    named(row.name);
    if (!ranks(row.ranks, here_.row + 1)) return;
    if (row.instances == 0 || row.nodes == 0)
      report("{} instances on {} nodes each, expected at least 1", row.instances, row.nodes);
    if (std::uint64_t{row.instances} * row.ranks.count > graph_.world_size)
      report("{} instances of {} ranks are more than the world size {}", row.instances,
             row.ranks.count, graph_.world_size);
  }

  void unit(const Unit& row) {
    optional("scope", 's', row.scope, graph_.scopes.size());
    optional("group", 'g', row.group, graph_.groups.size());
    quantity("number of parameters", row.parameters, kMostWork);
    quantity("padded elements", row.padded_elements, kMostWork);
    enumerator("stored dtype", row.stored, DType::boolean);
    enumerator("gathered dtype", row.gathered, DType::boolean);
    enumerator("reduced dtype", row.reduced, DType::boolean);
    enumerator("reshard", row.reshard, Reshard::after_backward);
  }

  void cost(const Cost& row) {
    enumerator("kind", row.kind, kLastOpKind);
    enumerator("dtype", row.dtype, DType::boolean);
    quantity("flops", row.flops, kMostWork);
    quantity("bytes read", row.bytes_read, kMostBytes);
    quantity("bytes written", row.bytes_written, kMostBytes);
    quantity("message bytes", row.message_bytes, kMostBytes);
    quantity("fixed time", row.fixed_time, kMostTime);
    quantity("launch lead", row.launch_lead, kMostTime);
    quantity("lead", row.lead, kMostTime);
    quantity("lateness", row.lateness, kMostTime);
    quantity("usual time", row.usual_time.value_or(0), kMostTime);
    for (std::int64_t extent : {row.m, row.n, row.k, row.batch})
      quantity("extent", extent, kMostWork);
    if (!row.is_fixed && row.fixed_time != 0) report("has a fixed time but is not fixed");
    if (!row.is_fixed && (row.launch_lead != 0 || row.lead != 0))
      report("has a lead but is not fixed");
    if (!row.is_fixed && row.usual_time) report("has a usual time but is not fixed");
    if (row.lateness != 0 && (!row.is_fixed || !is_collective(row.kind)))
      report("has late ranks but is no fixed collective");
    optional("group", 'g', row.group, graph_.groups.size());
    if (is_collective(row.kind) && !row.is_fixed && !row.group)
      report("has no group, expected the ranks of the {}", name(row.kind));
  }

  void storage(const Storage& row) {
    named(row.name);
    quantity("size", row.bytes, kMostBytes);
    optional("scope", 's', row.scope, graph_.scopes.size());
    optional("unit", 'u', row.unit, graph_.units.size());
    enumerator("cause", row.cause, Cause::cache);
  }

  void tensor(const Tensor& row) {
    if (!enumerator("dtype", row.dtype, DType::boolean)) return;
    if (!required("storage", 'b', row.storage, graph_.storages.size())) return;
    if (!inside(row.shape, graph_.dims.size())) {
      report("shape {}+{} lies outside the pool of {}", row.shape.first, row.shape.count,
             graph_.dims.size());
      return;
    }
    const std::optional<Bytes> bytes = bytes_of(graph_, row);
    const Bytes room = graph_.at(row.storage).bytes;
    if (!bytes)
      report("has a negative dimension or more than 2^63 bytes");
    else if (row.offset < 0 || row.offset > room || *bytes > room - row.offset)
      report("takes {} bytes at {} of storage b{}, which has {}", *bytes, row.offset,
             row.storage.row(), room);
  }

  void program(const Program& row) {
    named(row.name);
    if (!inside(row.ops, graph_.ops.size()))
      report("ops o{}+{} lie outside the {} rows", row.ops.first, row.ops.count, graph_.ops.size());
    if (!inside(row.storages, graph_.storages.size()))
      report("storages b{}+{} lie outside the {} rows", row.storages.first, row.storages.count,
             graph_.storages.size());
    if (!inside(row.events, 1U << 31))
      report("events e{}+{} are too many, expected less than 2^31", row.events.first,
             row.events.count);
    if (row.streams.size() > kMostStreams)
      report("has {} streams, expected at most {}", row.streams.size(), kMostStreams);
    if (row.threads.size() > kMostThreads)
      report("has {} host threads, expected at most {}", row.threads.size(), kMostThreads);
  }

  // No row is in two programs.
  void disjoint() {
    for (Range Program::*rows : {&Program::ops, &Program::storages, &Program::events}) {
      std::vector<std::uint32_t> order;
      for (std::uint32_t p = 0; p < graph_.programs.size(); ++p)
        if ((graph_.programs[p].*rows).count > 0) order.push_back(p);
      const auto range = [&](std::uint32_t p) { return graph_.programs[p].*rows; };
      std::sort(order.begin(), order.end(),
                [&](std::uint32_t a, std::uint32_t b) { return range(a).first < range(b).first; });
      for (std::size_t i = 1; i < order.size(); ++i) {
        if (range(order[i - 1]).end() <= range(order[i]).first) continue;
        here_.table = RowTable::program;
        here_.row = order[i];
        report("shares rows with p{}", order[i - 1]);
      }
    }
  }

  void contents(const Program& program) {
    each(RowTable::stream, program.streams, [this](const Stream& row) { named(row.name); });
    each(RowTable::thread, program.threads, [this](const HostThread& row) { named(row.name); });
    here_.table = RowTable::op;
    for (here_.row = program.ops.first; here_.row < program.ops.end() && bad_.size() < limit_;
         ++here_.row)
      op(program, graph_.ops[here_.row]);
    for (here_.thread = 0; here_.thread < program.threads.size(); ++here_.thread)
      for (Section section : {Section::init, Section::first, Section::body}) {
        here_.section = section;
        each(RowTable::action, program.threads[here_.thread].actions(section),
             [&](const Action& row) { action(program, row); });
      }
    here_.thread = 0;
    here_.section = Section::init;
  }

  void op(const Program& program, const Op& row) {
    if (!enumerator("kind", row.kind, kLastOpKind)) return;
    enumerator("role", row.role, Role::other);
    enumerator("phase", row.phase, Phase::other);
    optional("scope", 's', row.scope, graph_.scopes.size());
    optional("unit", 'u', row.unit, graph_.units.size());
    required("stream", 'q', row.stream, program.streams.size());
    required("cost", 'k', row.cost, graph_.costs.size());
    communicates(row);
    op_list("dep", row.deps, program.ops);
    op_list("origin", row.origins, program.ops);
    if (!inside(row.accesses, graph_.accesses.size())) {
      report("accesses {}+{} lie outside the pool of {}", row.accesses.first, row.accesses.count,
             graph_.accesses.size());
      return;
    }
    for (const AccessedTensor& part : graph_.accesses_of(row)) access(program, part);
  }

  void communicates(const Op& row) {
    if (!is_collective(row.kind)) {
      if (row.communicator || row.sequence != 0)
        report("is a {} with a communicator, expected none", name(row.kind));
      return;
    }
    if (!required("communicator", 'c', row.communicator, graph_.communicators.size())) return;
    if (!row.cost || row.cost.row() >= graph_.costs.size()) return;
    const GroupId priced = graph_.at(row.cost).group;
    const GroupId group = graph_.at(row.communicator).group;
    if (priced && priced != group)
      report("is priced for group g{} but its communicator's is g{}", priced.row(), group.row());
  }

  void op_list(const char* what, Range list, Range ops) {
    if (!inside(list, graph_.op_lists.size())) {
      report("{}s {}+{} lie outside the pool of {}", what, list.first, list.count,
             graph_.op_lists.size());
      return;
    }
    for (std::uint32_t at = list.first; at < list.end(); ++at)
      if (!owned(what, 'o', graph_.op_lists[at].row(), ops)) return;
  }

  void access(const Program& program, const AccessedTensor& part) {
    enumerator("access", part.mode, Access::accumulate);
    if (!required("tensor", 't', part.tensor, graph_.tensors.size())) return;
    const Tensor& tensor = graph_.at(part.tensor);
    if (tensor.storage.row() >= graph_.storages.size() || !inside(tensor.shape, graph_.dims.size()))
      return;  // reported with the tensor
    owned("storage", 'b', tensor.storage.row(), program.storages);
    const Bytes bytes = bytes_of(graph_, tensor).value_or(0);
    if (part.offset < 0 || part.bytes < 0 || part.offset > bytes ||
        part.bytes > bytes - part.offset)
      report("touches {} bytes at {} of tensor t{}, which has {}", part.bytes, part.offset,
             part.tensor.row(), bytes);
  }

  void action(const Program& program, const Action& row) {
    if (!enumerator("action", row.kind, ActionKind::mark)) return;
    const ActionKind kind = row.kind;
    const bool has_stream = kind == ActionKind::alloc || kind == ActionKind::record_stream ||
                            kind == ActionKind::record || kind == ActionKind::wait ||
                            kind == ActionKind::host_wait_stream;
    const bool has_b = kind == ActionKind::host_wait_action || kind == ActionKind::mark;
    const bool has_a = kind != ActionKind::host_wait_stream &&
                       kind != ActionKind::host_wait_device && kind != ActionKind::empty_cache;
    if (has_stream) required("stream", 'q', row.stream, program.streams.size());
    if ((!has_stream && row.stream) || (!has_a && row.a != 0) || (!has_b && row.b != 0))
      report("is a {} with a stream, a or b that it does not use", name(kind));
    operand(program, row);
  }

  void operand(const Program& program, const Action& row) {
    switch (row.kind) {
      case ActionKind::launch: owned("op", 'o', row.a, program.ops); break;
      case ActionKind::alloc:
      case ActionKind::free:
      case ActionKind::record_stream: owned("storage", 'b', row.a, program.storages); break;
      case ActionKind::release:
        if (required("tensor", 't', TensorId(row.a), graph_.tensors.size()))
          owned("storage", 'b', graph_.tensors[row.a].storage.row(), program.storages);
        break;
      case ActionKind::record:
      case ActionKind::wait:
      case ActionKind::host_wait_event: owned("event", 'e', row.a, program.events); break;
      case ActionKind::host_wait_action:
        if (row.a >= program.threads.size())
          report("thread h{} does not exist, expected one of {}", row.a, program.threads.size());
        else if (row.b >= program.threads[row.a].actions(here_.section).size())
          report("thread h{} has no action {} in {}, expected less than {}", row.a, row.b,
                 name(here_.section), program.threads[row.a].actions(here_.section).size());
        break;
      case ActionKind::mark:
        if (row.a > 0xffff) report("micro-batch {} is out of range, expected 0 to 65535", row.a);
        enumerator("phase", row.b, static_cast<std::uint32_t>(Phase::other));
        break;
      default: break;
    }
  }

  void rank_class(const RankClass& row) {
    named(row.name);
    required("program", 'p', row.program, graph_.programs.size());
    ranks(row.ranks, 1);
    quantity("compute scale", row.compute_scale_ppm, std::int64_t{1} << 31);
    quantity("start delay", row.start_delay, kMostTime);
    quantity("hardware", row.hardware, kMostHardware);
  }

  const Graph& graph_;
  std::size_t limit_;
  std::vector<std::uint32_t> rank_seen_by_;
  BadRow here_;
  std::vector<BadRow> bad_;
};

}  // namespace

std::vector<BadRow> check_references(const Graph& graph, std::size_t limit) {
  return ReferenceCheck(graph, limit).run();
}

}  // namespace foregather
