// One event of a Chrome JSON trace, as text and numbers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/units.h"
#include "traces/json_stream.h"

namespace foregather::traces {

/// Fields that an event lacks are empty. Views are valid during the visit. `process`, `thread` and
/// `stream` are as the file prints them, without quotes.
struct KinetoEvent {
  std::string_view phase, category, name, process, thread;
  bool has_phase = false, has_category = false;
  std::string_view start, duration;  ///< numbers as text; of a numeric string its content
  bool has_start = false, has_duration = false;

  // Of `args`.
  std::string_view stream, awaited_stream;
  std::optional<std::uint64_t> correlation, external, recorded;
  std::int64_t bytes = 0;
  std::optional<std::int64_t> sequence, forward_thread;
  std::string_view collective, dtype, group, ranks;
  std::int64_t in_elements = 0, out_elements = 0, group_size = 0;
  std::optional<std::int64_t> collective_sequence;
  std::string_view shapes, types;               ///< JSON text of "Input Dims" and "Input type"
  std::string_view values;                      ///< … of "Concrete Inputs"
  std::array<std::int64_t, 3> grid{}, block{};  ///< of a kernel; 0: not said
  std::optional<std::int64_t> device_type, device_index;
  std::uint64_t address = 0;
  std::int64_t total_allocated = 0, total_reserved = 0;
  std::optional<std::int64_t> step, micro_batch, model_chunk, sequence_in_step;  ///< of timelines
  std::string_view key;                    ///< of an op in our own exports
  std::int64_t wire_bytes = 0, flops = 0;  ///< likewise
  std::string_view label;                  ///< "name": what metadata call a process or a thread

  /// Of the whole grid; 0: not said, or no grid that a GPU can have.
  std::int64_t threads() const;
};

/// When an event of phase X was.
struct EventSpan {
  Ns start = 0, end = 0;
  std::string_view fault;  ///< why it has no span: "nonnumeric_ts", "neg_dur", …; empty: it has one
};
/// An absent duration is 0.
EventSpan span_of(const KinetoEvent& event);

/// Reads the events of windows. Keeps a parser and its buffers: make one a file.
class KinetoEvents {
 public:
  KinetoEvents();
  ~KinetoEvents();
  KinetoEvents(const KinetoEvents&) = delete;
  KinetoEvents& operator=(const KinetoEvents&) = delete;

  struct Visitor {
    std::function<void(const KinetoEvent&)> event;
    std::function<void()> not_an_object;
    std::function<void()> damaged;
  };
  /// Every element of the window goes to one of the three, in order.
  void read(const JsonWindow& window, const Visitor& visitor);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace foregather::traces
