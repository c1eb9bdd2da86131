#include <fmt/format.h>
#include <glpk.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "sim/sweep/choice_program.h"

namespace foregather::sim {
namespace {

constexpr int kMostNodes = 20'000;
// The solver calls what is off by 10^-7 equal: limits are relaxed and bounds lowered by more.
constexpr double kSlack = 1e-6;

// A power of two that brings the values of the rows to some 1,000.
double scale_of(const std::vector<ChoiceRow>& rows) {
  double largest = 1;
  for (const ChoiceRow& row : rows) largest = std::max(largest, std::abs(double(row.base)));
  return std::ldexp(1, 10 - std::ilogb(largest));
}

// Choices that are alike in all rows.
std::vector<std::vector<int>> alike(const std::vector<ChoiceRow>& rows, std::size_t choices) {
  std::map<std::vector<std::int64_t>, std::vector<int>> groups;
  for (std::size_t i = 0; i < choices; ++i) {
    std::vector<std::int64_t> parts;
    for (const ChoiceRow& row : rows) parts.push_back(row.parts[i]);
    groups[std::move(parts)].push_back(static_cast<int>(i));
  }
  std::vector<std::vector<int>> found;
  for (auto& [parts, group] : groups) found.push_back(std::move(group));
  return found;
}

// What the callback keeps: how many nodes came, and the bound if they were too many.
struct Nodes {
  int first_count = 0;  ///< columns from here on are numbers of chosen ones
  int last_count = 0;
  int seen = 0;
  std::optional<double> bound_at_stop;
};

// Of sets that are alike only their number matters: it is branched on first.
void at_node(glp_tree* tree, void* info) {
  auto& nodes = *static_cast<Nodes*>(info);
  if (glp_ios_reason(tree) != GLP_IBRANCH) return;
  if (++nodes.seen > kMostNodes) {
    const int best = glp_ios_best_node(tree);
    nodes.bound_at_stop = best == 0 ? 0 : glp_ios_node_bound(tree, best);
    glp_ios_terminate(tree);
    return;
  }
  for (int column = nodes.first_count; column <= nodes.last_count; ++column)
    if (glp_ios_can_branch(tree, column) != 0) {
      glp_ios_branch_upon(tree, column, GLP_NO_BRNCH);
      return;
    }
}

// Columns: the choices, the cost, and the number of chosen ones of each group of like choices.
class ChoiceProgram {
 public:
  ChoiceProgram(const ChoiceRows& rows, const std::vector<Choice>& without)
      : rows_(rows), cost_scale_(scale_of(rows.cost)), problem_(glp_create_prob()) {
    glp_term_out(GLP_OFF);
    add_columns();
    for (const ChoiceRow& row : rows.cost)
      add_row(row, cost_scale_, -1, -double(row.base) * cost_scale_);
    const double need_scale = scale_of(rows.need);
    const double room = std::max(std::abs(double(rows.limit)), 1.0) * kSlack;
    for (const ChoiceRow& row : rows.need)
      add_row(row, need_scale, 0, (double(rows.limit) - double(row.base) + room) * need_scale);
    for (const Choice& choice : without) forbid(choice);
    glp_scale_prob(problem_.get(), GLP_SF_AUTO);
  }
  ChoiceProgram(const ChoiceProgram&) = delete;
  ChoiceProgram& operator=(const ChoiceProgram&) = delete;
  ~ChoiceProgram() {
    problem_.reset();
    glp_free_env();
  }

  Result<std::optional<ChoiceBound>> solve() {
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    if (const int code = glp_simplex(problem_.get(), &simplex); code != 0)
      return fail("GLPK failed on the relaxed program (code {})", code);
    if (glp_get_status(problem_.get()) == GLP_NOFEAS) return std::nullopt;
    if (glp_get_status(problem_.get()) != GLP_OPT)
      return fail("GLPK found no optimum of the relaxed program");
    glp_iocp integer;
    glp_init_iocp(&integer);
    integer.msg_lev = GLP_MSG_OFF;
    integer.cb_func = at_node;
    integer.cb_info = &nodes_;
    const int code = glp_intopt(problem_.get(), &integer);
    if (nodes_.bound_at_stop) return ChoiceBound{lowered(*nodes_.bound_at_stop), std::nullopt};
    if (code != 0) return fail("GLPK failed (code {})", code);
    const int status = glp_mip_status(problem_.get());
    if (status == GLP_NOFEAS) return std::nullopt;
    if (status != GLP_OPT) return fail("GLPK found no optimum");
    return ChoiceBound{lowered(glp_mip_obj_val(problem_.get())), chosen()};
  }

 private:
  static int column_of(std::size_t choice) { return static_cast<int>(choice) + 1; }
  int cost_column() const { return column_of(rows_.choices); }

  void add_columns() {
    glp_prob* problem = problem_.get();
    const bool by_cost =
        alike(rows_.cost, rows_.choices).size() <= alike(rows_.need, rows_.choices).size();
    const auto groups =
        alike(by_cost || rows_.need.empty() ? rows_.cost : rows_.need, rows_.choices);
    glp_add_cols(problem, cost_column() + static_cast<int>(groups.size()));
    for (std::size_t i = 0; i < rows_.choices; ++i) glp_set_col_kind(problem, column_of(i), GLP_BV);
    glp_set_col_bnds(problem, cost_column(), GLP_LO, 0, 0);
    glp_set_obj_dir(problem, GLP_MIN);
    glp_set_obj_coef(problem, cost_column(), 1);
    nodes_.first_count = cost_column() + 1;
    nodes_.last_count = cost_column() + static_cast<int>(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const int column = nodes_.first_count + static_cast<int>(g);
      glp_set_col_kind(problem, column, GLP_IV);
      glp_set_col_bnds(problem, column, GLP_DB, 0, static_cast<double>(groups[g].size()));
      begin_row();
      for (const int choice : groups[g]) term(choice + 1, 1);
      term(column, -1);
      end_row(GLP_FX, 0);
    }
  }

  // parts · choices + cost × `cost` ≤ most
  void add_row(const ChoiceRow& row, double scale, double cost, double most) {
    begin_row();
    for (std::size_t i = 0; i < row.parts.size(); ++i)
      if (row.parts[i] != 0) term(column_of(i), double(row.parts[i]) * scale);
    if (cost != 0) term(cost_column(), cost);
    end_row(GLP_UP, most);
  }

  // At least one choice is another.
  void forbid(const Choice& choice) {
    double least = 1;
    begin_row();
    for (std::size_t i = 0; i < choice.size(); ++i) {
      term(column_of(i), choice[i] ? -1 : 1);
      if (choice[i]) --least;
    }
    end_row(GLP_LO, least);
  }

  void begin_row() {
    columns_.assign(1, 0);
    values_.assign(1, 0);
  }
  void term(int column, double value) {
    columns_.push_back(column);
    values_.push_back(value);
  }
  void end_row(int kind, double bound) {
    const int row = glp_add_rows(problem_.get(), 1);
    glp_set_row_bnds(problem_.get(), row, kind, bound, bound);
    glp_set_mat_row(problem_.get(), row, static_cast<int>(columns_.size()) - 1, columns_.data(),
                    values_.data());
  }

  std::int64_t lowered(double cost) const {
    return static_cast<std::int64_t>(std::floor(std::max(cost, 0.0) / cost_scale_ * (1 - kSlack)));
  }

  Choice chosen() const {
    Choice choice(rows_.choices);
    for (std::size_t i = 0; i < choice.size(); ++i)
      choice[i] = glp_mip_col_val(problem_.get(), column_of(i)) > 0.5;
    return choice;
  }

  struct Delete {
    void operator()(glp_prob* problem) const { glp_delete_prob(problem); }
  };
  const ChoiceRows& rows_;
  double cost_scale_;
  std::unique_ptr<glp_prob, Delete> problem_;
  Nodes nodes_;
  std::vector<int> columns_;  // of the row being written, from 1
  std::vector<double> values_;
};

}  // namespace

std::optional<std::string> solver_name() { return fmt::format("GLPK {}", glp_version()); }

Result<std::optional<ChoiceBound>> least_choice(const ChoiceRows& rows,
                                                const std::vector<Choice>& without) {
  return ChoiceProgram(rows, without).solve();
}

}  // namespace foregather::sim
