#include "tasks/validation/measured.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "core/base/csv.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

constexpr std::int64_t kMostCount = 1 << 24;
constexpr double kLeast = 1e-12;  // so that ratios are finite

struct TextColumn {
  std::string_view name;
  std::string MeasuredRow::*field;
  bool required;
  bool is_word = false;  ///< one of a few: capitals mean nothing
};

constexpr TextColumn kTexts[] = {
    {"id", &MeasuredRow::id, true},
    {"tier", &MeasuredRow::tier, false},
    {"group", &MeasuredRow::group, false},
    {"model", &MeasuredRow::model, false},
    {"gpu", &MeasuredRow::gpu, true},
    {"strategy", &MeasuredRow::strategy_text, false},
    {"activation_checkpointing", &MeasuredRow::checkpointing_text, false},
    {"precision", &MeasuredRow::precision_text, false},
    {"notes", &MeasuredRow::notes, false},
    {"source_url", &MeasuredRow::source, false},
    {"strategy_key", &MeasuredRow::strategy, true, true},
    {"param_dtype", &MeasuredRow::param_dtype, true, true},
    {"reduce_dtype", &MeasuredRow::reduce_dtype, true, true},
    {"compute", &MeasuredRow::compute, true, true},
    {"master", &MeasuredRow::master, true, true},
    {"fp8_all_gather", &MeasuredRow::fp8_all_gather, true, true},
    {"ac_key", &MeasuredRow::checkpointing, true, true},
    {"compile_key", &MeasuredRow::compile, true, true},
    {"attention", &MeasuredRow::attention, true, true},
    {"optimizer", &MeasuredRow::optimizer, true, true},
    {"mem_metric", &MeasuredRow::memory_metric, true, true},
    {"mem_when", &MeasuredRow::memory_when, true, true},
    {"alloc_conf", &MeasuredRow::allocator_conf, true},
    {"config", &MeasuredRow::config, true},
    {"link", &MeasuredRow::link, true, true},
    {"fabric", &MeasuredRow::fabric, true, true},
};

struct CountColumn {
  std::string_view name;
  std::int64_t MeasuredRow::*field;
};

constexpr CountColumn kCounts[] = {
    {"tp", &MeasuredRow::tensor_parallel},
    {"cp", &MeasuredRow::context_parallel},
    {"pp", &MeasuredRow::pipeline_parallel},
    {"grad_accum", &MeasuredRow::grad_accum},
};

struct OptionalCountColumn {
  std::string_view name;
  std::optional<std::int64_t> MeasuredRow::*field;
};

constexpr OptionalCountColumn kOptionalCounts[] = {
    {"n_gpus", &MeasuredRow::gpus},
    {"n_nodes", &MeasuredRow::nodes},
    {"micro_batch", &MeasuredRow::micro_batch},
    {"seq_len", &MeasuredRow::seq_len},
};

struct NumberColumn {
  std::string_view name;
  std::optional<double> MeasuredRow::*field;
  bool is_answer;  ///< and may be missing
};

constexpr NumberColumn kNumbers[] = {
    {"fabric_gbps_per_gpu", &MeasuredRow::fabric_gbps, false},
    {"step_time_s", &MeasuredRow::step_time_s, true},
    {"peak_mem_gib", &MeasuredRow::peak_gib, true},
};

// "131,072"
std::string without_separators(std::string_view text) {
  std::string digits;
  std::size_t group = 0;  // digits since the last separator
  bool separated = false;
  for (const char c : text) {
    if (c == ',') {
      if (digits.empty() || group > 3 || (separated && group != 3)) return std::string(text);
      separated = true;
      group = 0;
      continue;
    }
    if (!is_digit(c)) return std::string(text);
    digits += c;
    ++group;
  }
  return separated && group != 3 ? std::string(text) : digits;
}

/// One cell after the other of one row.
class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  MeasuredRow read() {
    MeasuredRow row;
    row.place = table_.place(row_, 0);
    for (const TextColumn& column : kTexts)
      if (const auto at = table_.column(column.name)) {
        const std::string_view text = trimmed(table_.cell(row_, *at));
        row.*column.field = column.is_word ? lower(text) : std::string(text);
      }
    const auto take = [&](const Result<std::optional<double>>& number) {
      if (number) return *number;
      if (row.fault.empty()) row.fault = number.error().text();
      return std::optional<double>();
    };
    for (const CountColumn& column : kCounts) {
      if (const auto count = take(number(column.name)))
        row.*column.field = static_cast<std::int64_t>(*count);
      else if (!text_of(column.name).empty())
        row.taken_as_one.emplace_back(column.name);
    }
    for (const OptionalCountColumn& column : kOptionalCounts)
      if (const auto count = take(number(column.name)))
        row.*column.field = static_cast<std::int64_t>(*count);
    for (const NumberColumn& column : kNumbers) {
      const auto value = number(column.name, false);
      if (!value && column.is_answer) {
        row.warnings.push_back(value.error().text() + "; left out");
        continue;
      }
      row.*column.field = take(value);
      if (column.is_answer && lower(text_of(column.name)) == "oom") row.notes += " OOM";
    }
    return row;
  }

 private:
  Result<std::optional<double>> number(std::string_view name, bool whole = true) const {
    const auto column = table_.column(name);
    if (is_no_number(text_of(name))) return std::optional<double>();
    const std::string_view written = text_of(name);
    const std::string text = whole ? without_separators(written) : std::string(written);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = error == std::errc() && end == text.data() + text.size();
    if (!read || !std::isfinite(value) || value < kLeast ||
        (whole && (value > static_cast<double>(kMostCount) || value != std::floor(value))))
      return fail_at(table_.place(row_, *column), "'{}' is '{}', expected a positive {}", name,
                     text.substr(0, 40), whole ? "whole number" : "number");
    return std::optional<double>(value);
  }

  std::string_view text_of(std::string_view name) const {
    const auto column = table_.column(name);
    return column ? trimmed(table_.cell(row_, *column)) : std::string_view();
  }

  const CsvTable& table_;
  std::size_t row_;
};

Status check_columns(const CsvTable& table, const std::string& path) {
  std::vector<std::string_view> missing;
  for (const TextColumn& column : kTexts)
    if (column.required && !table.column(column.name)) missing.push_back(column.name);
  for (const CountColumn& column : kCounts)
    if (!table.column(column.name)) missing.push_back(column.name);
  for (const OptionalCountColumn& column : kOptionalCounts)
    if (!table.column(column.name)) missing.push_back(column.name);
  for (const NumberColumn& column : kNumbers)
    if (!column.is_answer && !table.column(column.name)) missing.push_back(column.name);
  if (missing.empty()) return {};
  return fail_at(path + ":1:1",
                 "column '{}' is missing, expected the columns of a table of "
                 "measured runs (docs/formats.md)",
                 fmt::join(missing, "', '"));
}

}  // namespace

bool MeasuredRow::ran_out_of_memory() const {
  return !has_answer() && notes.find("OOM") != std::string::npos;
}

Result<std::vector<MeasuredRow>> read_measured(const std::string& path) {
  const auto text = read_file(path, kLargestTable);
  if (!text) return tl::unexpected(text.error());
  const auto table = parse_csv(*text, path);
  if (!table) return tl::unexpected(table.error());
  if (const Status checked = check_columns(*table, path); !checked)
    return tl::unexpected(checked.error());
  std::vector<MeasuredRow> rows;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    MeasuredRow row = RowReader(*table, i).read();
    if (row.id.empty()) return fail_at(row.place, "a row without an id");
    if (!ids.insert(row.id).second) return fail_at(row.place, "the id '{}' twice", row.id);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace foregather::tasks
