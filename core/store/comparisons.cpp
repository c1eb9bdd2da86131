#include "core/store/comparisons.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/store/row_reader.h"

namespace foregather::store {
namespace {

using namespace foregather::run;

constexpr std::size_t kMostComparisons = 10'000, kMostGroups = 1'000'000'000;

Result<std::int64_t> first_op(Database& database, std::int64_t run, StepRow step) {
  return database.integer(
      fmt::format("SELECT ifnull(min(id), 0) FROM op WHERE run = {} AND step = {}", run, step.row())
          .c_str());
}

class Loading {
 public:
  Loading(Database& database, const RunNames& runs) : database_(database), runs_(runs) {}

  Result<std::vector<Comparison>> run() {
    Status read = each_row(
        "SELECT id, first_run, first_step, second_run, second_step FROM comparison ORDER BY id",
        [&](RowReader& row, std::size_t number) { add(row, number); }, kMostComparisons);
    for (std::size_t c = 0; read && c < found_.size(); ++c) read = fill(c);
    if (!read) return tl::unexpected(read.error());
    return std::move(found_);
  }

 private:
  template <class Read>
  Status each_row(const std::string& sql, Read&& read, std::size_t most) {
    auto query = database_.prepare(sql.c_str());
    if (!query) return tl::unexpected(query.error());
    for (std::size_t number = 0; number < most; ++number) {
      const auto more = query->next();
      if (!more) return tl::unexpected(more.error());
      if (!*more) return {};
      RowReader row(*query);
      read(row, number);
      if (!row.ok()) break;
    }
    return damaged();
  }

  Status damaged() const {
    return fail_at(database_.path(), "is damaged: comparison {}", found_.size());
  }

  void add(RowReader& row, std::size_t number) {
    row.id(number);
    Comparison comparison;
    std::array<std::int64_t, 2> ids{};
    for (std::size_t side = 0; side < 2; ++side) {
      const auto run = row.row<ClassRow>(runs_.size());
      comparison.steps[side] = row.row<StepRow>(kMostGroups);
      if (!row.ok()) return;
      comparison.runs[side] = runs_[run.row()];
      ids[side] = run.row();
    }
    ids_.push_back(ids);
    found_.push_back(std::move(comparison));
  }

  Status fill(std::size_t c) {
    Comparison& comparison = found_[c];
    const Status read = each_row(
        fmt::format("SELECT id, level, kind, phase, key, first_ops, first_ns, second_ops, "
                    "second_ns FROM compared_group WHERE comparison = {} ORDER BY id",
                    c),
        [&](RowReader& row, std::size_t number) {
          row.id(number);
          ComparedGroup group;
          group.level = row.maybe_choice(MatchLevel::phase);
          group.kind = row.choice(kLastOpKind);
          group.phase = row.choice(Phase::other);
          group.key = row.text();
          for (std::size_t side = 0; side < 2; ++side) {
            group.ops[side] = row.integer();
            group.time[side] = row.integer();
          }
          comparison.groups.push_back(std::move(group));
        },
        kMostGroups);
    if (!read) return read;
    for (std::size_t side = 0; side < 2; ++side)
      if (const Status filled = fill_ops(c, side); !filled) return filled;
    return {};
  }

  // Every op of the step has a row.
  Status fill_ops(std::size_t c, std::size_t side) {
    Comparison& comparison = found_[c];
    const std::int64_t run = ids_[c][side];
    const auto first = first_op(database_, run, comparison.steps[side]);
    if (!first) return tl::unexpected(first.error());
    const auto ops =
        database_.integer(fmt::format("SELECT count(*) FROM op WHERE run = {} AND step = {}", run,
                                      comparison.steps[side].row())
                              .c_str());
    if (!ops) return tl::unexpected(ops.error());
    auto& groups = comparison.group_of[side];
    const Status read = each_row(
        fmt::format("SELECT op, compared_group FROM compared_op WHERE comparison = {} AND side = "
                    "{} ORDER BY op",
                    c, side),
        [&](RowReader& row, std::size_t number) {
          row.id(static_cast<std::size_t>(*first) + number);
          groups.push_back(row.row<OpRow>(comparison.groups.size()).row());
        },
        kMostGroups);
    if (!read) return read;
    return static_cast<std::int64_t>(groups.size()) == *ops ? Status{} : damaged();
  }

  Database& database_;
  const RunNames& runs_;
  std::vector<std::array<std::int64_t, 2>> ids_;  // of the runs of `found_`
  std::vector<Comparison> found_;
};

}  // namespace

Status insert_comparison(Database& database, std::int64_t id, const Comparison& comparison,
                         const RunNames& runs) {
  std::array<std::int64_t, 2> ids{};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto found = std::find(runs.begin(), runs.end(), comparison.runs[side]);
    if (found == runs.end())
      return fail_at(database.path(), "holds no run '{}' to compare", comparison.runs[side]);
    ids[side] = found - runs.begin();
  }
  auto head = database.prepare("INSERT INTO comparison VALUES (?,?,?,?,?)");
  if (!head) return tl::unexpected(head.error());
  if (Status done = head->run(id, ids[0], std::int64_t{comparison.steps[0].row()}, ids[1],
                              std::int64_t{comparison.steps[1].row()});
      !done)
    return done;
  auto group = database.prepare("INSERT INTO compared_group VALUES (?,?,?,?,?,?,?,?,?,?)");
  if (!group) return tl::unexpected(group.error());
  for (std::size_t row = 0; row < comparison.groups.size(); ++row) {
    const ComparedGroup& at = comparison.groups[row];
    std::optional<std::int64_t> level;
    if (at.level) level = static_cast<std::int64_t>(*at.level);
    if (Status done =
            group->run(id, static_cast<std::int64_t>(row), level,
                       static_cast<std::int64_t>(at.kind), static_cast<std::int64_t>(at.phase),
                       std::string_view(at.key), at.ops[0], at.time[0], at.ops[1], at.time[1]);
        !done)
      return done;
  }
  auto op = database.prepare("INSERT INTO compared_op VALUES (?,?,?,?)");
  if (!op) return tl::unexpected(op.error());
  for (std::size_t side = 0; side < 2; ++side) {
    const auto first = first_op(database, ids[side], comparison.steps[side]);
    if (!first) return tl::unexpected(first.error());
    for (std::size_t i = 0; i < comparison.group_of[side].size(); ++i)
      if (Status done =
              op->run(id, static_cast<std::int64_t>(side), *first + static_cast<std::int64_t>(i),
                      std::int64_t{comparison.group_of[side][i]});
          !done)
        return done;
  }
  return {};
}

Result<std::vector<Comparison>> load_comparisons(Database& database, const RunNames& runs) {
  return Loading(database, runs).run();
}

}  // namespace foregather::store
