// The world size that a trace shows without saying it.
#include <algorithm>
#include <charconv>

#include "core/ir/references.h"
#include "traces/thunder_shapes.h"

namespace foregather::traces {
namespace {

/// Looks at each statement of one function, sub-symbols included.
class WorldSize {
 public:
  WorldSize(const ThunderFile& file, const ThunderFunction& function)
      : file_(file), divisors_(file.names.size()) {
    for (std::uint32_t row = function.statements.first; row < function.statements.end(); ++row)
      look(file.statements[row]);
  }

  std::int64_t found() const { return from_shapes_ > 0 ? from_shapes_ : from_divisors_; }

 private:
  void look(const ThunderStatement& statement) {
    if (statement.kind != ThunderStatement::Kind::assign) return;
    const ThunderCall call(*file_.call_of(statement));
    const ThunderSymbol symbol = thunder_symbol(call.callee());
    const std::string_view name = last_component(call.callee());
    if (name == "div" || name == "true_divide") return note_divisor(statement, call);
    switch (symbol.act) {
      case ThunderAct::collective: return look_at_collective(statement, symbol, call);
      case ThunderAct::pack: return take(integer_of(call.at(1)).value_or(0));
      case ThunderAct::unpack: return take(integer_of(call.at(2)).value_or(0));
      case ThunderAct::pack_bucket:
      case ThunderAct::same:
      case ThunderAct::view: return pass_divisor(statement, call);
      default: return;
    }
  }

  void look_at_collective(const ThunderStatement& statement, const ThunderSymbol& symbol,
                          const ThunderCall& call) {
    const auto targets = file_.targets_of(statement);
    const ThunderName from = call.name(0);
    if (!from || targets.size() != 1 || !targets.front()) return;
    const ThunderTypeId input = file_.name_types[from.row()];
    const ThunderTensorType* const output = file_.type_of(statement, targets.front());
    if (input && output != nullptr) {
      const auto in = elements(file_.types[input.row()].dims), out = elements(output->dims);
      if (in && out && *in > 0 && *out > 0) {
        const std::int64_t large = std::max(*in, *out), small = std::min(*in, *out);
        const bool resizes = symbol.kind != OpKind::all_reduce && symbol.kind != OpKind::broadcast;
        if (resizes && large % small == 0 &&
            (large > small || symbol.kind != OpKind::all_gather ||
             last_component(call.callee()) != "synchronize"))
          take(large / small);
      }
    }
    if (symbol.kind != OpKind::all_gather && divisors_[from.row()] > 0 && from_divisors_ == 0)
      from_divisors_ = divisors_[from.row()];
  }

  void take(std::int64_t size) {
    if (from_shapes_ == 0 && size >= 1 && size <= kMostRanks) from_shapes_ = size;
  }

  // Gradients are divided by the number of ranks before they are summed.
  void note_divisor(const ThunderStatement& statement, const ThunderCall& call) {
    const ThunderValue* const by = call.at(1);
    if (by == nullptr) return;
    double value = static_cast<double>(by->integer);
    if (by->kind == ThunderValue::Kind::constant) {
      const auto [end, error] =
          std::from_chars(by->text.data(), by->text.data() + by->text.size(), value);
      if (error != std::errc{}) return;
    } else if (by->kind != ThunderValue::Kind::integer) {
      return;
    }
    if (!(value >= 1) || value > static_cast<double>(kMostRanks)) return;
    const auto whole = static_cast<std::int64_t>(value);
    if (static_cast<double>(whole) != value) return;
    for (const ThunderName target : file_.targets_of(statement))
      if (target) divisors_[target.row()] = whole;
  }

  void pass_divisor(const ThunderStatement& statement, const ThunderCall& call) {
    std::int64_t divisor = 0;
    each_name(call.node(), [&](ThunderName name) {
      if (divisors_[name.row()] > 0) divisor = divisors_[name.row()];
    });
    for (const ThunderName target : file_.targets_of(statement))
      if (target && divisor > 0) divisors_[target.row()] = divisor;
  }

  const ThunderFile& file_;
  std::vector<std::int64_t> divisors_;  ///< by name; 0: not divided
  std::int64_t from_shapes_ = 0, from_divisors_ = 0;
};

}  // namespace

std::int64_t shown_world_size(const ThunderFile& file, const ThunderFunction& function) {
  return WorldSize(file, function).found();
}

}  // namespace foregather::traces
