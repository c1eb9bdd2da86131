// Arrows to and from an op.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/run/arrows.h"
#include "gui/models/lanes.h"

namespace foregather::gui {

enum class FlowKind : std::uint8_t {
  launch,  ///< from the host's call, or the time of launch, to the op
  wait,    ///< from what held an op back
  gather,  ///< from an all-gather to the first op that needs it
};

struct Flow {
  FlowKind kind = FlowKind::wait;
  Span from, to;
  Ns from_time = 0, to_time = 0;  ///< on the axis
};

/// Knows the arrows of gathers beforehand; the others are looked up.
class Flows {
 public:
  /// Linear in ops. Refers to the session.
  explicit Flows(const Session& session);
  /// Arrows that end at the span, then those that begin at it. What a call launched and what an op
  /// held back is found by looking through all ops of the run.
  std::vector<Flow> of(const Span& span) const;

 private:
  std::vector<Flow> of_op(std::size_t side, run::OpRow op) const;
  Flow wait(std::size_t side, const run::Arrow& arrow, FlowKind kind) const;
  Flow launch(std::size_t side, run::OpRow op) const;

  const Session& session_;
  std::array<std::vector<run::Arrow>, 2> gathers_;  ///< in order of `to`
};

}  // namespace foregather::gui
