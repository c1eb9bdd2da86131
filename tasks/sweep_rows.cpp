#include "tasks/sweep_rows.h"

#include <algorithm>
#include <array>
#include <variant>

#include "core/base/csv.h"
#include "core/base/printable.h"

namespace foregather::tasks {
namespace {

using run::PointFigures;
using run::SweepPoint;
using Memory = PointFigures::Memory;
using Peaks = PointFigures::Peaks;
using Times = PointFigures::Times;
using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

template <class T>
Cell cell(const std::optional<T>& value) {
  return value ? Cell(*value) : Cell();
}

template <auto Member>
Cell time(const SweepPoint& point) {
  const auto& times = point.figures.times;
  return times ? cell(std::optional<std::int64_t>((*times).*Member)) : Cell();
}

template <Bytes Memory::*Member>
Cell size(const SweepPoint& point) {
  const auto& memory = point.figures.memory;
  return memory ? Cell((*memory).*Member) : Cell();
}

template <Peaks Memory::*Step, Bytes Peaks::*Member>
Cell peak(const SweepPoint& point) {
  const auto& memory = point.figures.memory;
  return memory ? Cell((*memory).*Step.*Member) : Cell();
}

template <auto Member>
Cell figure(const SweepPoint& point) {
  if (point.status == run::PointStatus::failed) return {};
  return point.figures.*Member;
}

struct Column {
  std::string_view name;
  Cell (*read)(const SweepPoint&);
};

constexpr std::array kColumns{
    Column{"status", [](const SweepPoint& p) { return Cell(std::string(name(p.status))); }},
    Column{"step_time_ns", time<&Times::step>},
    Column{"tokens_per_s_per_gpu",
           [](const SweepPoint& p) { return cell(p.figures.tokens_per_second); }},
    Column{"mfu", [](const SweepPoint& p) { return cell(p.figures.mfu); }},
    Column{"gpu_ps_per_token",
           [](const SweepPoint& p) { return cell(gpu_time_per_token(p.figures)); }},
    Column{"compute_busy_ns", time<&Times::compute_busy>},
    Column{"comm_busy_ns", time<&Times::comm_busy>},
    Column{"exposed_comm_ns", time<&Times::exposed_comm>},
    Column{"comm_wait_ns", time<&Times::comm_wait>},
    Column{"host_bound_ns", time<&Times::host_bound>},
    Column{"bytes_on_wire", time<&Times::on_wire>},
    Column{"ops", time<&Times::ops>},
    Column{"peak_requested_bytes", peak<&Memory::peaks, &Peaks::requested>},
    Column{"peak_allocated_bytes", peak<&Memory::peaks, &Peaks::allocated>},
    Column{"peak_active_bytes", peak<&Memory::peaks, &Peaks::active>},
    Column{"peak_reserved_bytes", peak<&Memory::peaks, &Peaks::reserved>},
    Column{"fits.margin_bytes",
           [](const SweepPoint& p) {
             return p.figures.memory ? cell(p.figures.memory->margin) : Cell();
           }},
    Column{"oom.op",
           [](const SweepPoint& p) {
             return p.figures.memory ? cell(p.figures.memory->oom_op) : Cell();
           }},
    Column{"oom.requested_bytes",
           [](const SweepPoint& p) {
             return p.figures.memory ? cell(p.figures.memory->oom_bytes) : Cell();
           }},
    Column{"first_step.step_time_ns", time<&Times::first_step>},
    Column{"first_step.peak_requested_bytes", peak<&Memory::first_peaks, &Peaks::requested>},
    Column{"first_step.peak_allocated_bytes", peak<&Memory::first_peaks, &Peaks::allocated>},
    Column{"first_step.peak_active_bytes", peak<&Memory::first_peaks, &Peaks::active>},
    Column{"first_step.peak_reserved_bytes", peak<&Memory::first_peaks, &Peaks::reserved>},
    Column{"hardware", figure<&PointFigures::hardware>},
    Column{"strategy", figure<&PointFigures::strategy>},
    Column{"world_size", figure<&PointFigures::world_size>},
    Column{"parameters", figure<&PointFigures::parameters>},
    Column{"capacity_bytes", size<&Memory::capacity>},
    Column{"outside_allocator_bytes", size<&Memory::outside_allocator>},
    Column{"warnings", figure<&PointFigures::warnings>},
    Column{"error", [](const SweepPoint& p) { return p.error.empty() ? Cell() : Cell(p.error); }},
};

struct CsvText {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(const std::string& text) const { return csv_cell(printable(text)); }
  template <class Number>
  std::string operator()(Number number) const {
    return fmt::format("{}", number);
  }
};

struct JsonText {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(const std::string& text) const { return json_quote(text); }
  template <class Number>
  std::string operator()(Number number) const {
    return fmt::format("{}", number);
  }
};

}  // namespace

std::optional<std::int64_t> gpu_time_per_token(const PointFigures& figures) {
  constexpr std::int64_t kPicoseconds = 1000;
  if (!figures.times || figures.tokens_per_rank_step == 0) return std::nullopt;
  const std::int64_t step = figures.times->step, tokens = figures.tokens_per_rank_step;
  return step / tokens * kPicoseconds + step % tokens * kPicoseconds / tokens;
}

std::optional<Bytes> reserved(const PointFigures& figures) {
  if (!figures.memory) return std::nullopt;
  return std::max(figures.memory->peaks.reserved, figures.memory->first_peaks.reserved);
}

std::string csv_header(const run::SweepInfo& info) {
  std::string line;
  for (const auto& axis : info.axes) line += csv_cell(printable(axis.first)) + ",";
  for (const Column& column : kColumns) line += std::string(column.name) + ",";
  line.back() = '\n';
  return line;
}

std::string csv_line(const SweepPoint& point) {
  std::string line;
  for (const std::string& value : point.values) line += csv_cell(printable(value)) + ",";
  for (const Column& column : kColumns) line += std::visit(CsvText{}, column.read(point)) + ",";
  line.back() = '\n';
  return line;
}

std::string json_line(const run::SweepInfo& info, const SweepPoint& point) {
  std::string line = fmt::format("{{\"point\":{},\"settings\":{{", point.index);
  for (std::size_t i = 0; i < point.values.size(); ++i)
    line += fmt::format("{}{}:{}", i == 0 ? "" : ",", json_quote(info.axes[i].first),
                        json_quote(point.values[i]));
  line += "}";
  for (const Column& column : kColumns)
    line += fmt::format(",\"{}\":{}", column.name, std::visit(JsonText{}, column.read(point)));
  return line + "}\n";
}

void write_fields(JsonWriter& json, const run::SweepInfo& info, const SweepPoint& point) {
  json.field("point", point.index);
  json.key("settings").begin_object();
  for (std::size_t i = 0; i < point.values.size(); ++i)
    json.field(info.axes[i].first, std::string_view(point.values[i]));
  json.end_object();
  for (const Column& column : kColumns)
    json.key(column.name).raw(std::visit(JsonText{}, column.read(point)));
}

}  // namespace foregather::tasks
