#include "tasks/sniff.h"

#include <algorithm>

#include "core/ir/dump.h"
#include "core/plan/foreign_config.h"
#include "core/plan/workload_toml.h"
#include "core/store/reader.h"
#include "tasks/thunder_source.h"
#include "traces/execution_trace.h"
#include "traces/pickle.h"
#include "traces/text_source.h"

namespace foregather::tasks {
namespace {

constexpr std::string_view kReadable =
    "expected a workload (.toml), a schedule dump, a Thunder trace, Chakra traces, torch.profiler "
    "traces, Nsight Systems exports (SQLite) or a RUN.db";

bool is_text(std::string_view head) {
  return std::none_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x09 || (byte > 0x0d && byte < 0x20);
  });
}

// Of the first line that is neither blank nor a comment: a table header or a key.
bool is_like_toml(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    const auto closed = line.find(']', first);
    return (line[first] == '[' && closed != std::string_view::npos && closed > first + 1) ||
           (line[first] != '{' && line.find('=') != std::string_view::npos);
  }
  return false;
}

bool is_model_config(std::string_view head) {
  const auto first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' &&
         (head.find("\"model_type\"") != std::string_view::npos ||
          head.find("\"architectures\"") != std::string_view::npos);
}

// As it lies, packed, or in an archive.
bool is_execution_trace(std::string_view head, const std::string& path) {
  if (is_text(head)) return traces::is_execution_trace(head);
  const auto unpacked = traces::format_head(path, traces::is_execution_trace);
  return unpacked && traces::is_execution_trace(*unpacked);
}

}  // namespace

Result<SourceKind> sniff(std::string_view content, const std::string& path) {
  constexpr std::size_t kHead = 4096;
  const std::string_view head = content.substr(0, kHead);
  if (head.starts_with(kDumpHeader)) return SourceKind::schedule;
  if (store::is_database(head))
    return fail_at(path, "is a database of another program, {}", kReadable);
  if (head.empty()) return fail_at(path, "is empty, {}", kReadable);
  if (plan::is_deepspeed_config(content.substr(0, plan::kWorkloadFileLimit)))
    return SourceKind::workload;
  if (is_text(head) && traces::is_thunder_trace(thunder_head(content))) return SourceKind::thunder;
  if (is_text(head) && (path.ends_with(".toml") || is_like_toml(head))) return SourceKind::workload;
  if (is_model_config(head))
    return fail_at(path,
                   "is a model's config.json, expected a workload (.toml) that names it: "
                   "[model] config = \"config.json\"");
  if (is_execution_trace(head, path))
    return fail_at(path,
                   "is an execution trace, which says no times: 'foregather import' reads it, {}",
                   kReadable);
  if (traces::is_pickle(head))
    return fail_at(path, "is a pickle: 'foregather memory' reads memory snapshots, {}", kReadable);
  return fail_at(path, "is in no format that foregather reads, {}", kReadable);
}

}  // namespace foregather::tasks
