#include "traces/chakra_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/ir/builder.h"
#include "core/ir/references.h"
#include "core/run/kernel_names.h"
#include "traces/ready_order.h"

namespace foregather::traces {
namespace {

std::vector<std::uint32_t> first_ranks(std::uint32_t n) {
  std::vector<std::uint32_t> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

// What the ranks that there are, and the groups, say of the world.
std::uint32_t world_of(std::span<const ChakraClass> classes) {
  std::uint32_t world = 1;
  for (const ChakraClass& ranks : classes) {
    for (const std::uint32_t rank : ranks.ranks) world = std::max(world, rank + 1);
    for (const ChakraComm& comm : ranks.trace->nodes.comms)
      world = std::max({world, comm.source.value_or(0) + 1, comm.destination.value_or(0) + 1});
    for (const ChakraGroup& group : ranks.trace->groups) {
      world = std::max(world, group.size);
      for (const std::uint32_t rank : group.ranks) world = std::max(world, rank + 1);
    }
  }
  return world;
}

OpKind kind_of(ChakraCollective collective) {
  switch (collective) {
    case ChakraCollective::all_reduce: return OpKind::all_reduce;
    case ChakraCollective::reduce: return OpKind::reduce;
    case ChakraCollective::all_gather: return OpKind::all_gather;
    case ChakraCollective::broadcast: return OpKind::broadcast;
    case ChakraCollective::all_to_all: return OpKind::all_to_all;
    case ChakraCollective::reduce_scatter:
    case ChakraCollective::reduce_scatter_block: return OpKind::reduce_scatter;
    case ChakraCollective::barrier: return OpKind::barrier;
    // NCCL does them by sends between the root and the others.
    case ChakraCollective::gather:
    case ChakraCollective::scatter: break;
  }
  return OpKind::send_recv;
}

// As of a recorded kernel of communication, which need not say it either.
OpKind kind_by_name(std::string_view name) {
  const OpKind kind = run::op_kind(run::ActivityKind::kernel, name);
  return is_collective(kind) ? kind : OpKind::send_recv;
}

// NCCL's size of a collective from the trace's.
Bytes message_of(ChakraCollective collective, Bytes bytes, std::size_t ranks) {
  const auto n = static_cast<Bytes>(std::max<std::size_t>(ranks, 1));
  switch (collective) {
    case ChakraCollective::all_gather: return bytes * n;
    case ChakraCollective::gather:
    case ChakraCollective::scatter: return bytes * (n - 1);
    default: return bytes;
  }
}

Role role_of(OpKind kind) {
  if (kind == OpKind::all_gather) return Role::gather;
  return kind == OpKind::reduce_scatter || kind == OpKind::all_reduce ? Role::reduce : Role::other;
}

std::vector<std::uint32_t> distinct(std::vector<std::uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string node_text(const ChakraNodes& nodes, std::uint32_t row) {
  return fmt::format("node {} '{}'", nodes.id[row], nodes.name(row));
}

// The group of all ranks, which PyTorch calls "0".
bool is_world(std::string_view group) { return group.empty() || group == "0"; }

std::string class_name(const std::vector<std::uint32_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const bool is_run = ranks.back() - ranks.front() + 1 == ranks.size();
  return is_run ? fmt::format("ranks {} to {}", ranks.front(), ranks.back())
                : fmt::format("{} ranks from {}", ranks.size(), ranks.front());
}

/// Groups and communicators of the job, each made on first use.
class Communicators {
 public:
  Communicators(GraphBuilder& builder, std::uint32_t world, std::uint32_t gpus_per_node)
      : builder_(builder), world_(world), gpus_per_node_(std::max(gpus_per_node, 1U)) {}

  /// The first use of a group by a rank that is in none of its kind; empty: there is none.
  const std::string& stranger() const { return stranger_; }
  /// Is there a group of a trace that declares none? It is taken to have all ranks.
  bool has_undeclared() const { return has_undeclared_; }

  struct Entry {
    CommunicatorId id;
    GroupId group;
    std::size_t ranks = 0;
  };

  /// `users`, ascending, are the ranks of the class. Where the group lacks some of them, it stands
  /// for their own ones.
  const Entry& of_group(const ChakraTrace& trace, StringId name,
                        const std::vector<std::uint32_t>& users) {
    const std::string_view text = trace.groups_used.text(name);
    const auto declared =
        std::find_if(trace.groups.begin(), trace.groups.end(), [&](const ChakraGroup& group) {
          const bool is_same = is_world(text) ? is_world(group.name) : group.name == text;
          return is_same && !group.ranks.empty();
        });
    has_undeclared_ = has_undeclared_ || trace.groups.empty();
    const auto ranks =
        declared == trace.groups.end() ? first_ranks(world_) : distinct(declared->ranks);
    if (!is_world(text)) return entry(std::string(text), ranks, users);
    return entry(ranks.size() == world_ ? "world" : "0", ranks, users);
  }
  const Entry& of_pair(std::uint32_t from, std::uint32_t to,
                       const std::vector<std::uint32_t>& users) {
    return entry(fmt::format("{} to {}", from, to), distinct({from, to}), users);
  }
  /// Of what says too little to meet another class's.
  const Entry& of_class(const std::vector<std::uint32_t>& users) {
    return entry(fmt::format("communication of {}", class_name(users)), users, users);
  }

 private:
  const Entry& entry(const std::string& name, const std::vector<std::uint32_t>& ranks,
                     const std::vector<std::uint32_t>& users) {
    const bool has_all = std::includes(ranks.begin(), ranks.end(), users.begin(), users.end());
    const auto n = static_cast<std::uint32_t>(ranks.size());
    const std::uint32_t instances = has_all ? 1 : world_ / n;
    if (!has_all && (instances == 1 || instances * n != world_) && stranger_.empty())
      stranger_ = fmt::format(
          "a node on the communicator '{}' of {} ranks, and are not all among them", name, n);
    const auto [found, is_new] = entries_.try_emplace({name, ranks, instances});
    if (!is_new) return found->second;
    std::vector<std::uint32_t> nodes;
    for (const std::uint32_t rank : ranks) nodes.push_back(rank / gpus_per_node_);
    const auto spanned = static_cast<std::uint32_t>(distinct(std::move(nodes)).size());
    const GroupId group = builder_.group(name, ranks, spanned, instances);
    return found->second = {builder_.communicator(name, group), group, ranks.size()};
  }

  GraphBuilder& builder_;
  std::uint32_t world_, gpus_per_node_;
  std::string stranger_;
  bool has_undeclared_ = false;
  std::map<std::tuple<std::string, std::vector<std::uint32_t>, std::uint32_t>, Entry> entries_;
};

/// By row of a communicator: its nodes as places in a file, in the order of their starts.
using CommunicatorOrders = std::map<std::uint32_t, std::vector<std::uint32_t>>;

/// One class's program.
class Lowering {
 public:
  Lowering(GraphBuilder& builder, Communicators& communicators, const ChakraTrace& trace,
           std::vector<std::uint32_t> ranks)
      : ranks_(std::move(ranks)),
        builder_(builder),
        communicators_(communicators),
        trace_(trace),
        nodes_(trace.nodes),
        by_group_(trace.groups_used.size() + 1) {}

  const std::vector<std::uint32_t>& ranks() const { return ranks_; }

  /// Costs and communicators of all nodes; before place().
  void price() {
    for (std::uint32_t row = 0; row < nodes_.size(); ++row) specs_.push_back(spec_of(row));
  }

  /// Of communication that neither says how long it took nor what prices it; empty: there is none.
  std::string untimed() const {
    if (untimed_ == 0) return {};
    return fmt::format(
        "{}: {} nodes of communication take no time: they have no duration, and no size, kind or "
        "peers to price them by, the first of them {}",
        trace_.source, untimed_, node_text(nodes_, first_untimed_));
  }

  /// The program. `firsts` are the orders of communicators that earlier classes found.
  Result<ProgramId> place(const ChakraDeps& deps, const std::vector<Ns>& durations,
                          const std::string& name, CommunicatorOrders& firsts) {
    const auto order = order_of(deps, durations, firsts);
    if (!order) return tl::unexpected(order.error());
    const ProgramId program = builder_.begin_program(name);
    for (const std::string& stream : stream_names_) builder_.stream(stream);
    const std::uint32_t issuer = builder_.thread("issuer");
    std::vector<OpId> ops(nodes_.size());
    std::vector<OpId> before;
    for (const std::uint32_t row : *order) {
      before.clear();
      for (const std::uint32_t other : deps.before(row)) before.push_back(ops[other]);
      ops[row] = builder_.op(specs_[row], {}, before);
    }
    for (const Section section : {Section::first, Section::body}) {
      builder_.select(issuer, section);
      for (const std::uint32_t row : *order) builder_.launch(ops[row]);
      builder_.host_wait_device();
    }
    builder_.end_program();
    return program;
  }

 private:
  OpSpec spec_of(std::uint32_t row) {
    OpSpec spec;
    spec.scope = builder_.scope(nodes_.name(row));
    Cost cost;
    cost.is_fixed = true;
    cost.fixed_time = nodes_.duration[row];
    if (nodes_.on_host[row] != 0)
      spec.stream = stream("host");
    else if (nodes_.comm[row])
      communicate(row, spec, cost);
    else if (nodes_.type[row] == ChakraType::mem_load || nodes_.type[row] == ChakraType::mem_store)
      move(row, spec, cost);
    else
      compute(row, spec, cost);
    cost.kind = spec.kind;
    spec.cost = builder_.cost(cost);
    return spec;
  }

  void compute(std::uint32_t row, OpSpec& spec, Cost& cost) {
    spec.stream = stream("compute");
    if (nodes_.operations[row] > 0) spec.kind = OpKind::gemm;
    const bool has_work = nodes_.operations[row] > 0 || nodes_.tensor_bytes[row] > 0;
    if (cost.fixed_time > 0 || !has_work) return;
    cost.is_fixed = false;
    cost.dtype = DType::bf16;
    cost.flops = nodes_.operations[row];
    cost.bytes_read = nodes_.tensor_bytes[row];
  }

  // Between the device's memory and the host's, which stands for any other.
  void move(std::uint32_t row, OpSpec& spec, Cost& cost) {
    const bool is_load = nodes_.type[row] == ChakraType::mem_load;
    spec.stream = stream("memory");
    spec.kind = is_load ? OpKind::host_to_device : OpKind::device_to_host;
    spec.role = Role::offload;
    if (cost.fixed_time > 0 || nodes_.tensor_bytes[row] == 0) return;
    cost.is_fixed = false;
    cost.bytes_read = cost.bytes_written = nodes_.tensor_bytes[row];
  }

  void communicate(std::uint32_t row, OpSpec& spec, Cost& cost) {
    const ChakraComm& comm = nodes_.comms[nodes_.comm[row].row()];
    const bool in_group = nodes_.type[row] == ChakraType::collective;
    const bool names_all = in_group ? comm.collective.has_value() : comm.source && comm.destination;
    const Communicators::Entry* entry = nullptr;
    Bytes message = comm.bytes.value_or(0);
    spec.kind = OpKind::send_recv;
    if (!names_all) {
      entry = &communicators_.of_class(ranks_);
      if (in_group) {
        spec.kind = kind_by_name(nodes_.name(row));
        message = 0;  // what the size means depends on the kind
      }
    } else if (in_group) {
      entry = &of_group(comm.group);
      spec.kind = kind_of(*comm.collective);
      message = message_of(*comm.collective, message, entry->ranks);
    } else {
      entry = &communicators_.of_pair(*comm.source, *comm.destination, ranks_);
    }
    spec.role = role_of(spec.kind);
    spec.communicator = entry->id;
    const Graph& graph = builder_.graph();
    spec.stream = stream(names_all ? graph.text(graph.at(entry->id).name) : "communication");
    cost.dtype = DType::u8;
    cost.group = entry->group;
    cost.message_bytes = message;
    const bool has_size = comm.bytes || (spec.kind == OpKind::barrier && cost.fixed_time == 0);
    cost.is_fixed = !names_all || !has_size;
    if (!cost.is_fixed)
      cost.fixed_time = 0;
    else if (cost.fixed_time == 0 && untimed_++ == 0)
      first_untimed_ = row;
  }

  const Communicators::Entry& of_group(StringId name) {
    const Communicators::Entry*& known = by_group_[name ? name.row() + 1 : 0];
    if (known == nullptr) known = &communicators_.of_group(trace_, name, ranks_);
    return *known;
  }

  StreamId stream(std::string_view name) {
    const auto found = std::find(stream_names_.begin(), stream_names_.end(), name);
    const StreamId id(static_cast<std::size_t>(found - stream_names_.begin()));
    if (found == stream_names_.end()) stream_names_.emplace_back(name);
    return id;
  }

  Result<std::vector<std::uint32_t>> order_of(const ChakraDeps& deps,
                                              const std::vector<Ns>& durations,
                                              CommunicatorOrders& firsts) const {
    std::vector<std::uint32_t> streams;
    std::vector<Ns> times;
    std::map<std::uint32_t, std::vector<std::uint32_t>> of_communicator;  // in the file's order
    for (std::uint32_t row = 0; row < nodes_.size(); ++row) {
      streams.push_back(specs_[row].stream.row());
      times.push_back(durations[specs_[row].cost.row()]);
      if (specs_[row].communicator) of_communicator[specs_[row].communicator.row()].push_back(row);
    }
    std::vector<std::vector<std::uint32_t>> prescribed(stream_names_.size());
    for (const auto& [communicator, rows] : of_communicator) {
      const auto first = firsts.find(communicator);
      if (first == firsts.end() || first->second.size() != rows.size()) continue;
      for (const std::uint32_t place : first->second)
        prescribed[streams[rows.front()]].push_back(rows[place]);
    }
    auto order = ready_order({deps, streams, times, prescribed});
    if (order.size() < nodes_.size())
      return fail_at(trace_.source,
                     "its dependencies do not allow the order of collectives that the first rank's "
                     "have, expected one order on all ranks");
    note_orders(order, of_communicator, firsts);
    return order;
  }

  void note_orders(const std::vector<std::uint32_t>& order,
                   const std::map<std::uint32_t, std::vector<std::uint32_t>>& of_communicator,
                   CommunicatorOrders& firsts) const {
    std::vector<std::uint32_t> started(nodes_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) started[order[i]] = i;
    for (const auto& [communicator, rows] : of_communicator) {
      const auto [entry, is_new] = firsts.try_emplace(communicator);
      if (!is_new) continue;
      entry->second.resize(rows.size());
      std::iota(entry->second.begin(), entry->second.end(), 0U);
      std::sort(entry->second.begin(), entry->second.end(),
                [&, &of = rows](std::uint32_t a, std::uint32_t b) {
                  return started[of[a]] < started[of[b]];
                });
    }
  }

  std::vector<std::uint32_t> ranks_;  // of the class
  GraphBuilder& builder_;
  Communicators& communicators_;
  const ChakraTrace& trace_;
  const ChakraNodes& nodes_;
  std::vector<const Communicators::Entry*> by_group_;  // by StringId + 1; 0: not said
  std::vector<OpSpec> specs_;                          // by row
  std::vector<std::string> stream_names_;
  std::int64_t untimed_ = 0;
  std::uint32_t first_untimed_ = 0;
};

// The dependencies without circles.
Result<ChakraDeps> checked_deps(const ChakraTrace& trace, std::vector<std::string>& warnings) {
  ChakraDeps deps = resolve_deps(trace.nodes);
  auto circle = topological_order(deps).circle;
  if (!circle.empty()) {
    deps = resolve_deps(trace.nodes, ControlDeps::backward);
    circle = topological_order(deps).circle;
    warnings.push_back(
        fmt::format("{}: dependencies go in a circle: {} control dependencies on later nodes were "
                    "left out",
                    trace.source, deps.forward));
  }
  if (deps.dangling > 0)
    warnings.push_back(fmt::format(
        "{}: {} dependencies on nodes that are not there were left out, the first of {}",
        trace.source, deps.dangling, node_text(trace.nodes, *deps.first_dangling)));
  if (!circle.empty())
    return fail_at(trace.source,
                   "data dependencies go in a circle of {} nodes: {} waits for {}, expected none",
                   circle.size(), node_text(trace.nodes, circle[0]),
                   node_text(trace.nodes, circle[1 % circle.size()]));
  return deps;
}

}  // namespace

Result<ChakraGraph> chakra_graph(std::span<const ChakraClass> classes,
                                 const ChakraGraphOptions& options) {
  const std::uint32_t named = world_of(classes);
  const std::uint32_t world = std::max(options.world_size.value_or(1), named);
  const std::string& source = classes.front().trace->source;
  if (world > kMostRanks)
    return fail_at(source, "names {} ranks, expected at most {}", world, kMostRanks);
  if (options.world_size && named > *options.world_size)
    return fail_at(source, "names {} ranks, more than the world size of {}", named,
                   *options.world_size);
  ChakraGraph result;
  for (const ChakraClass& rank_class : classes)
    result.warnings.insert(result.warnings.end(), rank_class.trace->warnings.begin(),
                           rank_class.trace->warnings.end());
  GraphBuilder builder;
  builder.graph().world_size = world;
  Communicators communicators(builder, world, options.gpus_per_node);
  const bool stands_for_all = classes.size() == 1 && classes.front().ranks.size() == 1 && world > 1;
  if (stands_for_all)
    result.warnings.push_back(
        fmt::format("{}: the trace of one rank stands for all {}", source, world));
  std::vector<Lowering> lowerings;
  for (const ChakraClass& rank_class : classes) {
    lowerings
        .emplace_back(builder, communicators, *rank_class.trace,
                      stands_for_all ? first_ranks(world) : rank_class.ranks)
        .price();
    if (!communicators.stranger().empty())
      return fail_at(rank_class.trace->source, "{} have {}", class_name(lowerings.back().ranks()),
                     communicators.stranger());
    if (std::string untimed = lowerings.back().untimed(); !untimed.empty())
      result.warnings.push_back(std::move(untimed));
  }
  std::size_t given = 0;
  for (const ChakraClass& rank_class : classes) given += rank_class.ranks.size();
  if (!options.world_size && !stands_for_all && given < world)
    result.warnings.push_back(
        fmt::format("{} ranks are named, and {} have a trace: the others are not simulated: give "
                    "all files, or --set parallel.world_size={}",
                    world, given, world));
  else if (!options.world_size && communicators.has_undeclared())
    result.warnings.push_back(
        fmt::format("{}: declares no process groups: collectives are taken to be of {} rank{}, as "
                    "given: give all files, or --set parallel.world_size=N",
                    source, world, world == 1 ? "" : "s"));
  std::vector<Ns> durations;
  if (options.durations)
    durations = options.durations(builder.graph());
  else
    for (const Cost& cost : builder.graph().costs) durations.push_back(cost.fixed_time);
  CommunicatorOrders orders;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto deps = checked_deps(*classes[i].trace, result.warnings);
    if (!deps) return tl::unexpected(deps.error());
    const auto& ranks = lowerings[i].ranks();
    const std::string name = class_name(ranks);
    const auto program = lowerings[i].place(*deps, durations, name, orders);
    if (!program) return tl::unexpected(program.error());
    RankClass row;
    row.program = *program;
    row.name = builder.graph().strings.intern(name);
    builder.rank_class(row, ranks);
  }
  result.graph = builder.finish();
  return result;
}

}  // namespace foregather::traces
