#include "core/plan/loss_place.h"

#include <algorithm>

#include "core/plan/build_loss.h"

namespace foregather::plan {

std::optional<LossPlace> loss_place(const Lowering& lowering) {
  if (lowering.model.is_tree) return std::nullopt;
  const std::uint32_t module = lowering.modules() - 1;
  const Tape& tape = lowering.tape_of(module);
  const auto is_loss = [&tape](const TapeOp& op) { return tape.scopes[op.scope] == kLossScope; };
  const auto begin = std::ranges::find_if(tape.forward, is_loss);
  const auto end = std::ranges::find_if_not(tape.backward, is_loss);
  const bool is_parted = begin != tape.forward.begin() && begin != tape.forward.end() &&
                         end != tape.backward.begin() &&
                         std::all_of(begin, tape.forward.end(), is_loss) &&
                         std::none_of(end, tape.backward.end(), is_loss);
  if (!is_parted) return std::nullopt;
  return LossPlace{module, static_cast<std::uint32_t>(begin - tape.forward.begin()),
                   static_cast<std::uint32_t>(end - tape.backward.begin() - 1)};
}

}  // namespace foregather::plan
