#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "sim/passes/arguments.h"
#include "sim/passes/passes.h"
#include "sim/passes/symbols.h"

namespace foregather::sim {
namespace {

bool is_gather(const Graph& graph, const Symbol& symbol) {
  return graph.at(symbol.op).kind == OpKind::all_gather;
}

// What a gather's output is copied out by, as its wait is.
bool is_unpack(const Graph& graph, const Symbol& symbol) {
  return graph.at(symbol.op).role == Role::copy_out;
}

std::int64_t input_elements(const Graph& graph, const Op& op) {
  std::int64_t elements = 0;
  for (const AccessedTensor& part : graph.accesses_of(op))
    if (part.mode != Access::write) elements += part.bytes / size_of(graph.at(part.tensor).dtype);
  return elements;
}

// Top-down: always the eligible symbol of the smallest key, the first of equals.
std::vector<std::size_t> sorted_waits(const Graph& graph, const SymbolRun& run) {
  const std::size_t count = run.symbols.size();
  const auto key = [&](std::size_t i) -> std::int64_t {
    const Symbol& symbol = run.symbols[i];
    if (symbol.is_wait) return static_cast<std::int64_t>(count);
    const Op& op = graph.at(symbol.op);
    return is_collective(op.kind) ? -input_elements(graph, op) : static_cast<std::int64_t>(i);
  };
  std::vector<std::size_t> missing(count);
  std::vector<std::vector<std::size_t>> users(count);
  for (std::size_t i = 0; i < count; ++i)
    for (const std::size_t before : run.symbols[i].needs) {
      ++missing[i];
      users[before].push_back(i);
    }
  using Entry = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> eligible;
  for (std::size_t i = 0; i < count; ++i)
    if (missing[i] == 0) eligible.emplace(key(i), i);
  std::vector<std::size_t> order;
  while (!eligible.empty()) {
    const std::size_t next = eligible.top().second;
    eligible.pop();
    order.push_back(next);
    for (const std::size_t user : users[next])
      if (--missing[user] == 0) eligible.emplace(key(user), user);
  }
  return order;
}

// Bottom-up: always the eligible symbol of the largest key, the last of equals; then reversed.
std::vector<std::size_t> sorted_communication(const Graph& graph, const SymbolRun& run) {
  const std::size_t count = run.symbols.size();
  const auto key = [&](std::size_t i) {
    if (run.symbols[i].is_wait || is_unpack(graph, run.symbols[i])) return count;
    return is_gather(graph, run.symbols[i]) ? count + i : i;
  };
  std::vector<std::size_t> users(count);
  for (const Symbol& symbol : run.symbols)
    for (const std::size_t before : symbol.needs) ++users[before];
  std::priority_queue<std::pair<std::size_t, std::size_t>> eligible;
  for (std::size_t i = 0; i < count; ++i)
    if (users[i] == 0) eligible.emplace(key(i), i);
  std::vector<std::size_t> order;
  while (!eligible.empty()) {
    const std::size_t next = eligible.top().second;
    eligible.pop();
    order.push_back(next);
    for (const std::size_t before : run.symbols[next].needs)
      if (--users[before] == 0) eligible.emplace(key(before), before);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// What a gather needs of its run, if that is what packs its input alone; nothing if it needs more.
std::optional<std::vector<std::size_t>> packs_of(const Graph& graph, const SymbolRun& run,
                                                 std::size_t gather) {
  const std::vector<std::size_t>& needs = run.symbols[gather].needs;
  for (const std::size_t pack : needs) {
    const Symbol& symbol = run.symbols[pack];
    if (symbol.is_wait || graph.at(symbol.op).role != Role::copy_in || !symbol.needs.empty())
      return std::nullopt;
  }
  return needs;
}

// Takes the gathers out, with what packs their inputs, in the order of their waits, and puts each
// back as late as lets at most `most` be issued and not waited for.
std::vector<std::size_t> limited(const Graph& graph, const SymbolRun& run, std::size_t most) {
  std::vector<std::size_t> gathers;  // waited for, in the order of their first waits
  std::vector<bool> is_taken(run.symbols.size());
  std::vector<bool> is_gather_wait(run.symbols.size());
  for (std::size_t i = 0; i < run.symbols.size(); ++i) {
    const Symbol& symbol = run.symbols[i];
    if (!symbol.is_wait || !is_gather(graph, symbol)) continue;
    const std::size_t gather = symbol.needs.front();
    // One that needs what this run computes stays.
    const auto packs = packs_of(graph, run, gather);
    if (is_taken[gather] || !packs) continue;
    is_taken[gather] = is_gather_wait[i] = true;
    for (const std::size_t pack : *packs) is_taken[pack] = true;
    gathers.push_back(gather);
  }
  std::vector<std::size_t> reversed;
  const auto put_back = [&](std::size_t gather) {
    const std::vector<std::size_t>& packs = run.symbols[gather].needs;
    reversed.push_back(gather);
    reversed.insert(reversed.end(), packs.rbegin(), packs.rend());
  };
  std::size_t waits = 0;
  std::size_t first_wait = run.symbols.size();
  for (std::size_t i = run.symbols.size(); i-- > 0;)
    if (is_gather_wait[i]) first_wait = i;
  for (std::size_t i = run.symbols.size(); i-- > 0;) {
    if (is_taken[i]) continue;
    reversed.push_back(i);
    if (!is_gather_wait[i]) continue;
    if (++waits == most && !gathers.empty()) {
      put_back(gathers.back());
      gathers.pop_back();
      --waits;
    }
    if (i != first_wait) continue;
    std::for_each(gathers.rbegin(), gathers.rend(), put_back);
    gathers.clear();
  }
  std::reverse(reversed.begin(), reversed.end());
  return reversed;
}

struct SortCommunication {
  std::string text;
  SymbolOrder order;

  Result<PassNote> operator()(PassTarget& target) const {
    Rewriter rewriter(target.graph);
    const std::size_t moved = reorder(rewriter, order);
    if (moved == 0)
      return PassNote{text, "no asynchronous collective has another place in that order", false};
    return settle(
        target, rewriter,
        {text, fmt::format("{} ops and waits of a step have another place", moved), true});
  }
};

Status takes_nothing(const PassArguments& arguments) {
  if (arguments.text.find_first_of("=,") == std::string_view::npos) return {};
  return bad_pass(arguments, "takes no argument");
}

Result<Pass> parse_sort_waits(const PassArguments& arguments) {
  if (const Status checked = takes_nothing(arguments); !checked)
    return tl::unexpected(checked.error());
  return Pass(SortCommunication{std::string(arguments.text), sorted_waits});
}

Result<Pass> parse_sort_communication(const PassArguments& arguments) {
  if (const Status checked = takes_nothing(arguments); !checked)
    return tl::unexpected(checked.error());
  return Pass(SortCommunication{std::string(arguments.text), sorted_communication});
}

Result<Pass> parse_in_flight(const PassArguments& arguments) {
  constexpr std::uint32_t kMost = 1'000'000;
  std::size_t most = std::numeric_limits<std::size_t>::max();
  if (arguments.argument != "unlimited") {
    const auto count = parse_count(arguments.argument, 1, kMost);
    if (!count || !arguments.options.empty())
      return bad_pass(arguments, "expected in-flight=K with K from 1, or in-flight=unlimited");
    most = *count;
  } else if (!arguments.options.empty()) {
    return bad_pass(arguments, "expected in-flight=K with K from 1, or in-flight=unlimited");
  }
  return Pass(SortCommunication{
      std::string(arguments.text),
      [most](const Graph& graph, const SymbolRun& run) { return limited(graph, run, most); }});
}

}  // namespace

// thunder/distributed/utils.py: sort_waits, sort_communication_ops, limit_in_flight_allgathers
// (reference: Thunder §B.5, B.6, B.7).
const PassInfo kSortWaitsPass{
    "sort-waits", "", "issues asynchronous collectives as early and waits as late as they can be",
    R"(Thunder's order for overlap. Between two barriers of a host thread (marks, host waits), always the
next op that nothing keeps: collectives first, the largest input first, then other ops in their order,
waits last. Storages are allocated before their first and freed behind their last use.

    before  ag0 wait0 lin0 ag1 wait1 lin1 ag2 wait2 lin2
    after   ag0 ag1 ag2 wait0 lin0 wait1 lin1 wait2 lin2

Works on collectives whose event one stream waits for later, as Thunder's traces have them. All gathers
are in memory at once. Idempotent on such traces; where other work of the host stands in between, as
in FSDP, it may find more to move when it is applied again.
)",
    &parse_sort_waits};

const PassInfo kSortCommunicationPass{
    "sort-communication", "",
    "issues each gather right before its wait, and waits for reductions last",
    R"(Thunder's order for memory (ZeRO-3). From the last op to the first, always the one whose users are
all placed: gathers first, waits and copies of a gather's output next, then other ops from the last; so that a gather lands right before its
wait, a reduction behind its producer, and the waits for reductions at the end.

    before  ag0 wait0 ag1 wait1 dx1 dw1 rs1 rwait1 dx0 dw0 rs0 rwait0
    after   ag1 wait1 dx1 dw1 rs1 ag0 wait0 dx0 dw0 rs0 rwait1 rwait0

Nothing overlaps a gather: `in-flight=K` after it gives K gathers back. Idempotent on traces of Thunder;
elsewhere a gather may move once more.
)",
    &parse_sort_communication};

const PassInfo kInFlightPass{
    "in-flight", "=K|unlimited", "issues gathers early, at most K that nothing has waited for",
    R"(Takes the gathers out, with the copies that pack them, and puts each back where at most K are issued and not waited for, in the order
of their waits; Thunder runs it behind `sort-communication`, with K = 3 for ZeRO-3 and unlimited for
ZeRO-2. In memory are at most K in flight and the one in use.

    K = 1   ag0 wait0 lin0 ag1 wait1 lin1 ag2 wait2 lin2
    K = 2   ag0 ag1 wait0 lin0 ag2 wait1 lin1 wait2 lin2

A gather that needs what the same stretch computes stays in its place. Idempotent on traces of Thunder;
elsewhere a gather may move once more.
)",
    &parse_in_flight};

}  // namespace foregather::sim
