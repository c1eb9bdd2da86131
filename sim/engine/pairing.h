// Two states of a simulation a period apart: does the later one go on as the earlier one did?
#pragma once

#include "sim/engine/device_state.h"

namespace foregather::sim {

/// Compares each value of the later state with that of the earlier one: it is as much later as the
/// period took, its op as many rows further, its event as many records; or it is the same and lies
/// in the past of both, where it decides nothing any more. With `periods` it also moves what moved
/// on by so many more, so that the later state becomes that of so many periods later.
///
/// Or a period is a whole step (`steps` 1): then each op has the same row in the next step, and
/// nothing is moved.
struct Pairing {
  Ns took = 0;                ///< by the host's clock; above 0
  Ns past = 0;                ///< when the earlier state was
  std::uint32_t ops = 0;      ///< of a period
  std::uint32_t records = 0;  ///< of a period
  Range rows;                 ///< of the ops of all periods
  std::uint32_t latest = 0;   ///< first row of the period that has just been issued
  std::uint32_t step = 0;
  std::uint32_t periods = 0;
  std::uint32_t steps = 0;  ///< in a period

  Ns later() const { return took * periods; }

  bool time(Ns before, Ns& now) const {
    if (now == before) return before < past || now == kForever;
    if (now != before + took) return false;
    now += later();
    return true;
  }
  /// The same op may have decided both; then it is none of those that repeat.
  bool op(OpInstance before, OpInstance& now) const {
    if (steps != 0) return now == before ? !now.is_in(step - steps) : now == before.later(steps);
    const bool moves = is_of_period(now);
    if (moves != is_of_period(before)) return false;
    if (!moves) return now == before;
    if (now.op() != before.op() + ops) return false;
    now = moved(now, periods);
    return true;
  }
  /// Both lie in the past, or one is a period later. Never moves.
  bool past_or_later(Ns before, Ns now) const {
    return now == before + took || (before < past && now < past + took);
  }
  bool cause(const Cause& before, Cause& now) const {
    return before.reason == now.reason && op(before.by, now.by);
  }
  bool is_of_period(OpInstance op) const { return op.is_in(step) && rows.contains(op.op()); }
  OpInstance moved(OpInstance op, std::uint32_t by) const {
    return {op.op() + ops * by, step, op.rank_class()};
  }
};

}  // namespace foregather::sim
