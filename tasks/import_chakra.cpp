#include <fmt/format.h>

#include <array>
#include <limits>
#include <map>
#include <memory>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "tasks/chakra_rank.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "traces/chakra.h"

namespace foregather::tasks {
namespace {

using traces::ChakraTrace;

struct Use {
  std::int64_t count = 0;
  Bytes bytes = 0;
};

struct ChakraFigures {
  std::map<std::string, std::int64_t> by_type;
  std::map<std::string, Use> by_collective;
  std::map<std::string, std::int64_t> by_group;
  std::int64_t on_host = 0, control_edges = 0, data_edges = 0, edges = 0;
  std::int64_t dangling = 0, self = 0, circle = 0;
  Ns compute = 0, host = 0, communication = 0;
  std::int64_t operations = 0;
  std::optional<std::uint32_t> rank;
  std::string dangling_at, circle_at;
};

// Of damaged files a sum may be more than fits.
void add(std::int64_t& sum, std::int64_t more) {
  if (__builtin_add_overflow(sum, more, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

std::string kind_of(const ChakraTrace& trace, std::size_t row) {
  const traces::ChakraComm& comm = trace.nodes.comms[trace.nodes.comm[row].row()];
  if (trace.nodes.type[row] != traces::ChakraType::collective) return "send_recv";
  return comm.collective ? std::string(traces::name(*comm.collective)) : "not_said";
}

void add_node(const ChakraTrace& trace, std::size_t row, ChakraFigures& figures) {
  const traces::ChakraNodes& nodes = trace.nodes;
  ++figures.by_type[std::string(traces::name(nodes.type[row]))];
  figures.control_edges += nodes.control_deps[row].count;
  figures.data_edges += nodes.deps[row].count;
  if (nodes.on_host[row] != 0) {
    ++figures.on_host;
    add(figures.host, nodes.duration[row]);
    return;
  }
  if (!nodes.comm[row]) {
    add(figures.compute, nodes.duration[row]);
    add(figures.operations, nodes.operations[row]);
    return;
  }
  add(figures.communication, nodes.duration[row]);
  const traces::ChakraComm& comm = nodes.comms[nodes.comm[row].row()];
  Use& use = figures.by_collective[kind_of(trace, row)];
  ++use.count;
  add(use.bytes, comm.bytes.value_or(0));
  ++figures.by_group[std::string(trace.groups_used.text(comm.group))];
}

std::string place_of(const ChakraTrace& trace, std::uint32_t row) {
  return fmt::format("node {} '{}'", trace.nodes.id[row], trace.nodes.name(row));
}

ChakraFigures figures_of(const ChakraTrace& trace, const std::string& path) {
  ChakraFigures figures;
  for (std::size_t row = 0; row < trace.nodes.size(); ++row) add_node(trace, row, figures);
  const traces::ChakraDeps deps = traces::resolve_deps(trace.nodes);
  figures.dangling = deps.dangling;
  figures.self = deps.self;
  figures.edges = static_cast<std::int64_t>(deps.rows.size());
  if (deps.first_dangling) figures.dangling_at = place_of(trace, *deps.first_dangling);
  const traces::ChakraOrder order = traces::topological_order(deps);
  figures.circle = static_cast<std::int64_t>(order.circle.size());
  if (!order.circle.empty()) figures.circle_at = place_of(trace, order.circle.front());
  figures.rank = chakra_rank(path);
  return figures;
}

void write(JsonWriter& json, const ChakraTrace& trace, const ChakraFigures& figures,
           Bytes file_bytes) {
  json.field("format", trace.is_json ? "chakra-json" : "chakra")
      .field("bytes", file_bytes)
      .field("raw_bytes", trace.bytes)
      .field("version", trace.version);
  json.key("metadata").begin_object();
  for (const auto& [key, value] : trace.attributes) json.field(key, value);
  json.end_object();
  json.key("rank");
  if (figures.rank)
    json.value(std::int64_t{*figures.rank});
  else
    json.null();
  json.field("nodes", static_cast<std::int64_t>(trace.nodes.size()));
  write_counts(json, "node_types", figures.by_type);
  json.field("host_nodes", figures.on_host)
      .field("ctrl_deps", figures.control_edges)
      .field("data_deps", figures.data_edges)
      .field("edges", figures.edges)
      .field("compute_ns", figures.compute)
      .field("host_ns", figures.host)
      .field("comm_ns", figures.communication)
      .field("num_ops", figures.operations);
  json.key("collectives").begin_object();
  for (const auto& [name, use] : figures.by_collective)
    json.key(name).begin_object().field("count", use.count).field("bytes", use.bytes).end_object();
  json.end_object();
  write_counts(json, "groups_used", figures.by_group);
  json.key("process_groups").begin_array();
  for (const traces::ChakraGroup& group : trace.groups) {
    json.begin_object().field("name", group.name).field("description", group.description);
    json.field("size", std::int64_t{group.size}).key("ranks").begin_array();
    for (const std::uint32_t rank : group.ranks) json.value(std::int64_t{rank});
    json.end_array().end_object();
  }
  json.end_array();
  json.field("circle", figures.circle).field("unknown_fields", trace.unknown_fields);
}

void describe(ImportedFile& file, const ChakraTrace& trace, const ChakraFigures& figures) {
  file.what = fmt::format("Chakra execution trace{}",
                          trace.version.empty() ? "" : ", version " + printable(trace.version));
  const std::string rank = figures.rank ? fmt::format("rank {}", *figures.rank) : "";
  file.rows.push_back({"nodes", format_count(static_cast<std::int64_t>(trace.nodes.size())), rank});
  for (const auto& [type, n] : figures.by_type) file.rows.push_back({type, format_count(n), ""});
  file.rows.push_back({"of the host", format_count(figures.on_host), format_time(figures.host)});
  file.rows.push_back({"edges", format_count(figures.edges), ""});
  file.rows.push_back({"compute", format_time(figures.compute), "sum of durations"});
  for (const auto& [kind, use] : figures.by_collective)
    file.rows.push_back({kind, format_count(use.count), format_bytes(use.bytes)});
}

void note_broken_deps(ImportedFile& file, const ChakraFigures& figures, const std::string& path) {
  if (figures.dangling > 0) {
    file.dropped.emplace_back("dangling_dep", figures.dangling);
    file.warnings.push_back(
        fmt::format("{}: {} dependencies on nodes that are not there were left, the first at {}",
                    path, figures.dangling, figures.dangling_at));
  }
  if (figures.self > 0) file.dropped.emplace_back("self_dep", figures.self);
  if (figures.circle > 0)
    file.warnings.push_back(
        fmt::format("{}: dependencies go in a circle of {} nodes, one of which is {}: it cannot "
                    "be simulated",
                    path, figures.circle, figures.circle_at));
}

Result<ImportedFile> import_chakra(const ImportSource& source) {
  auto read = traces::read_chakra(source.text, source.member.name);
  if (!read) return tl::unexpected(read.error());
  ImportedFile file;
  const auto trace = std::make_shared<const ChakraTrace>(std::move(*read));
  const ChakraFigures figures = figures_of(*trace, source.member.name);
  file.dropped = trace->dropped;
  file.read = rows_of(trace->nodes.size(), trace->dropped);
  file.warnings = trace->warnings;
  describe(file, *trace, figures);
  note_broken_deps(file, figures, source.member.name);
  file.write_json = [trace, figures, bytes = source.file_bytes](JsonWriter& json) {
    write(json, *trace, figures, bytes);
  };
  return file;
}

}  // namespace

const Importer kChakraImporter{"a Chakra execution trace",
                               [](std::string_view head) {
                                 return traces::is_chakra_et(head) || traces::is_chakra_json(head);
                               },
                               import_chakra, false};

}  // namespace foregather::tasks
