// A reader of Python pickles that executes nothing.
#pragma once

#include <optional>
#include <span>

#include "core/base/result.h"
#include "traces/byte_stream.h"
#include "traces/pickle_heap.h"

namespace foregather::traces {

/// Turns containers of a known shape into rows while the pickle is read, so that their contents
/// need not be kept. The value returned must be a record; none: the container stays as it is.
class PickleShapes {
 public:
  virtual ~PickleShapes() = default;
  /// A dict that is complete; keys (texts) and values in turn. Values are resolved.
  virtual Result<std::optional<PickleValue>> dict(std::span<const PickleValue> items) = 0;
  /// A list or a tuple that is put into another container.
  virtual Result<std::optional<PickleValue>> sequence(std::span<const PickleValue> items) = 0;
};

/// What one pickle may cost. A value takes 16 bytes.
struct PickleLimits {
  std::size_t stack = std::size_t{1} << 24;   ///< values not yet in a container
  std::size_t empty = std::size_t{1} << 16;   ///< of these, containers without content
  std::size_t memo = std::size_t{1} << 26;    ///< remembered objects
  std::size_t values = std::size_t{1} << 27;  ///< in containers
  std::size_t text = std::size_t{1} << 24;    ///< bytes of one text
  std::uint32_t depth = 64;                   ///< of containers in containers
  std::size_t marks = 64;                     ///< containers being filled at a time
};

/// Of protocol 2 to 5, as torch writes memory snapshots?
inline bool is_pickle(std::string_view head) {
  return head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

/// Reads one pickle of protocol 2 to 5 to its end and returns the value it describes.
///
/// A stack machine after the opcodes of Python's pickletools, of which only those for None,
/// booleans, numbers, texts, bytes, lists, tuples and dicts with text keys are known: nothing that
/// names a class, calls a function or leaves the stream. Frames are read over. Every length is
/// compared with the bytes that remain before anything is allocated. Without recursion.
///
/// Errors (without a place): "byte N: what, expected what". Up to three NUL bytes may follow, as in
/// data embedded by PyTorch's viewer; anything else after the end is an error.
Result<PickleValue> read_pickle(ByteStream& stream, PickleHeap& heap, PickleShapes& shapes,
                                const PickleLimits& limits = {});

}  // namespace foregather::traces
