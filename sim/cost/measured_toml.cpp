#include "sim/cost/measured_toml.h"

#include <algorithm>
#include <array>
#include <optional>
#include <toml++/toml.h>

#include "core/base/json_writer.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/base/toml_depth.h"

namespace foregather::sim {

namespace {

using run::WorkSample;

constexpr std::int64_t kMost = std::int64_t{1} << 60;
constexpr double kWidest = 1000;  // of a residual

/// A number of a row: its key, and where it goes.
struct RowKey {
  std::string_view key;
  std::int64_t& (*field)(WorkSample&);
};
constexpr std::array<RowKey, 11> kRowKeys{{
    {"m", [](WorkSample& s) -> std::int64_t& { return s.cost.m; }},
    {"n", [](WorkSample& s) -> std::int64_t& { return s.cost.n; }},
    {"k", [](WorkSample& s) -> std::int64_t& { return s.cost.k; }},
    {"batch", [](WorkSample& s) -> std::int64_t& { return s.cost.batch; }},
    {"flops", [](WorkSample& s) -> std::int64_t& { return s.cost.flops; }},
    {"read", [](WorkSample& s) -> std::int64_t& { return s.cost.bytes_read; }},
    {"written", [](WorkSample& s) -> std::int64_t& { return s.cost.bytes_written; }},
    {"message", [](WorkSample& s) -> std::int64_t& { return s.cost.message_bytes; }},
    {"threads", [](WorkSample& s) -> std::int64_t& { return s.threads; }},
    {"repeats", [](WorkSample& s) -> std::int64_t& { return s.repeats; }},
    {"ns", [](WorkSample& s) -> std::int64_t& { return s.time; }},
}};
constexpr std::array<std::string_view, 13> kRowNames{
    "m",       "n",       "k",       "batch", "flops",  "read", "written",
    "message", "threads", "repeats", "ns",    "priced", "ranks"};
constexpr std::array<std::string_view, 5> kGroupNames{"kernel", "kind", "dtype", "source", "rows"};
constexpr std::array<std::string_view, 4> kResidualNames{"kind", "low", "high", "source"};

std::string list(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

class MeasuredReader {
 public:
  explicit MeasuredReader(const std::string& place) : place_(place) {}

  Status read_groups(const toml::node& node, std::vector<WorkSample>& measured) {
    const toml::array* const groups = node.as_array();
    if (groups == nullptr) return fail_at(at(node), "expected tables: write [[measured]]");
    for (const toml::node& group : *groups)
      if (Status done = read_group(group, measured); !done) return done;
    return {};
  }

  Status read_residuals(const toml::node& node, std::vector<Residual>& residuals) {
    const toml::array* const rows = node.as_array();
    if (rows == nullptr) return fail_at(at(node), "expected tables: write [[residual]]");
    for (const toml::node& row : *rows) {
      const auto table = table_of(row, kResidualNames, "a residual");
      if (!table) return tl::unexpected(table.error());
      Residual residual;
      if (Status done = read_enum(**table, "kind", residual.kind); !done) return done;
      residual.low = (**table)["low"].value<double>().value_or(0);
      residual.high = (**table)["high"].value<double>().value_or(0);
      if (!(residual.low >= 1 / kWidest && residual.low <= 1 && residual.high >= 1 &&
            residual.high <= kWidest))
        return fail_at(at(row), "expected 0.001 <= low <= 1 <= high <= 1000");
      std::erase_if(residuals, [&](const Residual& r) { return r.kind == residual.kind; });
      residuals.push_back(residual);
    }
    return {};
  }

 private:
  std::string at(const toml::node& node) const {
    const auto& begin = node.source().begin;
    return fmt::format("{}:{}:{}", place_, begin.line, begin.column);
  }

  // A table with no other keys than these, and, where it may have one, with a source.
  Result<const toml::table*> table_of(const toml::node& node,
                                      std::span<const std::string_view> keys,
                                      std::string_view what) const {
    const toml::table* const table = node.as_table();
    if (table == nullptr) return fail_at(at(node), "expected {}, a table", what);
    for (const auto& [key, ignored] : *table)
      if (std::find(keys.begin(), keys.end(), key.str()) == keys.end())
        return fail_at(
            fmt::format("{}:{}:{}", place_, key.source().begin.line, key.source().begin.column),
            "unknown key '{}'{}; {} has {}", key.str(), did_you_mean(key.str(), keys), what,
            list(keys));
    const bool has_source = std::find(keys.begin(), keys.end(), "source") != keys.end();
    const auto source = (*table)["source"].value<std::string>();
    if (has_source && (!source || source->find_first_not_of(" \t") == std::string::npos))
      return fail_at(at(node), "{} has no source: say where it comes from, source = \"…\"", what);
    return table;
  }

  template <class Enum>
  Status read_enum(const toml::table& table, std::string_view key, Enum& value) const {
    const auto text = table[key].value<std::string>();
    const auto known = text ? parse<Enum>(*text) : std::nullopt;
    if (!known)
      return fail_at(at(table), "'{}' must be one of Foregather's, as \"{}\"", key, name(value));
    value = *known;
    return {};
  }

  Status read_group(const toml::node& node, std::vector<WorkSample>& measured) const {
    const auto found = table_of(node, kGroupNames, "measured work");
    if (!found) return tl::unexpected(found.error());
    const toml::table& group = **found;
    WorkSample common;
    common.cost.kind = OpKind::gemm;
    common.cost.dtype = DType::bf16;
    common.kernel = group["kernel"].value<std::string>().value_or("");
    if (Status done = read_enum(group, "kind", common.cost.kind); !done) return done;
    if (Status done = read_enum(group, "dtype", common.cost.dtype); !done) return done;
    const toml::array* const rows = group["rows"].as_array();
    if (rows == nullptr) return fail_at(at(node), "measured work has no rows: write rows = [ … ]");
    for (const toml::node& row : *rows) {
      WorkSample sample = common;
      if (Status done = read_row(row, sample); !done) return done;
      measured.push_back(std::move(sample));
    }
    return {};
  }

  Status read_row(const toml::node& node, WorkSample& sample) const {
    const auto found = table_of(node, kRowNames, "a row");
    if (!found) return tl::unexpected(found.error());
    const toml::table& row = **found;
    const auto number = [&](std::string_view key, std::int64_t most,
                            std::int64_t& value) -> Status {
      const toml::node* const given = row.get(key);
      if (given == nullptr) return {};
      const auto whole = given->is_integer() ? given->value<std::int64_t>() : std::nullopt;
      if (!whole || *whole < 0 || *whole > most)
        return fail_at(at(*given), "'{}' must be a whole number from 0 to {}", key, most);
      value = *whole;
      return {};
    };
    for (const RowKey& key : kRowKeys)
      if (Status done = number(key.key, kMost, key.field(sample)); !done) return done;
    std::int64_t ranks = 1;
    if (Status done = number("ranks", 1 << 20, ranks); !done) return done;
    sample.ranks = static_cast<std::uint32_t>(std::max<std::int64_t>(ranks, 1));
    if (sample.time <= 0) return fail_at(at(node), "a row needs its time: ns = …, above 0");
    const toml::node* const priced = row.get("priced");
    if (priced != nullptr && !priced->is_boolean())
      return fail_at(at(*priced), "'priced' must be true or false");
    sample.has_cost = priced != nullptr && priced->value<bool>().value_or(false);
    return {};
  }

  const std::string& place_;
};

std::string toml_quoted(std::string_view text) { return json_quote(printable(text)); }

std::string row_text(WorkSample sample) {
  std::string text;
  const auto add = [&](std::string_view key, std::int64_t value) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, value);
  };
  for (const RowKey& key : kRowKeys)
    if (const std::int64_t value = key.field(sample); value != 0) add(key.key, value);
  if (sample.ranks > 1) add("ranks", sample.ranks);
  if (sample.has_cost && !is_collective(sample.cost.kind)) text += ", priced = true";
  return "  { " + text + " },\n";
}

}  // namespace

bool is_measured_section(std::string_view section) {
  return section == "measured" || section == "residual";
}

Status read_measured(std::string_view text, const std::string& place,
                     std::vector<WorkSample>& measured, std::vector<Residual>& residuals) {
  if (text.find("measured") == text.npos && text.find("residual") == text.npos) return {};
  if (Status shallow = check_toml_depth(text, place); !shallow) return shallow;
  try {
    const toml::table root = toml::parse(text, place);
    MeasuredReader reader(place);
    if (const toml::node* const groups = root.get("measured"))
      if (Status done = reader.read_groups(*groups, measured); !done) return done;
    if (const toml::node* const rows = root.get("residual"))
      if (Status done = reader.read_residuals(*rows, residuals); !done) return done;
  } catch (const toml::parse_error& error) {
    return fail_at(
        fmt::format("{}:{}:{}", place, error.source().begin.line, error.source().begin.column),
        "{}", error.description());
  }
  return {};
}

std::string measured_text(std::span<const WorkSample> measured, std::span<const Residual> residuals,
                          const std::string& from) {
  std::string text;
  for (const Residual& residual : residuals)
    text += fmt::format("\n[[residual]]\nkind = \"{}\"\nlow = {}\nhigh = {}\nsource = {}\n",
                        name(residual.kind), residual.low, residual.high,
                        toml_quoted("held-out shapes of " + from));
  for (std::size_t i = 0; i < measured.size();) {
    const WorkSample& first = measured[i];
    text += fmt::format("\n[[measured]]\nkernel = {}\nkind = \"{}\"\ndtype = \"{}\"\n",
                        toml_quoted(first.kernel), name(first.cost.kind), name(first.cost.dtype));
    // The repeats of a collective hold waiting, the least of them the least of it.
    const std::string_view which = is_collective(first.cost.kind) ? "least" : "median";
    text += fmt::format("source = {}\nrows = [\n",
                        toml_quoted(fmt::format("{} of the repeats in {}", which, from)));
    for (; i < measured.size() && measured[i].kernel == first.kernel &&
           measured[i].cost.kind == first.cost.kind && measured[i].cost.dtype == first.cost.dtype;
         ++i)
      text += row_text(measured[i]);
    text += "]\n";
  }
  return text;
}

}  // namespace foregather::sim
