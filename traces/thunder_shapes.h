// Types that a Thunder trace does not print, worked out from those that it does.
#pragma once

#include <optional>
#include <vector>

#include "traces/thunder.h"
#include "traces/thunder_call.h"
#include "traces/thunder_symbols.h"

namespace foregather::traces {

/// The tensor types of one function's names: those of its comments, then what shape rules say,
/// forward from arguments to results and back from results to arguments, until nothing changes (at
/// most four rounds). Names that stay without a type are unknown. Linear in statements.
class ThunderTypes {
 public:
  /// `world_size` is needed for what the results of gathers are when no comment says so; 0:
  /// unknown.
  ThunderTypes(const ThunderFile& file, const ThunderFunction& function, std::int64_t world_size);

  /// From elsewhere: what the forward knows of a saved tensor. Call before infer().
  void assume(ThunderName name, const ThunderTensorType& type);
  void infer();

  /// Null: unknown.
  const ThunderTensorType* of(ThunderName name) const {
    return name && types_[name.row()] ? &*types_[name.row()] : nullptr;
  }

 private:
  void forward(const ThunderStatement& statement);
  void backward(const ThunderStatement& statement);
  void set(ThunderName name, std::optional<ThunderTensorType> type);
  const ThunderTensorType* argument(const ThunderCall& call, std::size_t i) const {
    return of(call.name(i));
  }
  using Type = std::optional<ThunderTensorType>;
  Type result(const ThunderSymbol& symbol, const ThunderCall& call) const;
  Type broadcast(const ThunderCall& call) const;
  Type rearranged(const ThunderSymbol& symbol, const ThunderCall& call) const;
  Type reduced(const ThunderCall& call) const;
  Type multiplied(const ThunderSymbol& symbol, const ThunderCall& call) const;
  Type concatenated(const ThunderCall& call) const;
  Type sliced(const ThunderCall& call) const;
  Type communicated(const ThunderSymbol& symbol, const ThunderCall& call) const;
  std::vector<Type> results(const ThunderSymbol& symbol, const ThunderCall& call,
                            std::size_t count) const;
  std::vector<Type> parts(const ThunderCall& call, std::size_t count) const;

  const ThunderFile& file_;
  const ThunderFunction& function_;
  std::int64_t world_size_;
  std::vector<Type> types_;  ///< by name
  bool changed_ = false;
};

/// The group's size that the shapes, arguments or divisors of collectives show; 0: none does.
std::int64_t shown_world_size(const ThunderFile& file, const ThunderFunction& function);

}  // namespace foregather::traces
