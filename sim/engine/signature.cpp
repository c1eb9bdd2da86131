#include "sim/engine/signature.h"

#include <bit>

namespace foregather::sim {
namespace {

using Words = Signature;

/// A sum of products of pairs of words: what differs by chance agrees once in 2^64.
class Mixer {
 public:
  void add(const Words& words) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(sum_ ^ words[0]) * (words[1] ^ 0x9E3779B97F4A7C15U);
    sum_ = static_cast<std::uint64_t>(product) + static_cast<std::uint64_t>(product >> 64) + 1;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0x243F6A8885A308D3U;
};

/// Several sums in turns: a sum waits for its last product, not for those of the others.
class Mixers {
 public:
  void add(const Words& words) { a_.add(words); }
  /// `words_of` row 0, 1, …
  template <class WordsOf>
  void add(std::size_t rows, const WordsOf& words_of) {
    Mixer a = a_, b = b_, c = c_, d = d_;
    a.add({rows, 0});
    std::size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      a.add(words_of(i));
      b.add(words_of(i + 1));
      c.add(words_of(i + 2));
      d.add(words_of(i + 3));
    }
    for (; i < rows; ++i) a.add(words_of(i));
    a_ = a, b_ = b, c_ = c, d_ = d;
  }
  Words sums() const {
    Mixer a = a_, b = b_;
    a.add({c_.sum(), 0});
    b.add({d_.sum(), 0});
    return {a.sum(), b.sum()};
  }

 private:
  Mixer a_, b_, c_, d_;
};

}  // namespace

Signature actions_signature(const Program& program) {
  Mixers mixers;
  mixers.add({program.threads.size(), program.streams.size()});
  for (const HostThread& thread : program.threads)
    for (const std::vector<Action>& actions : thread.sections)
      mixers.add(actions.size(), [&](std::size_t i) { return std::bit_cast<Words>(actions[i]); });
  return mixers.sums();
}

Signature launches_signature(const Graph& graph, const Program& program) {
  Mixers mixers;
  mixers.add({program.ops.first, program.events.first});
  mixers.add({program.events.count, 0});
  mixers.add(program.ops.count, [&](std::size_t i) -> Words {
    const Op& op = graph.ops[program.ops.first + i];
    return {std::uint64_t{op.cost.row()} << 32 | static_cast<std::uint64_t>(op.kind),
            std::uint64_t{op.communicator.row()} << 32 | op.deps.count};
  });
  return mixers.sums();
}

Signature storages_signature(const Graph& graph, const Program& program) {
  Mixers mixers;
  mixers.add({program.storages.first, program.ops.first});
  mixers.add({graph.tensors.size(), 0});
  mixers.add(program.storages.count, [&](std::size_t i) -> Words {
    const Storage& storage = graph.storages[program.storages.first + i];
    return {static_cast<std::uint64_t>(storage.bytes),
            static_cast<std::uint64_t>(storage.cause) << 1 | (storage.on_host ? 1 : 0)};
  });
  mixers.add(graph.tensors.size() / 2, [&](std::size_t i) -> Words {
    return {graph.tensors[2 * i].storage.row(), graph.tensors[2 * i + 1].storage.row()};
  });
  if (!graph.tensors.empty()) mixers.add({graph.tensors.back().storage.row(), 0});
  return mixers.sums();
}

}  // namespace foregather::sim
