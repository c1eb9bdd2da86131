// The lanes of the timeline.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gui/models/session.h"
#include "gui/models/track.h"

namespace foregather::gui {

/// What the items of a lane's tracks are rows of.
enum class SpanKind : std::uint8_t {
  op,      ///< Run::ops, on their stream
  launch,  ///< Run::ops, marks: when the host had launched them
  call,    ///< Run::calls
};

/// One run's half of a lane. Times are those of the axis.
struct LaneSide {
  SpanKind kind = SpanKind::op;
  std::string name;  ///< of the stream or thread
  /// Spans that overlap go to further ones; empty: nothing here. Tags are OpKinds, but of calls.
  std::vector<Track> tracks;
  Track critical;  ///< the ops here on the step's critical path
};

/// How far met ops are apart, added up along tracks[track] of the second side.
struct ResidualSums {
  std::vector<Ns> first, second;  ///< prefix sums by span: predicted, measured; of what met
};

/// A stream or host thread of a rank, on both sides.
struct Lane {
  std::size_t pair = 0;  ///< of Session::pairs()
  bool is_host = false;
  std::array<LaneSide, 2> sides;
  std::vector<ResidualSums> residuals;  ///< by track of the second side; empty: not compared

  std::string label() const;  ///< "compute", "compute | stream 7"
  std::size_t depth(std::size_t side) const { return sides[side].tracks.size(); }
  /// Predicted and measured time of the ops that met, of spans [first, last).
  std::array<Ns, 2> residual(std::size_t track, std::size_t first, std::size_t last) const;
};

/// All lanes, by pair: host first, then streams. Streams of the two runs share a lane where they
/// have one name and share matched work, else where they share most of it, launches of a prediction
/// the thread that launched most. n log n in ops where they overlap, else linear.
std::vector<Lane> build_lanes(const Session& session);

/// What is under a point.
struct Span {
  std::size_t side = 0;
  SpanKind kind = SpanKind::op;
  std::uint32_t row = 0;  ///< of Run::ops or Run::calls
  /// Of whose lane it is: an op of a prediction stands for many ranks. Absent: of the first.
  std::optional<std::size_t> pair = std::nullopt;
  /// The same op, in whichever lane.
  friend bool operator==(const Span& a, const Span& b) {
    return a.side == b.side && a.kind == b.kind && a.row == b.row;
  }
};

/// The times that the span has on the axis.
TimeRange range_of(const Session& session, const Span& span);

}  // namespace foregather::gui
