#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "traces/execution_trace.h"

namespace foregather::tasks {
namespace {

using traces::ExecutionTrace;

struct TraceFigures {
  std::map<std::string, std::int64_t> comm_nodes;
  std::int64_t comm = 0, operators = 0, backward = 0, duplicates = 0, threads = 0;
  bool is_member = false;
};

// The rule of the figures that this is compared with: any of these in the name.
bool is_comm(std::string_view name) {
  constexpr std::array<std::string_view, 6> kParts{"c10d::",     "nccl:",     "record_param_comms",
                                                   "all_gather", "allreduce", "reduce_scatter"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

TraceFigures figures_of(const ExecutionTrace& trace) {
  TraceFigures figures;
  const traces::ExecutionNodes& nodes = trace.nodes;
  std::vector<std::int64_t> by_name(trace.strings.size());
  std::set<std::uint64_t> threads;
  for (std::size_t row = 0; row < nodes.size(); ++row) {
    ++by_name[nodes.name[row].row()];
    figures.operators += nodes.is_operator[row];
    figures.backward += nodes.forward_parent[row] != 0 ? 1 : 0;
    threads.insert(nodes.thread[row]);
  }
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    const std::string_view name = trace.strings.text(StringId(i));
    if (by_name[i] == 0 || !is_comm(name)) continue;
    figures.comm_nodes.emplace(name, by_name[i]);
    figures.comm += by_name[i];
  }
  std::vector<std::uint64_t> ids = nodes.id;
  std::sort(ids.begin(), ids.end());
  figures.duplicates = ids.end() - std::unique(ids.begin(), ids.end());
  figures.threads = static_cast<std::int64_t>(threads.size());
  return figures;
}

void write(JsonWriter& json, const ExecutionTrace& trace, const TraceFigures& figures,
           Bytes file_bytes) {
  json.field("format", "execution-trace").field("bytes", file_bytes);
  json.field(figures.is_member ? "json_bytes" : "raw_bytes", trace.bytes);
  json.key("keys").begin_array();
  for (const std::string& key : trace.keys) json.value(key);
  json.end_array();
  for (const auto& [key, text] : trace.header) json.key(key).raw(text);
  json.field("nodes", trace.elements);
  write_counts(json, "comm_nodes", figures.comm_nodes);
  json.field("operators", figures.operators)
      .field("backward_nodes", figures.backward)
      .field("threads", figures.threads)
      .field("duplicate_ids", figures.duplicates);
}

Result<ImportedFile> import_execution_trace(const ImportSource& source) {
  auto read = traces::read_execution_trace(source.text, source.member.name);
  if (!read) return tl::unexpected(read.error());
  const auto trace = std::make_shared<const ExecutionTrace>(std::move(*read));
  TraceFigures figures = figures_of(*trace);
  figures.is_member = source.member.name.find('!') != std::string::npos;
  ImportedFile file;
  file.what = "PyTorch execution trace";
  for (const auto& [key, text] : trace->header) {
    if (key != "schema") continue;
    file.has_schema = true;
    file.what += ", schema " + printable(text);
  }
  file.rows.push_back({"nodes", format_count(trace->elements),
                       fmt::format("{} operators", format_count(figures.operators))});
  file.rows.push_back({"backward nodes", format_count(figures.backward), ""});
  file.rows.push_back({"threads", format_count(figures.threads), ""});
  file.rows.push_back({"communication nodes", format_count(figures.comm), ""});
  for (const auto& [name, n] : figures.comm_nodes)
    file.rows.push_back({"  " + printable(name), format_count(n), ""});
  file.dropped = trace->dropped;
  file.read = rows_of(trace->nodes.size(), trace->dropped);
  file.warnings = trace->warnings;
  if (figures.duplicates > 0)
    file.warnings.push_back(fmt::format(
        "{}: {} of {} nodes {} the id of another one, and {} "
        "counted again",
        source.member.name, figures.duplicates, trace->nodes.size(),
        figures.duplicates == 1 ? "has" : "have", figures.duplicates == 1 ? "is" : "are"));
  file.write_json = [trace, figures, bytes = source.file_bytes](JsonWriter& json) {
    write(json, *trace, figures, bytes);
  };
  return file;
}

}  // namespace

const Importer kExecutionTraceImporter{"a PyTorch execution trace (JSON)",
                                       traces::is_execution_trace, import_execution_trace, false};

}  // namespace foregather::tasks
