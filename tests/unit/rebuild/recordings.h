// Small recordings by hand.
#pragma once

#include <string_view>

#include "core/run/recording.h"

namespace foregather::test {

/// Writes a recording row by row; times in microseconds.
class RecordingWriter {
 public:
  run::LaneRow lane(std::string_view process, std::string_view thread);
  /// A call of the runtime; its correlation is `correlation`.
  void call(run::LaneRow thread, std::string_view name, Ns start, Ns end,
            std::uint32_t correlation);
  void kernel(run::LaneRow stream, std::string_view name, Ns start, Ns end,
              std::uint32_t correlation);
  /// A kernel that no call launched, as far as this recording shows.
  void kernel(run::LaneRow stream, std::string_view name, Ns start, Ns end);
  void range(run::LaneRow thread, std::string_view name, Ns start, Ns end);

  run::Recording recording;

 private:
  void activity(run::LaneRow stream, std::string_view name, Ns start, Ns end,
                run::CorrelationId correlation);
};

}  // namespace foregather::test
