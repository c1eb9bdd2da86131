// Each kind of problem, made by breaking a fixture.
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "core/ir/op_key.h"
#include "tests/fixtures/fixtures.h"
#include "tests/fixtures/parts.h"
#include "tests/unit/ir/edit.h"

using namespace foregather;
using namespace foregather::test;

namespace {

using Kinds = std::vector<ProblemKind>;

}  // namespace

TEST_CASE("an op must not touch a storage that is not bound") {
  Graph graph = activation_recompute();
  const StorageId input = storage_named(graph, "input", "layers.2");
  drop(graph, action(ActionKind::alloc, input.row()));
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::use_after_free, ProblemKind::double_free});
  CHECK(has(problems, ProblemKind::use_after_free,
            "r0/s0/m0/layers.1/forward/gemm/1 (o6) touches tensor t10 of storage b10 "
            "(layers.2/input), which is not allocated yet"));
}

TEST_CASE("a free before the last use is found") {
  Graph graph = activation_recompute();
  const StorageId inner = storage_named(graph, "inner", "layers.0");
  auto& body = graph.programs[0].threads[0].sections[std::size_t(Section::body)];
  const auto is_alloc = [&](const Action& each) {
    return each.kind == ActionKind::alloc && each.a == inner.row();
  };
  const auto alloc = std::find_if(body.begin(), body.end(), is_alloc);
  body.insert(alloc + 2, Action{ActionKind::free, {}, inner.row(), 0});  // behind `up`
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::use_after_free, ProblemKind::double_free});
  CHECK(has(problems, ProblemKind::use_after_free, "which is freed"));
}

TEST_CASE("a released tensor is dead though its storage lives") {
  Graph graph = thunder_trace();
  // The future of the first gather goes before the gather writes it.
  auto& body = graph.programs[0].threads[0].sections[std::size_t(Section::body)];
  const auto release = std::find_if(body.begin(), body.end(), [](const Action& each) {
    return each.kind == ActionKind::release;
  });
  const auto launch = std::find_if(
      body.begin(), body.end(), [](const Action& each) { return each.kind == ActionKind::launch; });
  std::rotate(launch, release, release + 1);
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::use_after_free});
  CHECK(has(problems, ProblemKind::use_after_free, "which was released"));
}

TEST_CASE("record_stream needs a bound storage") {
  Graph graph = fsdp1_rate_limiter();
  auto& init = graph.programs[0].threads[0].sections[std::size_t(Section::init)];
  const StorageId grad = storage_named(graph, "grad");
  init.push_back({ActionKind::record_stream, StreamId(1), grad.row(), 0});
  CHECK(has(validate(graph), ProblemKind::use_after_free, "is recorded on stream unshard"));
}

TEST_CASE("double alloc") {
  Graph graph = gradient_accumulation();
  repeat(graph, action(ActionKind::alloc, storage_named(graph, "hidden").row()));
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::double_alloc});
  CHECK(has(problems, ProblemKind::double_alloc, "(layers.0/hidden) is allocated while"));
}

TEST_CASE("double free") {
  Graph graph = gradient_accumulation();
  repeat(graph, action(ActionKind::free, storage_named(graph, "hidden").row()));
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::double_free});
  CHECK(
      has(problems, ProblemKind::double_free, "(layers.0/hidden) is freed while it is not bound"));
}

TEST_CASE("double release of one tensor, and release after a free") {
  Graph graph = thunder_trace();
  const StorageId gathered = storage_named(graph, "p3");
  std::uint32_t tensor = 0;
  while (graph.tensors[tensor].storage != gathered) ++tensor;
  repeat(graph, action(ActionKind::release, tensor));
  CHECK(has(validate(graph), ProblemKind::double_free,
            "of storage b7 (p3) is released while it is not live"));

  Graph freed = thunder_trace();
  drop(freed, action(ActionKind::release, tensor));
  auto& body = freed.programs[0].threads[0].sections[std::size_t(Section::body)];
  body.push_back({ActionKind::free, {}, gathered.row(), 0});
  body.push_back({ActionKind::release, {}, tensor, 0});
  CHECK(has(validate(freed), ProblemKind::double_free, "is released while it is not live"));
}

TEST_CASE("leak") {
  Graph graph = fsdp1_rate_limiter();
  const StorageId grad = storage_named(graph, "grad", "layers.1");
  drop(graph, action(ActionKind::free, grad.row()));
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::leak});
  CHECK(has(problems, ProblemKind::leak,
            "(layers.1/grad) is allocated while its binding of the step before is held"));
}

TEST_CASE("a storage freed in the next step is no leak") {
  Graph graph = thunder_trace();
  CHECK(validate(graph).empty());
  drop(graph, action(ActionKind::free, storage_named(graph, "t22").row()), {Section::body});
  CHECK(kinds_of(validate(graph)) == Kinds{ProblemKind::leak});
}

TEST_CASE("an event that nothing records") {
  Graph graph = fsdp1_rate_limiter();
  // The limiter waits for it on the host only, so that no order is lost with it.
  std::uint32_t freed = 0;
  for (const Action& each : graph.programs[0].threads[0].actions(Section::body))
    if (each.kind == ActionKind::host_wait_event) freed = each.a;
  drop(graph, action(ActionKind::record, freed));
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::never_recorded});
  CHECK(problems.size() == 1);
  CHECK(has(problems, ProblemKind::never_recorded, "of program rank is waited for"));
}

TEST_CASE("an event recorded later in the step binds in the next") {
  const Graph graph = fsdp1_rate_limiter();
  const auto body = graph.programs[0].threads[0].actions(Section::body);
  const auto wait = std::find_if(body.begin(), body.end(), [](const Action& each) {
    return each.kind == ActionKind::host_wait_event;
  });
  REQUIRE(wait != body.end());
  const auto is_record = [&](const Action& each) {
    return each.kind == ActionKind::record && each.a == wait->a;
  };
  CHECK(std::none_of(body.begin(), wait, is_record));
  CHECK(std::any_of(wait, body.end(), is_record));
}

TEST_CASE("launched twice") {
  Graph graph = activation_recompute();
  repeat(graph, launch_of(OpKind::optimizer));
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::launched_twice});
  CHECK(has(problems, ProblemKind::launched_twice, "optimizer/optimizer/0 (o4) is launched twice"));
}

TEST_CASE("never launched") {
  Graph graph = activation_recompute();
  drop(graph, launch_of(OpKind::optimizer));
  const auto problems = validate(graph);
  INFO(text_of(problems));
  CHECK(kinds_of(problems) == Kinds{ProblemKind::never_launched});
  CHECK(problems.size() == 3);
}

TEST_CASE("an op that was fused away need not be launched") {
  Graph graph = deepcompile_zero3();
  graph.ops[3].origins.count = 1;
  CHECK(has(validate(graph), ProblemKind::never_launched, "(o2)"));
}

TEST_CASE("classes that launch other collectives disagree") {
  SECTION("message bytes") {
    Graph graph = kineto_recording();
    for (Cost& cost : graph.costs)
      if (cost.kind == OpKind::all_reduce && cost.fixed_time == 355'000) cost.message_bytes /= 2;
    const auto problems = validate(graph);
    INFO(text_of(problems));
    CHECK(kinds_of(problems) == Kinds{ProblemKind::collective_mismatch});
    CHECK(has(problems, ProblemKind::collective_mismatch,
              "collective 0 on communicator default_pg in first: class rank 0 launches "
              "r0/s0/m0/model/backward/all_reduce/0@default_pg#0 of 4194304 bytes, class rank 1 "
              "r1/s0/m0/model/backward/all_reduce/0@default_pg#0 of 2097152 bytes"));
  }
  SECTION("one launches fewer") {
    Graph graph = kineto_recording();
    const std::uint32_t last = graph.programs[1].ops.first + 3;
    drop(graph, action(ActionKind::launch, last), {Section::body});
    const auto problems = validate(graph);
    INFO(text_of(problems));
    CHECK(has(problems, ProblemKind::collective_mismatch, "class rank 1 nothing"));
  }
  SECTION("ranks outside the group") {
    Graph graph = expert_group_of_one();
    graph.groups[1].instances = 1;
    CHECK(has(validate(graph), ProblemKind::collective_mismatch,
              "class all launches on communicator experts, but not all of its ranks are in the "
              "group experts"));
  }
  SECTION("launch order against sequence numbers") {
    Graph graph = chakra_dag();
    std::swap(graph.ops[0].sequence, graph.ops[1].sequence);
    const auto problems = validate(graph);
    INFO(text_of(problems));
    CHECK(kinds_of(problems) == Kinds{ProblemKind::collective_mismatch});
    CHECK(has(problems, ProblemKind::collective_mismatch, "expected increasing sequence numbers"));
  }
}

TEST_CASE("threads must agree on the order of one communicator") {
  GraphBuilder b;
  const GroupId world = b.group("world", first_ranks(2), 1);
  const CommunicatorId comm = b.communicator("world", world);
  const ProgramId program = b.begin_program("p");
  const StreamId left = b.stream("left");
  const StreamId right = b.stream("right");
  const bool is_ordered = GENERATE(false, true);
  OpSpec spec;
  spec.communicator = comm;
  spec.cost = collective(b, OpKind::all_reduce, DType::f32, 1024, world);
  spec.stream = left;
  const OpId first = op(b, spec, {});
  spec.stream = right;
  const OpId second = op(b, spec, {});
  b.thread("a");
  b.thread("b");
  b.select(0, Section::body);
  b.launch(first);
  b.select(1, Section::body);
  if (is_ordered) b.host_wait_action(0, 0);
  b.launch(second);
  b.end_program();
  one_class(b, program, 2);
  const auto problems = validate(b.finish());
  INFO(text_of(problems));
  CHECK(problems.empty() == is_ordered);
  if (!is_ordered)
    CHECK(has(problems, ProblemKind::collective_mismatch,
              "are launched on communicator world in no order"));
}

TEST_CASE("the waits of the fixtures are needed") {
  SECTION("FSDP1: compute before the gather has ended") {
    Graph graph = fsdp1_rate_limiter();
    drop(graph, [](const Graph&, const Action& each) {
      return each.kind == ActionKind::wait && each.stream == StreamId(0);
    });
    const auto problems = validate(graph);
    CHECK(kinds_of(problems) == Kinds{ProblemKind::hazard});
    CHECK(has(problems, ProblemKind::hazard,
              "forward/all_gather/0@world#0 (o1) on stream unshard and "
              "r0/s0/m0/layers.0/forward/gemm/0 (o2) on stream default touch bytes of storage b2 "
              "(layers.0/full_param_padded) in no order, the first one writing"));
  }
  SECTION("FSDP1: a free without record_stream") {
    Graph graph = fsdp1_rate_limiter();
    drop(graph, action(ActionKind::record_stream,
                       storage_named(graph, "full_param_padded", "layers.2").row()));
    const auto problems = validate(graph);
    CHECK(kinds_of(problems) == Kinds{ProblemKind::hazard});
    CHECK(has(problems, ProblemKind::hazard, "neither record_stream nor a wait"));
  }
  SECTION("FSDP2: a free before the owner has waited") {
    Graph graph = gradient_accumulation();
    drop(graph, [](const Graph&, const Action& each) {
      return each.kind == ActionKind::wait && each.stream == StreamId(1);
    });
    CHECK(kinds_of(validate(graph)) == Kinds{ProblemKind::hazard});
  }
  SECTION("Kineto: the upload and its use") {
    Graph graph = kineto_recording();
    drop(graph, action(ActionKind::wait, 0));
    CHECK(kinds_of(validate(graph)) == Kinds{ProblemKind::hazard});
  }
  SECTION("Chakra: a dep") {
    Graph graph = chakra_dag();
    graph.ops[2].deps = {};
    CHECK(kinds_of(validate(graph)) == Kinds{ProblemKind::hazard});
  }
  SECTION("Chakra: the next step") {
    Graph graph = chakra_dag();
    drop(graph, action(ActionKind::host_wait_device, 0));
    CHECK(kinds_of(validate(graph)) == Kinds{ProblemKind::hazard});
  }
  SECTION("DeepCompile: the host waits for the reductions") {
    Graph graph = deepcompile_zero3();
    drop(graph, action(ActionKind::host_wait_stream, 0));
    CHECK(kinds_of(validate(graph)) == Kinds{ProblemKind::hazard});
  }
}

TEST_CASE("deadlocks") {
  SECTION("threads that wait for each other") {
    Graph graph = kineto_recording();
    auto& loader = graph.programs[0].threads[2].sections[std::size_t(Section::body)];
    loader.insert(loader.begin(), Action{ActionKind::host_wait_action, {}, 1, 0});
    const auto problems = validate(graph);
    INFO(text_of(problems));
    CHECK(kinds_of(problems) == Kinds{ProblemKind::deadlock});
    CHECK(has(problems, ProblemKind::deadlock,
              "thread h2 (pin_memory) waits for ever at action 0 of body for action 0 of thread h1 "
              "(pt_autograd_0)"));
  }
  SECTION("a thread that waits for itself") {
    Graph graph = kineto_recording();
    auto& main = graph.programs[1].threads[0].sections[std::size_t(Section::first)];
    main.push_back({ActionKind::host_wait_action, {}, 0, static_cast<std::uint32_t>(main.size())});
    CHECK(kinds_of(validate(graph)) == Kinds{ProblemKind::deadlock});
  }
  SECTION("a dep launched later") {
    Graph graph = chakra_dag();
    auto& body = graph.programs[0].threads[0].sections[std::size_t(Section::body)];
    const auto launch = [&](std::uint32_t op) {
      return std::find_if(body.begin(), body.end(), [op](const Action& each) {
        return each.kind == ActionKind::launch && each.a == op;
      });
    };
    std::iter_swap(launch(0), launch(1));
    const auto problems = validate(graph);
    INFO(text_of(problems));
    CHECK(has(problems, ProblemKind::deadlock, "which the same thread launches later"));
  }
  SECTION("a dep that the section does not launch") {
    Graph graph = chakra_dag();
    drop(graph, action(ActionKind::launch, 2), {Section::body});
    CHECK(has(validate(graph), ProblemKind::deadlock, "which this section does not launch"));
  }
}

TEST_CASE("a dep may be launched by a later thread") {
  GraphBuilder b;
  const ProgramId program = b.begin_program("p");
  OpSpec spec;
  spec.stream = b.stream("s");
  spec.cost = streaming(b, OpKind::copy, 64, 64);
  const OpId first = op(b, spec, {});
  const OpId second = op(b, spec, {}, {first});
  b.thread("a");
  b.thread("b");
  b.select(0, Section::body);
  b.launch(second);
  b.select(1, Section::body);
  b.launch(first);
  b.end_program();
  one_class(b, program, 1);
  CHECK(validate(b.finish()).empty());
}

TEST_CASE("more ops than 16 bits count share a key") {
  GraphBuilder b;
  const ProgramId program = b.begin_program("p");
  OpSpec spec;
  spec.stream = b.stream("s");
  spec.cost = streaming(b, OpKind::copy, 64, 64);
  b.thread("host");
  b.select(0, Section::body);
  constexpr std::uint32_t kCount = 70'000;
  for (std::uint32_t i = 0; i < kCount; ++i) b.launch(op(b, spec, {}));
  b.end_program();
  one_class(b, program, 1);
  const Graph graph = b.finish();
  CHECK(validate(graph).empty());
  CHECK(graph.ops.back().ordinal == kCount - 1);
}

TEST_CASE("at most `limit` problems") {
  Graph graph = fsdp1_rate_limiter();
  drop(graph, [](const Graph&, const Action& each) { return each.kind == ActionKind::wait; });
  CHECK(validate(graph).size() > 10);
  CHECK(validate(graph, 3).size() == 3);
  CHECK(validate(graph, 0).empty());
}

TEST_CASE("an empty graph is valid") { CHECK(validate(Graph()).empty()); }
