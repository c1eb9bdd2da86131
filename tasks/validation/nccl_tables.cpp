#include "tasks/validation/nccl_tables.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/base/csv.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "tasks/validation/errors.h"
#include "tasks/validation/interconnect.h"
#include "tasks/validation/measured.h"
#include "tasks/validation/row_machine.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

constexpr std::size_t kMostTables = 10'000;

/// "https://github.com/OWNER/REPOSITORY/…" without what follows; other texts whole.
std::string publisher(std::string_view url) {
  constexpr int kSlashes = 5;
  std::size_t end = 0;
  for (int i = 0; i < kSlashes && end != std::string_view::npos; ++i)
    end = url.find('/', i == 0 ? 0 : end + 1);
  return std::string(url.substr(0, end));
}

bool is_blank(const std::string& cell) {
  return is_no_number(cell) || lower(trimmed(cell)) == "nan";
}

/// Reads the cells of one table.
class NcclTable {
 public:
  NcclTable(const CsvTable& table, std::string name) : table_(table), name_(std::move(name)) {}

  Result<std::vector<NcclRow>> read() {
    for (const char* needed : {"collective", "nranks", "size_bytes"})
      if (!table_.column(needed))
        return fail_at(table_.path() + ":1:1", "column '{}' is missing", needed);
    std::vector<NcclRow> rows;
    for (std::size_t i = 0; i < table_.rows(); ++i) {
      NcclRow row;
      row.table = name_;
      row.source = publisher(text(i, "source_url"));
      if (row.source.empty()) row.source = name_;
      row.collective = text(i, "collective");
      row.kind = collective_of(row.collective);
      row.gpu = text(i, "gpu");
      row.interconnect = text(i, "interconnect");
      constexpr double kMostRanks = 1 << 20;
      constexpr double kMostBytes = 1e15;
      const auto ranks = whole(i, "nranks", kMostRanks);
      const auto nodes = is_blank(text(i, "nnodes")) ? assumed_nodes(ranks, row.gpu)
                                                     : whole(i, "nnodes", kMostRanks);
      const auto size = number(i, "size_bytes", 0, kMostBytes);
      for (const char* needed : {"nranks", "size_bytes"})
        if (is_blank(text(i, needed))) row.skipped = fmt::format("{} is not stated", needed);
      if (!row.skipped.empty()) {
        rows.push_back(std::move(row));
        continue;
      }
      for (const auto* value : {&ranks, &nodes, &size})
        if (!*value) return tl::unexpected(value->error());
      row.ranks = static_cast<int>(*ranks);
      row.nodes = static_cast<int>(*nodes);
      row.domains = domains_of(row.gpu, row.interconnect, row.ranks, row.nodes);
      row.size = static_cast<Bytes>(*size);
      if (!is_blank(text(i, "time_us"))) {
        const auto time = number(i, "time_us", 0, 1e12);
        if (!time) return tl::unexpected(time.error());
        if (*time > 0) row.published_us = *time;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  /// Empty where the table has no such column.
  const std::string& text(std::size_t row, std::string_view column) const {
    static const std::string kNothing;
    const auto at = table_.column(column);
    return at ? table_.cell(row, *at) : kNothing;
  }

  static Result<double> assumed_nodes(const Result<double>& ranks, const std::string& gpu) {
    const auto each = static_cast<double>(gpus_of_node(hardware_of_gpu(gpu)));
    return ranks.map([&](double n) { return std::ceil(n / each); });
  }

  Result<double> number(std::size_t row, std::string_view column, double least, double most) const {
    const std::string_view cell = trimmed(text(row, column));
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size() ||
        !(value >= least && value <= most))
      return fail_at(table_.place(row, *table_.column(column)),
                     "'{}' is '{}', expected a number from {} to {}", column, cell.substr(0, 40),
                     least, most);
    return value;
  }

  Result<double> whole(std::size_t row, std::string_view column, double most) const {
    auto value = number(row, column, 1, most);
    if (value && *value != std::floor(*value))
      return fail_at(table_.place(row, *table_.column(column)),
                     "'{}' is '{}', expected a whole number", column,
                     text(row, column).substr(0, 40));
    return value;
  }

  const CsvTable& table_;
  std::string name_;
};

/// Rows of one machine stand together: it is loaded once.
void predict(std::vector<NcclRow>& rows) {
  for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
    while (end < rows.size() && are_alike(rows[first], rows[end])) ++end;
    const NcclRow& of = rows[first];
    const auto hardware = machine_of_interconnect(of.gpu, of.interconnect, of.ranks, of.nodes);
    std::optional<sim::CollectivePricer> pricer;
    if (hardware) pricer.emplace(*hardware, 1.0);
    for (std::size_t i = first; i < end; ++i) {
      NcclRow& row = rows[i];
      if (!row.skipped.empty()) continue;
      if (!row.kind)
        row.skipped = fmt::format("collective '{}' is not known", row.collective);
      else if (row.nodes > row.ranks)
        row.skipped = fmt::format("{} ranks cannot be on {} nodes", row.ranks, row.nodes);
      else if (!hardware)
        row.skipped = hardware.error().message;
      else
        row.predicted_us = predicted_us(row, *pricer);
    }
  }
}

}  // namespace

bool are_alike(const NcclRow& a, const NcclRow& b) {
  return a.table == b.table && a.gpu == b.gpu && a.interconnect == b.interconnect &&
         a.ranks == b.ranks && a.nodes == b.nodes;
}

double predicted_us(const NcclRow& row, sim::CollectivePricer& pricer) {
  constexpr double kMicrosecond = 1000;
  return pricer
             .price(*row.kind, row.size, static_cast<std::uint32_t>(row.ranks),
                    static_cast<std::uint32_t>(row.domains))
             .work.time /
         kMicrosecond;
}

std::optional<double> NcclRow::error() const {
  if (!published_us || !predicted_us) return std::nullopt;
  return std::abs(*predicted_us - *published_us) / *published_us;
}

Result<std::vector<NcclRow>> predict_nccl_tables(const std::string& directory) {
  auto rows = read_nccl_tables(directory);
  if (rows) predict(*rows);
  return rows;
}

Result<std::vector<NcclRow>> read_nccl_tables(const std::string& directory) {
  std::error_code problem;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator entry(directory, problem), end;
       !problem && entry != end && files.size() < kMostTables; entry.increment(problem))
    if (entry->path().extension() == ".csv") files.push_back(entry->path());
  if (problem) return fail_at(directory, "{}, expected a folder of tables", problem.message());
  std::sort(files.begin(), files.end());
  std::vector<NcclRow> all;
  for (const std::filesystem::path& file : files) {
    const auto text = read_file(file.string(), kLargestTable);
    if (!text) return tl::unexpected(text.error());
    const auto table = parse_csv(*text, file.string());
    if (!table) return tl::unexpected(table.error());
    auto rows = NcclTable(*table, file.stem().string()).read();
    if (!rows) return tl::unexpected(rows.error());
    all.insert(all.end(), std::make_move_iterator(rows->begin()),
               std::make_move_iterator(rows->end()));
  }
  return all;
}

std::optional<double> nccl_median(const std::vector<NcclRow>& rows, Bytes least, Bytes most) {
  std::vector<std::pair<double, double>> errors;
  for (const NcclRow& row : rows)
    if (const auto error = row.error(); error && row.size >= least && row.size < most)
      errors.emplace_back(*error, 1.0);
  return weighted_quantile(std::move(errors), 0.5);
}

}  // namespace foregather::tasks
