// What DeepCompile's passes do to its graphs.
#include <algorithm>
#include <set>
#include <catch2/catch.hpp>

#include "sim/memory/live.h"
#include "sim/passes/compiled_graph.h"
#include "sim/passes/registry.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

/// The graphs of a small OpenVLA as zero3_compile leaves them. Of its vision towers' two blocks one
/// runs: features come from in front of the last one.
Graph unscheduled(std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(), {"parallel.strategy=deepcompile", "parallel.deepcompile_passes=none",
                             "model.layers=2,2,2"});
  return sample_with("openvla_zero3", sets).graph;
}

Graph on_device(Graph graph, Bytes memory, const std::string& pass, std::string* did = nullptr) {
  sim::PassTarget target{std::move(graph)};
  target.context.price = [](const Graph& priced, const sim::PriceChanges&) {
    return made_up_prices(priced);
  };
  target.context.device_memory = memory;
  const auto note = (*sim::parse_pass(pass))(target);
  REQUIRE(note.has_value());
  if (did != nullptr) *did = note->did;
  return std::move(target.graph);
}

/// The backward, a letter an op: Gather, Cast of a parameter, compute (.), reduction to a bucket
/// (r).
std::string backward(const Graph& graph) {
  const auto program = sim::compiled_graphs(graph);
  REQUIRE(program.has_value());
  std::string text;
  for (const sim::CompiledNode& node : program->graphs.back().nodes) {
    const Op& op = graph.at(node.ops.back());
    const auto parts = graph.accesses_of(op);
    const bool casts = op.role == Role::cast && graph.at(graph.at(parts[0].tensor).storage).cause ==
                                                    Cause::unsharded_parameter;
    text += node.is_gather ? 'G' : node.is_reduce ? 'r' : casts ? 'C' : '.';
  }
  return text;
}

std::size_t position(const std::string& text, char letter, bool last) {
  return last ? text.rfind(letter) : text.find(letter);
}

/// Parameters that a matmul reads, so that autocast casts them: of two linears with biases in each
/// vision MLP, and so on; counted in the schedule itself.
std::size_t casts(const Graph& graph) {
  const std::string text = backward(graph);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), 'C'));
}

}  // namespace

TEST_CASE("DeepCompile's plan has all gathers at the head of each graph") {
  const Graph graph = unscheduled();
  REQUIRE(problems(graph) == "");
  const auto program = sim::compiled_graphs(graph);
  REQUIRE(program.has_value());
  REQUIRE(program->graphs.size() == 2);
  const std::string text = backward(graph);
  CHECK(text.find_first_not_of('G') == text.find_last_of('G') + 1);
  CHECK(casts(graph) > 20);
  // Norms and embeddings are gathered, but not cast.
  CHECK(casts(graph) < static_cast<std::size_t>(std::count(text.begin(), text.end(), 'G')));
}

TEST_CASE("fast-free before the fusion puts every cast before the compute that it could follow") {
  const Graph graph = passed(unscheduled(), {"order=fast-free"});
  const std::string text = backward(graph);
  // All casts are made before the first parameter that compute itself reads is gathered.
  const std::size_t last_cast = position(text, 'C', true);
  CHECK(casts(graph) == casts(unscheduled()));
  CHECK(static_cast<std::size_t>(std::count(
            text.begin(), text.begin() + static_cast<long>(last_cast), 'C')) == casts(graph) - 1);
  CHECK(text.substr(0, last_cast).find('r') == std::string::npos);
  CHECK(text.substr(0, last_cast).find('.') == std::string::npos);
}

TEST_CASE("fast-free after the fusion leaves few gathers in a row") {
  const Graph graph = passed(unscheduled(), {"fuse-downcast", "order=fast-free"});
  const std::string text = backward(graph);
  CHECK(casts(graph) == 0);
  std::size_t longest = 0, run = 0;
  for (const char letter : text) {
    run = letter == 'G' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  CHECK(longest <= 2);
  CHECK(sim::live_memory(graph).front().steady.bytes <
        sim::live_memory(passed(unscheduled(), {"order=fast-free"})).front().steady.bytes);
}

TEST_CASE("the fusion halves the bytes of what is cast and leaves the rest") {
  const Graph before = unscheduled();
  const Graph after = passed(before, {"fuse-downcast"});
  Bytes cast = 0;
  const auto program = sim::compiled_graphs(before);
  for (const sim::CompiledGraph& graph : program->graphs)
    for (const sim::CompiledNode& node : graph.nodes) {
      if (!node.is_gather) continue;
      const sim::CompiledNode& last = graph.nodes[node.last_use];
      if (before.at(last.ops.back()).role == Role::cast)
        cast += before.at(before.at(node.ops.back()).cost).message_bytes;
    }
  CHECK(cast > 0);
  CHECK(gathered_bytes(before) - gathered_bytes(after) == cast / 2);
}

TEST_CASE("buckets are filled up to their size and flushed in the new order") {
  for (const char* flag : {"true", "false"}) {
    // The largest gradient is the head's: 32,064 × 4,096.
    const Bytes bucket = Bytes{32'064} * 4'096 * 4;
    const Graph graph = passed(unscheduled({"parallel.reduce_bucket_size=50000000",
                                            std::string("parallel.double_buffer=") + flag}),
                               {"fuse-downcast", "order=fast-free"});
    CHECK(problems(graph) == "");
    Bytes reduced = 0, most = 0, buckets = 0;
    std::size_t flushes = 0;
    for (const OpId id : launches(graph)) {
      const Cost& cost = graph.at(graph.at(id).cost);
      if (graph.at(id).role != Role::reduce) continue;
      ++flushes;
      reduced += cost.message_bytes;
      most = std::max(most, cost.message_bytes);
    }
    for (const Storage& storage : graph.storages)
      if (storage.cause == Cause::communication_buffer) buckets += storage.bytes;
    CHECK(most <= bucket);
    CHECK(buckets == (flag == std::string("true") ? 2 : 1) * bucket);
    CHECK(flushes >= static_cast<std::size_t>(reduced / bucket));
    Bytes gradients = 0;
    for (const Storage& storage : graph.storages)
      if (storage.cause == Cause::reduced_gradient &&
          graph.text(storage.name) == "gradient partitions")
        gradients = storage.bytes;
    // The last blocks of DINOv2 and SigLIP, their final norms and SigLIP's pooling head.
    constexpr Bytes kUnused = 12'598'272 + 15'239'504 + 15'242'704;
    CHECK(reduced >= (gradients - kUnused) * 4 - 4 * 4 * 200);
    CHECK(reduced <= (gradients - kUnused) * 4);
  }
}

TEST_CASE("prefetch=budget issues all at the head where memory allows, else behind what fits") {
  const Graph scheduled = passed(unscheduled(), {"fuse-downcast", "order=fast-free"});
  const std::string head = backward(on_device(scheduled, 1000 * GiB, "prefetch=budget"));
  CHECK(head.find_first_not_of('G') == head.find_last_of('G') + 1);
  // A device that the schedule fills: each gather is issued right behind the op before it.
  const std::string tight = backward(on_device(scheduled, 1 * GiB, "prefetch=budget"));
  CHECK(tight.find_last_of('G') > tight.size() / 2);
  CHECK(std::count(head.begin(), head.end(), 'G') == std::count(tight.begin(), tight.end(), 'G'));
}

TEST_CASE("prefetched gathers send the shard's dtype if the fusion says so, and say why") {
  const Graph before = unscheduled();
  std::vector<sim::PassNote> notes;
  const Graph shard = passed(
      before, {"fuse-downcast,prefetch_dtype=shard", "order=fast-free", "prefetch=budget"}, &notes);
  CHECK(problems(shard) == "");
  CHECK(gathered_bytes(shard) == gathered_bytes(before));
  CHECK(casts(shard) == casts(before));
  CHECK(notes.back().did.find("the shard's dtype though their downcast was fused") !=
        std::string::npos);
  const Graph target = passed(before, {"fuse-downcast", "order=fast-free", "prefetch=budget"});
  CHECK(gathered_bytes(target) == gathered_bytes(passed(before, {"fuse-downcast"})));
  CHECK(gathered_bytes(passed(before, {"fuse-downcast", "order=fast-free",
                                       "prefetch=budget,prefetch_dtype=shard"})) ==
        gathered_bytes(before));
  // 4n of the gathered parameter and 2n of its cast are held until its release.
  CHECK(sim::live_memory(shard).front().steady.bytes >
        sim::live_memory(target).front().steady.bytes);
}

TEST_CASE("selective-gather keeps what costs most time a byte and stops at what does not fit") {
  const Graph scheduled = passed(unscheduled(), {"order=fast-free"});
  const std::size_t all = count(scheduled, Role::gather);
  std::vector<sim::PassNote> notes;
  // The price of 10 µs an op makes the smallest parameters the dearest a byte.
  const Graph some = passed(scheduled, {"selective-gather=1MiB"}, &notes);
  CHECK(problems(some) == "");
  CHECK(count(some, Role::gather) < all);
  Bytes kept = 0, smallest_freed = 1000 * GiB;
  std::set<std::uint32_t> freed;
  const auto program = sim::compiled_graphs(some);
  REQUIRE(program.has_value());
  for (const sim::CompiledGraph& graph : program->graphs) {
    const auto actions = some.programs.front().threads[graph.list.thread].actions(Section::body);
    for (std::uint32_t i = graph.actions[1].first; i < graph.actions[1].end(); ++i)
      if (actions[i].kind == ActionKind::free) freed.insert(actions[i].a);
  }
  for (const sim::CompiledGraph& graph : program->graphs)
    for (const sim::CompiledNode& node : graph.nodes) {
      if (!node.is_gather) continue;
      const Bytes bytes = some.at(*node.gathered).bytes;
      if (freed.contains(node.gathered->row()))
        smallest_freed = std::min(smallest_freed, bytes);
      else
        kept += bytes;
    }
  CHECK(kept <= 1 * MiB);
  CHECK(kept + 4 * smallest_freed > 1 * MiB);
  // With room for all, each parameter is gathered once a step.
  const Graph everything = passed(scheduled, {"selective-gather=100GiB"}, &notes);
  std::set<std::uint32_t> gathered;
  for (const OpId id : launches(everything))
    if (everything.at(id).role == Role::gather)
      CHECK(gathered
                .insert(everything.at(everything.accesses_of(everything.at(id)).back().tensor)
                            .storage.row())
                .second);
  CHECK(notes.back().did.find("stay gathered") != std::string::npos);
}

TEST_CASE("selective-gather keeps a tied parameter once, though one of its gathers is fused") {
  const Graph tied = sample_with("gpt2_ddp", {"parallel.strategy=deepcompile",
                                              "parallel.deepcompile_passes=none", "model.layers=2"})
                         .graph;
  std::vector<sim::PassNote> notes;
  const Graph before = passed(tied, {"selective-gather=100GiB"}, &notes);
  const std::string kept = notes.back().did.substr(0, notes.back().did.find(" of "));
  for (const std::vector<std::string>& first :
       {std::vector<std::string>{"fuse-downcast"},
        {"fuse-downcast", "order=fast-free"},
        {"fuse-downcast,prefetch_dtype=shard", "order=fast-free", "prefetch=budget"}}) {
    std::vector<std::string> passes = first;
    passes.emplace_back("selective-gather=100GiB");
    const Graph after = passed(tied, passes, &notes);
    CHECK(problems(after) == "");
    CHECK(notes.back().did.starts_with(kept));
    CHECK(gathered_bytes(after) == gathered_bytes(before));
  }
}

TEST_CASE("selective-gather leaves alone what two shards are gathered into") {
  const Graph scheduled = passed(unscheduled(), {"order=fast-free"});
  std::vector<sim::PassNote> notes;
  const auto kept = [&](const Graph& graph) {
    passed(graph, {"selective-gather=100GiB"}, &notes);
    return std::stoi(notes.back().did);  // "41 parameters stay gathered"
  };
  const int all = kept(scheduled);
  const auto moved = [&](auto&& change) {
    Graph graph = scheduled;
    std::set<std::uint32_t> gathered;
    for (const OpId id : launches(graph)) {
      const Op& op = graph.at(id);
      if (op.role != Role::gather || op.accesses.count < 2) continue;
      if (gathered.insert(graph.at(graph.accesses_of(op).back().tensor).storage.row()).second)
        continue;
      change(graph.accesses[op.accesses.first]);
      break;
    }
    return graph;
  };
  CHECK(kept(moved([](AccessedTensor& shard) {
          shard.offset += 4;
          shard.bytes -= 4;
        })) == all - 1);
  CHECK(kept(moved([](AccessedTensor& shard) { shard.mode = Access::write; })) == all - 1);
}

TEST_CASE("DeepCompile's passes leave other schedules alone and say why") {
  std::vector<sim::PassNote> notes;
  passed(sample_with("tiny_fsdp2", {"model.layers=2"}).graph,
         {"order=fast-free", "prefetch=budget", "selective-gather"}, &notes);
  for (const sim::PassNote& note : notes) {
    CHECK_FALSE(note.changed);
    CHECK(note.did.find("none of DeepCompile's") != std::string::npos);
  }
}

TEST_CASE("DeepCompile's passes leave its graphs alone where times or memory are not known") {
  const Graph graph = unscheduled();
  const auto did = [&](const char* pass, bool knows_times) {
    INFO(pass);
    sim::PassTarget target{graph};
    if (knows_times)
      target.context.price = [](const Graph& priced, const sim::PriceChanges&) {
        return made_up_prices(priced);
      };
    const auto note = (*sim::parse_pass(pass))(target);
    REQUIRE(note.has_value());
    CHECK_FALSE(note->changed);
    CHECK(keys(target.graph) == keys(graph));
    return note->did;
  };
  const std::string unknown = "the times of gathers, or the device's memory, are not known";
  CHECK(did("order=fast-free", false) ==
        "the schedule keeps its order: the times of its ops are not known");
  CHECK(did("prefetch=budget", false) == unknown);
  CHECK(did("prefetch=budget", true) == unknown);
  CHECK(did("selective-gather", true) == unknown);
  CHECK(did("selective-gather=1GiB", false) == unknown);
  CHECK(did("selective-gather=1", true) == "no parameter that is gathered and freed fits into 1 B");
}
