#include "traces/thunder_facts.h"

#include <algorithm>
#include <array>
#include <vector>

namespace foregather::traces {
namespace {

using namespace std::string_view_literals;

bool starts_with_and_digits(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

// The first name in a call's arguments, in whatever brackets.
ThunderName first_name(const ThunderValue& call) {
  for (std::uint32_t i = 1; i < call.size; ++i) {
    const ThunderValue& value = *(&call + i);
    if (value.kind == ThunderValue::Kind::name) return value.name;
  }
  return {};
}

/// Reference counts and sizes of storages, as the estimator keeps them.
class Estimator {
 public:
  explicit Estimator(const ThunderFile& file)
      : file_(file), storage_of_(file.names.size(), kNone) {}

  void argument(ThunderName name) {
    const ThunderTypeId type = file_.name_types[name.row()];
    if (!type) return;
    track(name, bytes_of(file_.types[type.row()]).value_or(0), 2);
    arguments_ = peak_ = total_;
  }

  void statement(const ThunderStatement& statement) {
    if (statement.kind == ThunderStatement::Kind::del) {
      for (const ThunderName name : file_.targets_of(statement)) release(name);
    } else if (statement.kind == ThunderStatement::Kind::assign) {
      assign(statement);
      peak_ = std::max(peak_, total_);
    }
  }

  Bytes arguments() const { return arguments_; }
  Bytes peak() const { return peak_; }
  Bytes total() const { return total_; }
  std::int64_t unknown() const { return unknown_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Tracked {
    Bytes bytes = 0;
    std::int64_t count = 0;
  };

  void assign(const ThunderStatement& statement) {
    const ThunderValue& call = *file_.call_of(statement);
    ThunderName source;
    if (is_estimator_alias(last_component(call.text))) source = first_name(call);
    for (const ThunderName target : file_.targets_of(statement)) {
      if (!target) continue;
      if (source && storage_of_[source.row()] != kNone) {
        storage_of_[target.row()] = storage_of_[source.row()];
        ++storages_[storage_of_[target.row()]].count;
        continue;
      }
      const ThunderTensorType* const type = file_.type_of(statement, target);
      const auto bytes = type != nullptr ? bytes_of(*type) : std::nullopt;
      if (!bytes)
        count_unknown(target);
      else
        track(target, *bytes, 1);
    }
  }

  // What is known already is not tracked anew, yet its bytes count again.
  void track(ThunderName name, Bytes bytes, std::int64_t count) {
    if (__builtin_add_overflow(total_, bytes, &total_)) total_ = kMost;
    total_ = std::min(total_, kMost);
    if (storage_of_[name.row()] != kNone) return;
    storage_of_[name.row()] = static_cast<std::uint32_t>(storages_.size());
    storages_.push_back({bytes, count});
  }

  void release(ThunderName name) {
    if (!name || storage_of_[name.row()] == kNone) return;
    Tracked& storage = storages_[storage_of_[name.row()]];
    if (--storage.count == 0) total_ -= storage.bytes;
  }

  void count_unknown(ThunderName name) {
    if (is_unknown_.empty()) is_unknown_.resize(file_.names.size());
    unknown_ += is_unknown_[name.row()] ? 0 : 1;
    is_unknown_[name.row()] = true;
  }

  static constexpr Bytes kMost = Bytes{1} << 62;

  const ThunderFile& file_;
  std::vector<std::uint32_t> storage_of_;  ///< by name
  std::vector<Tracked> storages_;
  std::vector<bool> is_unknown_;
  Bytes arguments_ = 0, total_ = 0, peak_ = 0;
  std::int64_t unknown_ = 0;
};

}  // namespace

bool is_estimator_alias(std::string_view name) {
  constexpr std::array kAliases{"unsqueeze"sv,   "squeeze"sv,
                                "transpose"sv,   "expand"sv,
                                "reshape"sv,     "torch_prims_reshape_impl"sv,
                                "permute"sv,     "contiguous"sv,
                                "split"sv,       "torch_wait_prim_impl"sv,
                                "shallow_copy"sv};
  return std::find(kAliases.begin(), kAliases.end(), name) != kAliases.end();
}

std::string_view collective_key(std::string_view name) {
  constexpr std::array kKinds{"all_gather"sv, "all_reduce"sv, "reduce_scatter"sv, "broadcast"sv,
                              "synchronize"sv};
  std::string_view stem = name;
  if (stem.starts_with("torch_")) stem.remove_prefix(6);
  if (stem.ends_with("_prim_impl")) stem.remove_suffix(10);
  if (stem == "wait") return stem;
  return std::find(kKinds.begin(), kKinds.end(), stem) != kKinds.end() ? name : std::string_view();
}

bool is_fusion(std::string_view callee) {
  return starts_with_and_digits(callee, "nvFusion") ||
         starts_with_and_digits(callee, "TorchCompile");
}

ThunderFacts thunder_facts(const ThunderFile& file) {
  ThunderFacts facts;
  facts.statements = file.statement_lines;
  facts.sub_symbols = file.sub_symbol_lines;
  facts.unparsed = file.unparsed_lines;
  Estimator estimator(file);
  if (!file.functions.empty()) {
    const ThunderFunction& first = file.functions.front();
    facts.function = first.name;
    facts.arguments = static_cast<std::int64_t>(first.parameters.size());
    for (const ThunderParameter& parameter : first.parameters) estimator.argument(parameter.name);
  }
  for (const ThunderFunction& function : file.functions) facts.has_return |= function.has_return;
  for (const ThunderStatement& statement : file.statements) {
    if (statement.depth > 0) continue;
    estimator.statement(statement);
    facts.deletes += statement.kind == ThunderStatement::Kind::del ? 1 : 0;
    if (statement.kind != ThunderStatement::Kind::assign) continue;
    const std::string_view callee = file.call_of(statement)->text;
    facts.fusions += is_fusion(callee) ? 1 : 0;
    const std::string_view key = collective_key(last_component(callee));
    if (!key.empty()) ++facts.collectives[key];
  }
  facts.argument_bytes = estimator.arguments();
  facts.peak_bytes = estimator.peak();
  facts.end_bytes = estimator.total();
  facts.unknown_types = estimator.unknown();
  return facts;
}

}  // namespace foregather::traces
