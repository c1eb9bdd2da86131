// Can a consumer index this graph without looking? The first half of validate(), and the last step
// of every reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace foregather {

/// What consumers may rely on: they keep dense arrays of this many.
inline constexpr std::uint32_t kMostRanks = 1U << 20;
inline constexpr std::uint32_t kMostStreams = 256;  ///< of one program
inline constexpr std::uint32_t kMostThreads = 256;  ///< of one program
/// Limits that keep sums of a billion rows far from overflow.
inline constexpr Bytes kMostBytes = Bytes{1} << 52;  ///< of one storage, message or access
inline constexpr Ns kMostTime = Ns{1} << 53;         ///< 104 days
inline constexpr std::int64_t kMostHardware = 255;   ///< kinds of machines in one job
inline constexpr std::int64_t kMostWork = std::int64_t{1} << 61;  ///< FLOPs, elements, tokens

/// Where a malformed row is. The letter is the one that dumps use.
enum class RowTable : char {
  job = 'j',
  scope = 's',
  group = 'g',
  communicator = 'c',
  unit = 'u',
  cost = 'k',
  storage = 'b',
  tensor = 't',
  op = 'o',
  program = 'p',
  stream = 'q',
  thread = 'h',
  action = 'a',
  rank_class = 'r',
};

struct BadRow {
  RowTable table = RowTable::job;
  std::uint32_t row = 0;      ///< of its table; of a stream, thread or action within its owner
  std::uint32_t program = 0;  ///< owner of a stream, thread or action
  std::uint32_t thread = 0;   ///< owner of an action
  Section section = Section::init;
  std::string message;  ///< what is wrong and what was expected, without the row's name

  /// "o7", "p0 h1 body action 12".
  std::string label() const;
};

/// Rows with an id outside its table or outside its program's rows, a range outside its pool, an
/// enumerator, size or count out of range, an access outside its tensor, a tensor outside its
/// storage, a collective without communicator, and fields set that the row's kind does not use. In
/// table order, at most `limit`. If there is none, every lookup that the graph's rows imply is
/// safe. Linear.
std::vector<BadRow> check_references(const Graph& graph, std::size_t limit = 100);

/// Bytes from the tensor's first to its last element, as it is dense; nothing if that overflows or
/// a dimension is negative. Its shape must lie in graph.dims.
std::optional<Bytes> bytes_of(const Graph& graph, const Tensor& tensor);

}  // namespace foregather
