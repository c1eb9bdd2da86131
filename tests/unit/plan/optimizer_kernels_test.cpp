#include <algorithm>

#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "core/plan/foreach_kernels.h"
#include "core/plan/lower.h"
#include "tests/unit/plan/toy_model.h"

using namespace foregather;
using namespace foregather::plan;

TEST_CASE("an optimizer that goes tensor by tensor launches a kernel for each of many") {
  Workload workload = test::toy_workload(4);
  workload.train.optimizer_state = StateType::bf16;
  test::ToyShape shape;
  shape.layers = 400;
  const Model model = test::toy_model(shape);
  const auto graph = lower(model, workload);
  if (!graph) FAIL(graph.error().text());
  std::int64_t most = 0;
  for (const Cost& cost : graph->costs)
    if (cost.kind == OpKind::optimizer || cost.kind == OpKind::elementwise)
      most = std::max<std::int64_t>(most, cost.kernels);
  CHECK(most == 2 * 400 + 2);  // two weights a block, the embedding and the head
}

TEST_CASE("launches of multi-tensor ops are counted to the end of their type") {
  constexpr std::int64_t kElements = std::int64_t{320} * 65'536;
  CHECK(foreach_kernels(1, 1, 1) == 1);
  CHECK(foreach_kernels(1, 0, 0) == 1);
  CHECK(foreach_kernels(1, 111, 1) == 2);
  CHECK(foreach_kernels(5, 30 * 300, 1) == 300);
  CHECK(foreach_kernels(5, 1, kElements * 300) == 300);
  CHECK(foreach_kernels(5, 1, kElements * 70'000) == 65'535);
}

TEST_CASE("a loop over the parameters moves what foreach does, an op and a tensor at a time") {
  const Model model = test::toy_model({});
  struct Update {
    std::size_t ops = 0;
    Bytes moved = 0, temporaries = 0, most = 0;
  };
  const auto update = [&](Optimizer optimizer, OptimizerImpl how) {
    Workload workload = test::toy_workload(4);
    workload.train.optimizer = optimizer;
    workload.train.momentum = 0.9;
    workload.train.optimizer_impl = how;
    workload.train.clip_grad_norm = false;
    const auto graph = lower(model, workload);
    if (!graph) FAIL(graph.error().text());
    CHECK(validate(*graph).empty());
    Update sum;
    Bytes now = 0;
    for (const Action& action : graph->programs[0].threads[0].actions(Section::body)) {
      if (action.kind == ActionKind::launch && graph->ops[action.a].role == Role::optimizer) {
        const Cost& cost = graph->at(graph->ops[action.a].cost);
        CHECK(cost.kernels == 1);
        ++sum.ops;
        sum.moved += cost.bytes_read + cost.bytes_written;
      }
      if (action.kind != ActionKind::alloc && action.kind != ActionKind::free) continue;
      const Storage& storage = graph->storages[action.a];
      const std::string_view name = graph->text(storage.name);
      if (name != "exp_avg_sq_sqrt" && name != "denom") continue;
      now += action.kind == ActionKind::alloc ? storage.bytes : -storage.bytes;
      sum.most = std::max(sum.most, now);
      sum.temporaries += action.kind == ActionKind::alloc ? storage.bytes : 0;
    }
    CHECK(now == 0);
    return sum;
  };
  for (const Optimizer optimizer : {Optimizer::adamw, Optimizer::sgd}) {
    const Update foreach = update(optimizer, OptimizerImpl::foreach);
    const Update loop = update(optimizer, OptimizerImpl::for_loop);
    CHECK(loop.moved == foreach.moved);
    CHECK(loop.ops % foreach.ops == 0);
    CHECK(loop.ops > foreach.ops);
    CHECK(loop.temporaries == 2 * foreach.temporaries);
    if (optimizer == Optimizer::adamw) CHECK(loop.most < foreach.most);
  }
}

TEST_CASE("SGD without momentum reads gradients and updates parameters, in one pass") {
  struct Update {
    std::size_t kinds = 0;
    Bytes read = 0, written = 0;
  };
  const Model model = test::toy_model({});
  const auto update = [&](double momentum, OptimizerImpl how) {
    Workload workload = test::toy_workload(4);
    workload.train.optimizer = Optimizer::sgd;
    workload.train.momentum = momentum;
    workload.train.optimizer_impl = how;
    workload.train.clip_grad_norm = false;
    const auto graph = lower(model, workload);
    if (!graph) FAIL(graph.error().text());
    Update sum;
    for (const Cost& cost : graph->costs) {
      if (cost.kind != OpKind::optimizer) continue;
      ++sum.kinds;
      sum.read += cost.bytes_read;
      sum.written += cost.bytes_written;
    }
    return sum;
  };
  for (const OptimizerImpl how : {OptimizerImpl::foreach, OptimizerImpl::fused}) {
    const Update plain = update(0, how);
    CHECK(plain.kinds == 1);
    CHECK(plain.written > 0);
    CHECK(plain.read == 2 * plain.written);
    // The first step makes the momenta of the gradients, the others read and update them.
    const Update with_momentum = update(0.9, OptimizerImpl::fused);
    CHECK(with_momentum.read == 5 * plain.written);
    CHECK(with_momentum.written == 4 * plain.written);
  }
}
