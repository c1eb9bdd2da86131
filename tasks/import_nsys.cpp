#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/base/text.h"
#include "core/compare/recorded_busy.h"
#include "core/store/reader.h"
#include "profiler/raw_file.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "tasks/process_snapshots.h"
#include "traces/foreign_sqlite.h"
#include "traces/nsys.h"

namespace foregather::tasks {
namespace {

struct ImportedExport {
  traces::NsysFacts facts;
  compare::RecordedFigures figures;
  std::vector<const compare::RecordedDevice*> devices;  // those with kernels, by number
  std::vector<std::string> gpus;
  Bytes file_bytes = 0;
  MemoryUses memory;
};

void write_streams(JsonWriter& json, const run::Recording& recording,
                   const compare::RecordedFigures& figures, StringId device) {
  json.key("streams").begin_object();
  for (const compare::RecordedStream& stream : figures.streams) {
    const run::Lane& lane = recording.lanes[stream.lane.row()];
    if (lane.process != device || stream.kernels == 0) continue;
    json.key(recording.text(lane.thread))
        .begin_object()
        .field("n", stream.kernels)
        .field("busy_ns", stream.kernel_busy)
        .end_object();
  }
  json.end_object();
}

void write_device(JsonWriter& json, const run::Recording& recording, const ImportedExport& imported,
                  const compare::RecordedDevice& device) {
  const compare::RecordedBusy& busy = device.busy;
  json.key(recording.text(device.name))
      .begin_object()
      .field("kernels", busy.kernels)
      .field("comm_kernels", busy.comm_kernels)
      .field("comm_sum_ns", busy.comm_time)
      .field("comm_union_ns", busy.comm)
      .field("compute_union_ns", busy.compute)
      .field("exposed_comm_ns", busy.exposed());
  json.key("overlap_pct");
  write_percent(json, busy.overlap, busy.comm);
  json.key("kinds").begin_object();
  for (const auto& [kind, use] : busy.by_kind) json.field(kind, use.count);
  json.end_object();
  write_streams(json, recording, imported.figures, device.name);
  json.end_object();
}

void write_export(JsonWriter& json, const run::Recording& recording,
                  const ImportedExport& imported) {
  const traces::NsysFacts& facts = imported.facts;
  json.field("format", facts.is_raw ? "raw" : "nsys").field("bytes", imported.file_bytes);
  json.key("meta").begin_object();
  for (const auto& [name, value] : facts.meta) json.field(name, value);
  json.end_object();
  json.key("gpus").begin_array();
  for (const std::string& name : imported.gpus) json.value(name);
  json.end_array();
  json.field("kernels", imported.figures.all.kernels)
      .field("gpu_span_ns", imported.figures.last_kernel - imported.figures.first_kernel)
      .field("nvtx_ranges", facts.nvtx_ranges);
  json.key("per_device").begin_object();
  for (const compare::RecordedDevice* device : imported.devices)
    write_device(json, recording, imported, *device);
  json.end_object();
  if (!imported.memory.empty()) write_memory(json, imported.memory);
  write_counts(json, "tables", facts.tables);
}

void describe(ImportedFile& file, const run::Recording& recording, const ImportedExport& imported) {
  file.what = imported.facts.is_raw ? "raw recording" : "Nsight Systems export";
  const compare::RecordedFigures& figures = imported.figures;
  file.rows.push_back({"kernels", format_count(figures.all.kernels),
                       fmt::format("{} of communication", format_count(figures.all.comm_kernels))});
  file.rows.push_back({"NVTX ranges", format_count(imported.facts.nvtx_ranges), ""});
  file.rows.push_back({"device span", format_time(figures.last_kernel - figures.first_kernel), ""});
  for (const compare::RecordedDevice* device : imported.devices) {
    const std::string name = fmt::format("device {}", recording.text(device->name));
    const compare::RecordedBusy& busy = device->busy;
    file.rows.push_back({name + " compute", format_time(busy.compute),
                         fmt::format("kernels: {}", format_count(busy.kernels))});
    if (busy.comm_kernels > 0)
      file.rows.push_back({name + " communication", format_time(busy.comm),
                           fmt::format("exposed {}", format_time(busy.exposed()))});
  }
  describe_memory(file, imported.memory);
}

std::vector<const compare::RecordedDevice*> used_devices(const run::Recording& recording,
                                                         const compare::RecordedFigures& figures) {
  std::vector<const compare::RecordedDevice*> devices;
  for (const compare::RecordedDevice& device : figures.devices)
    if (device.busy.kernels > 0) devices.push_back(&device);
  const auto number = [&](const compare::RecordedDevice* device) {
    const std::string_view name = recording.text(device->name);
    return std::pair(name.size(), name);
  };
  std::sort(devices.begin(), devices.end(),
            [&](const auto* a, const auto* b) { return number(a) < number(b); });
  return devices;
}

Result<ImportedFile> import_nsys(const ImportSource& source) {
  const std::string& path = source.member.name;
  if (source.member.is_packed)
    return fail_at(path,
                   "is a packed SQLite database, which can only be read as a file of its "
                   "own: unpack it first");
  std::string head(std::size_t{1} << 10, '\0');
  const auto n = source.text.read(head);
  if (!n) return tl::unexpected(n.error());
  if (store::is_run_database(std::string_view(head).substr(0, *n)))
    return fail_at(path,
                   "is a run that foregather wrote, expected a file of another tool: "
                   "export and compare read it as it is");
  if (profiler::is_raw_recording(std::string_view(head).substr(0, *n)))
    if (const std::string error = profiler::recover(path); !error.empty())
      return fail_work(path, "cannot be recovered: {}", error);
  auto trace = traces::read_nsys(path);
  if (!trace) return tl::unexpected(trace.error());
  if (trace->facts.is_raw) add_snapshots(snapshots_beside(path), trace->recording);
  auto imported = std::make_shared<ImportedExport>();
  imported->facts = std::move(trace->facts);
  imported->figures = compare::recorded_figures(trace->recording);
  imported->devices = used_devices(trace->recording, imported->figures);
  const std::set<std::string> gpus(trace->recording.devices.begin(),
                                   trace->recording.devices.end());
  imported->gpus.assign(gpus.begin(), gpus.end());
  imported->file_bytes = source.file_bytes;
  imported->memory = memory_uses(trace->recording);

  ImportedFile file;
  describe(file, trace->recording, *imported);
  take_accounts(file, trace->recording, imported->figures.duplicates);
  const auto recording = std::make_shared<const run::Recording>(std::move(trace->recording));
  file.recording = recording;
  file.write_json = [imported, recording](JsonWriter& json) {
    write_export(json, *recording, *imported);
  };
  return file;
}

}  // namespace

const Importer kNsysImporter{"an Nsight Systems export (SQLite)", traces::is_sqlite, import_nsys};

}  // namespace foregather::tasks
