// What a hardware file may say: every figure, its dimension and its plausible range.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/cost/hardware.h"

namespace foregather::sim {

enum class Dimension : std::uint8_t {
  size,       ///< bytes
  rate,       ///< bytes per second
  flops,      ///< floating-point operations per second
  time,       ///< nanoseconds
  frequency,  ///< hertz
  number,     ///< a count or a fraction, unit "1"
};

struct FigureSpec {
  std::string_view section;
  std::string_view key;
  Dimension dimension;
  double least;  ///< plausible range, both ends included, in the dimension's base unit
  double most;
  double& (*field)(Hardware&);
  bool or_zero = false;   ///< 0 as well: there is no such unit
  bool may_lack = false;  ///< as Hardware has it where no file says it
};

std::span<const FigureSpec> figure_specs();

/// The factor from `unit` to the base unit of `dimension`; nothing if it is not a unit of it.
std::optional<double> unit_factor(Dimension dimension, std::string_view unit);
/// "B, KiB, MiB, GiB, GB", for messages.
std::string_view unit_list(Dimension dimension);

}  // namespace foregather::sim
