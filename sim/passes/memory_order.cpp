#include "sim/passes/memory_order.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_set>

#include "sim/memory/memory_bound.h"
#include "sim/passes/list_orders.h"
#include "sim/passes/order_state.h"

namespace foregather::sim {
namespace {

constexpr std::size_t kWidest = 64;
constexpr std::uint32_t kMostSets = 300'000;
constexpr std::uint32_t kMostRuns = 100'000'000;  // of nodes, in all sets together

// ---- list schedulers --------------------------------------------------------------------------

// The same problem with time reversed.
OrderProblem reversed(const OrderProblem& problem) {
  OrderProblem back = problem;
  const auto mirror = [&](std::uint32_t node) { return problem.nodes - 1 - node; };
  for (OrderProblem::Edge& edge : back.edges) edge = {mirror(edge.after), mirror(edge.before)};
  for (OrderProblem::Storage& storage : back.storages) {
    for (std::uint32_t& node : storage.nodes) node = mirror(node);
    std::swap(storage.at_start, storage.at_end);
  }
  return back;
}

// From the end: the node whose outputs are largest against the inputs that only it uses.
std::vector<std::uint32_t> backward_schedule(const OrderProblem& problem) {
  const OrderProblem back = reversed(problem);
  std::vector<std::uint32_t> order = least_left_order(back);
  for (std::uint32_t& node : order) node = problem.nodes - 1 - node;
  std::ranges::reverse(order);
  return order;
}

// ---- beam -------------------------------------------------------------------------------------

std::uint64_t scattered(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The ready node that costs nothing now: it needs no more than `peak` and leaves no more than it
// found. Running it at once is never worse.
std::optional<std::uint32_t> free_node(const OrderState& state, Bytes peak) {
  for (const std::uint32_t node : state.ready()) {
    const OrderState::Effect effect = state.effect(node);
    if (effect.during <= peak && effect.after <= state.held()) return node;
  }
  return {};
}

// Keeps the best few sets of nodes after each step, by peak and by what is held.
class Beam {
 public:
  Beam(const OrderProblem& problem, const OrderIndex& index, std::size_t width) : width_(width) {
    kept_.push_back({OrderState(problem, index), 0, 0, 0});
    links_.push_back({0, 0});
    go_on(kept_.front());
    take_done(kept_);
  }

  std::vector<std::uint32_t> run() {
    while (!kept_.empty()) step();
    std::vector<std::uint32_t> order;
    for (std::uint32_t link = done_link_; link != 0; link = links_[link].before)
      order.push_back(links_[link].node);
    std::ranges::reverse(order);
    return order;
  }

 private:
  struct Kept {
    OrderState state;
    Bytes peak = 0;
    std::uint64_t set = 0;   ///< hash of the nodes that have run
    std::uint32_t link = 0;  ///< the last of them
  };
  struct Link {
    std::uint32_t before;
    std::uint32_t node;
  };
  struct Choice {
    Bytes peak;
    Bytes held;
    std::size_t from;
    std::uint32_t node;
    std::uint64_t set;
    friend auto operator<=>(const Choice&, const Choice&) = default;
  };

  void run(Kept& kept, std::uint32_t node) {
    kept.peak = std::max(kept.peak, kept.state.effect(node).during);
    kept.state.run(node);
    kept.set ^= scattered(node);
    links_.push_back({kept.link, node});
    kept.link = static_cast<std::uint32_t>(links_.size() - 1);
  }
  void go_on(Kept& kept) {
    while (const auto node = free_node(kept.state, kept.peak)) run(kept, *node);
  }

  // Complete sets leave the beam, and with them whatever cannot be better.
  void take_done(std::vector<Kept>& sets) {
    for (const Kept& kept : sets)
      if (kept.state.ready().empty() && kept.peak < done_peak_) {
        done_peak_ = kept.peak;
        done_link_ = kept.link;
      }
    std::erase_if(sets, [&](const Kept& kept) {
      return kept.state.ready().empty() || kept.peak >= done_peak_;
    });
  }

  void step() {
    std::vector<Choice> choices;
    for (std::size_t from = 0; from < kept_.size(); ++from)
      for (const std::uint32_t node : kept_[from].state.ready()) {
        const OrderState::Effect effect = kept_[from].state.effect(node);
        choices.push_back({std::max(kept_[from].peak, effect.during), effect.after, from, node,
                           kept_[from].set ^ scattered(node)});
      }
    std::ranges::sort(choices);
    std::vector<Kept> next;
    std::unordered_set<std::uint64_t> known;
    for (const Choice& choice : choices) {
      if (next.size() == width_) break;
      if (!known.insert(choice.set).second) continue;
      next.push_back(kept_[choice.from]);
      run(next.back(), choice.node);
      go_on(next.back());
    }
    take_done(next);
    kept_ = std::move(next);
  }

  std::size_t width_;
  std::vector<Kept> kept_;
  std::vector<Link> links_;
  Bytes done_peak_ = std::numeric_limits<Bytes>::max();
  std::uint32_t done_link_ = 0;
};

// ---- search -----------------------------------------------------------------------------------

// Sets of nodes that have run, each with the node that was run last and the set before it.
class SetTable {
 public:
  explicit SetTable(std::uint32_t nodes)
      : words_((nodes + 63) / 64), known_(16, Hash{this}, Equal{this}) {}

  struct Step {
    std::uint32_t from = 0;   ///< set
    std::uint32_t first = 0;  ///< of runs_: the nodes run since
    std::uint32_t count = 0;
    Bytes peak = 0;
    Bytes held = 0;
  };

  /// Its number, or nothing if it was known with this or a lower peak.
  std::optional<std::uint32_t> add(const std::vector<std::uint64_t>& set, const Step& step) {
    bits_.insert(bits_.end(), set.begin(), set.end());
    const auto number = static_cast<std::uint32_t>(steps_.size());
    steps_.push_back(step);
    const auto [known, is_new] = known_.insert(number);
    if (is_new) return number;
    bits_.resize(bits_.size() - words_);
    steps_.pop_back();
    if (steps_[*known].peak <= step.peak) return {};
    steps_[*known] = step;
    return *known;
  }
  std::uint32_t note(std::span<const std::uint32_t> run) {
    const auto first = static_cast<std::uint32_t>(runs_.size());
    runs_.insert(runs_.end(), run.begin(), run.end());
    return first;
  }
  std::span<const std::uint64_t> bits(std::uint32_t number) const {
    return std::span(bits_).subspan(std::size_t{number} * words_, words_);
  }
  const Step& step(std::uint32_t number) const { return steps_[number]; }
  std::span<const std::uint32_t> run(const Step& step) const {
    return std::span(runs_).subspan(step.first, step.count);
  }
  std::size_t size() const { return steps_.size(); }
  std::size_t words() const { return words_; }

 private:
  struct Hash {
    const SetTable* table;
    std::size_t operator()(std::uint32_t number) const {
      std::uint64_t hash = 0x9e3779b97f4a7c15U;
      for (const std::uint64_t word : table->bits(number))
        hash = std::rotl((hash ^ word) * 0xff51afd7ed558ccdU, 29);
      return hash;
    }
  };
  struct Equal {
    const SetTable* table;
    bool operator()(std::uint32_t a, std::uint32_t b) const {
      return std::ranges::equal(table->bits(a), table->bits(b));
    }
  };

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
  std::vector<Step> steps_;
  std::vector<std::uint32_t> runs_;
  std::unordered_set<std::uint32_t, Hash, Equal> known_;
};

class Search {
 public:
  Search(const OrderProblem& problem, const OrderIndex& index, Bytes better_than)
      : problem_(problem), index_(index), better_than_(better_than), sets_(problem.nodes) {}

  struct Answer {
    std::vector<std::uint32_t>
        order;        ///< of the least peak; empty: none below the one to beat found
    Bytes bound = 0;  ///< no order needs less, as far as the search came
  };

  Answer run(std::uint32_t most_sets) {
    reach(std::vector<std::uint64_t>(sets_.words()), OrderState(problem_, index_), 0, {}, 0,
          /*run_last=*/{});
    while (!queue_.empty()) {
      const Entry next = queue_.top();
      queue_.pop();
      const SetTable::Step step = sets_.step(next.number);
      if (step.peak != next.peak) continue;  // reached with a lower one since
      if (next.run == problem_.nodes) return {order_to(next.number), next.peak};
      if (sets_.size() >= most_sets) return {{}, next.peak};
      expand(next.number, step.peak);
    }
    return {{}, better_than_};
  }

 private:
  struct Entry {
    Bytes peak;
    std::uint32_t run;  ///< nodes
    Bytes held;
    std::uint32_t number;
    bool operator<(const Entry& other) const {  // the top of the queue is the greatest
      return std::tuple(other.peak, run, other.held, other.number) <
             std::tuple(peak, other.run, held, number);
    }
  };

  OrderState state_of(std::uint32_t number) const {
    OrderState state(problem_, index_);
    std::vector<std::uint32_t> chain = order_to(number);
    for (const std::uint32_t node : chain) state.run(node);
    return state;
  }

  std::vector<std::uint32_t> order_to(std::uint32_t number) const {
    std::vector<std::uint32_t> order;
    while (true) {
      const SetTable::Step& step = sets_.step(number);
      const auto run = sets_.run(step);
      order.insert(order.end(), run.rbegin(), run.rend());
      if (number == 0) break;
      number = step.from;
    }
    std::ranges::reverse(order);
    return order;
  }

  void expand(std::uint32_t number, Bytes peak) {
    const OrderState state = state_of(number);
    const std::vector<std::uint64_t> bits(sets_.bits(number).begin(), sets_.bits(number).end());
    const std::uint32_t run = count(bits);
    for (const std::uint32_t node : state.ready()) {
      const OrderState::Effect effect = state.effect(node);
      if (effect.during >= better_than_) continue;
      OrderState next = state;
      next.run(node);
      reach(bits, std::move(next), std::max(peak, effect.during), number, run + 1, node);
    }
  }

  // Notes a set, after the nodes that are run at once.
  void reach(std::vector<std::uint64_t> bits, OrderState state, Bytes peak,
             std::optional<std::uint32_t> from, std::uint32_t run,
             std::optional<std::uint32_t> run_last) {
    peak = std::max(peak, state.held());
    std::vector<std::uint32_t> ran;
    const auto note = [&](std::uint32_t node) {
      ran.push_back(node);
      bits[node / 64] |= std::uint64_t{1} << (node % 64);
    };
    if (run_last) note(*run_last);
    while (const auto node = free_node(state, peak)) {
      state.run(*node);
      note(*node);
      ++run;
    }
    const SetTable::Step step{from.value_or(0), sets_.note(ran),
                              static_cast<std::uint32_t>(ran.size()), peak, state.held()};
    if (const auto number = sets_.add(bits, step)) queue_.push({peak, run, state.held(), *number});
  }

  static std::uint32_t count(const std::vector<std::uint64_t>& bits) {
    return static_cast<std::uint32_t>(
        std::accumulate(bits.begin(), bits.end(), 0,
                        [](int sum, std::uint64_t word) { return sum + std::popcount(word); }));
  }

  const OrderProblem& problem_;
  const OrderIndex& index_;
  Bytes better_than_;
  SetTable sets_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

Bytes peak_of(const OrderProblem& problem, std::span<const std::uint32_t> order) {
  const OrderIndex index(problem);
  OrderState state(problem, index);
  Bytes peak = state.held();
  for (const std::uint32_t node : order) {
    peak = std::max(peak, state.effect(node).during);
    state.run(node);
  }
  return peak;
}

MemoryOrder least_memory_order(const OrderProblem& problem) {
  const OrderIndex index(problem);
  MemoryOrder best;
  best.order.resize(problem.nodes);
  std::iota(best.order.begin(), best.order.end(), 0);
  best.peak = peak_of(problem, best.order);
  best.bound = peak_bound(problem);
  const auto consider = [&](std::vector<std::uint32_t> order) {
    if (order.size() != problem.nodes) return;
    const Bytes peak = peak_of(problem, order);
    if (peak >= best.peak) return;
    best.peak = peak;
    best.order = std::move(order);
  };
  if (!best.is_least()) consider(least_left_order(problem));
  if (!best.is_least()) consider(depth_first_order(problem));
  if (!best.is_least()) consider(backward_schedule(problem));
  const std::size_t width =
      std::min<std::size_t>(kWidest, kMostRuns / (std::size_t{problem.nodes} * problem.nodes + 1));
  if (!best.is_least() && width > 1) consider(Beam(problem, index, width).run());
  if (best.is_least()) return best;
  const std::uint32_t most_sets = std::min(kMostSets, kMostRuns / problem.nodes);
  Search::Answer answer = Search(problem, index, best.peak).run(most_sets);
  best.bound = std::max(best.bound, std::min(answer.bound, best.peak));
  if (!answer.order.empty()) consider(std::move(answer.order));
  return best;
}

}  // namespace foregather::sim
