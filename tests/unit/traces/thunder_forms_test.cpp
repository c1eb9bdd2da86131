// Thunder traces: types that are not printed, call by call, and statements that few traces have.
#include <catch2/catch.hpp>

#include "tests/unit/traces/lowered_thunder.h"
#include "traces/thunder_shapes.h"

using namespace foregather;
using namespace foregather::traces;
using namespace foregather::test;

namespace {

/// "bf16[3, 1, 4]" of each result of `call`, which follows from the types of its arguments alone;
/// "?" where it does not.
std::string inferred(const std::string& call, std::int64_t world_size = 2) {
  const std::string text = head("a, m, i, h, c, o, u") +
                           "  # a: \"cuda:0 bf16[3, 1, 4]\"\n"
                           "  # m: \"cuda:0 bf16[4, 6]\"\n"
                           "  # i: \"cuda:0 i64[2, 6]\"\n"
                           "  # h: \"cuda:0 f16[4]\"\n"
                           "  # c: \"cuda:0 f32[2, 4]\"\n"
                           "  # o: \"cuda:0 b8[6]\"\n"
                           "  # u: \"cuda:0 ui8[6]\"\n"
                           "  " +
                           call + "\n  return a\n";
  const auto file = read_thunder(text, "t.txt");
  REQUIRE(file);
  ThunderTypes types(*file, file->functions.front(), world_size);
  types.infer();
  std::string all;
  for (const ThunderName target : file->targets_of(file->statements.front())) {
    const ThunderTensorType* const type = types.of(target);
    if (!all.empty()) all += " ";
    if (type == nullptr) {
      all += "?";
      continue;
    }
    all += fmt::format("{}[{}]", name(type->dtype.type), fmt::join(type->dims, ", "));
  }
  return all;
}

}  // namespace

TEST_CASE("Thunder types: the sizes and dtypes of what is broadcast together") {
  CHECK(inferred("t = torch.add(a, c)") == "f32[3, 2, 4]");
  CHECK(inferred("t = torch.add(c, a)") == "f32[3, 2, 4]");
  CHECK(inferred("t = torch.add(i, o)") == "i64[2, 6]");
  CHECK(inferred("t = torch.add(o, m)") == "bf16[4, 6]");
  CHECK(inferred("t = torch.add(m, o)") == "bf16[4, 6]");
  CHECK(inferred("t = torch.add(a, f0)") == "bf16[3, 1, 4]");
  CHECK(inferred("t = torch.add(a, h)") == "f32[3, 1, 4]");
  CHECK(inferred("t = torch.add(o, u)") == "u8[6]");
  CHECK(inferred("t = torch.add(u, o)") == "u8[6]");
  CHECK(inferred("t = torch.where(o, m, m)") == "bf16[4, 6]");
  CHECK(inferred("t = torch.gt(a, c)") == "bool[3, 2, 4]");
  CHECK(inferred("t = torch.add(a, o)") == "?");
  CHECK(inferred("t = torch.add(a, x)") == "?");
}

TEST_CASE("Thunder types: a reshape has one open size at most, and keeps the elements") {
  CHECK(inferred("t = torch.reshape(m, (-1,))") == "bf16[24]");
  CHECK(inferred("t = torch.reshape(m, (2, -1, 3))") == "bf16[2, 4, 3]");
  for (const char* sizes :
       {"(-1, -1)", "(5,)", "(5, -1)", "(0, -1)", "(-2, -12)", "(9223372036854775807, 2, -1)"}) {
    CAPTURE(sizes);
    CHECK(inferred(std::string("t = torch.reshape(m, ") + sizes + ")") == "?");
  }
}

TEST_CASE("Thunder types: reductions, slices and transpositions") {
  CHECK(inferred("t = torch.sum(a, (0, -1))") == "bf16[1]");
  CHECK(inferred("t = torch.sum(a, (0,), True)") == "bf16[1, 1, 4]");
  CHECK(inferred("t = torch.sum(a)") == "bf16[]");
  CHECK(inferred("t = torch.sum(a, (3,))") == "?");
  CHECK(inferred("(v, w) = torch.var_mean(a, (2,), keepdim=True, correction=0)") ==
        "bf16[3, 1, 1] bf16[3, 1, 1]");
  CHECK(inferred("t = torch.transpose(a, 0, -1)") == "bf16[4, 1, 3]");
  CHECK(inferred("t = torch.transpose(a, 0, 3)") == "?");
  CHECK(inferred("t = torch.transpose(m, 0, 1)") == "bf16[6, 4]");
  CHECK(inferred("t = torch.permute(m, 0, 1)") == "bf16[4, 6]");
  CHECK(inferred("t = prims.transpose(m, (1, 0))") == "bf16[6, 4]");
  CHECK(inferred("t = prims.slice_prim(m, [0, 1], [4, 6], [2, 2])") == "bf16[2, 3]");
  CHECK(inferred("t = prims.slice_prim(m, [1, 0], [3, 6])") == "bf16[2, 6]");
  CHECK(inferred("t = prims.slice_prim(m, [0], [4])") == "?");
  CHECK(inferred("t = prims.slice_prim(m, [0, 0], [5, 6])") == "?");
  CHECK(inferred("t = prims.slice_prim(m, [2, 0], [1, 6])") == "?");
}

TEST_CASE("Thunder types: gradients of attention, and what a buffer of FSDP is unpacked into") {
  CHECK(inferred("(q, k, v) = "
                 "sdpaex_scaled_dot_product_efficient_attention_backward(a, m, c, i, None)") ==
        "bf16[4, 6] f32[2, 4] i64[2, 6]");
  CHECK(inferred("(p, q) = torch_unpack_for_fsdp_prim_impl(a, [c, i], 2, \"gather\")") ==
        "f32[4, 4] i64[4, 6]");
  CHECK(inferred("(p, q) = torch_unpack_for_fsdp_prim_impl(a, [c, i], 2, \"scatter\")") ==
        "f32[1, 4] i64[1, 6]");
}

TEST_CASE("Thunder graph: a convolution multiplies each output with a filter") {
  const Lowered lowered({head("x, w") +
                         "  # x: \"cuda:0 bf16[2, 3, 32, 32]\"\n"
                         "  # w: \"cuda:0 bf16[8, 3, 4, 4]\"\n"
                         "  t0 = torch.nn.functional.conv2d(x, w, None, (4, 4), (0, 0))  # t0: "
                         "\"cuda:0 bf16[2, 8, 8, 8]\"\n"
                         "  return t0\n"});
  REQUIRE(lowered.graph().ops.size() == 1);
  const Cost& cost = lowered.graph().at(lowered.graph().ops[0].cost);
  CHECK(cost.kind == OpKind::gemm);
  CHECK(cost.n == 8);
  CHECK(cost.k == 3 * 4 * 4);
  CHECK(cost.m == 2 * 8 * 8);
  CHECK(cost.flops == std::int64_t{2} * 2 * 8 * 8 * 8 * 3 * 4 * 4);
}

TEST_CASE("Thunder graph: products and attention without elements are no products") {
  const Lowered lowered(
      {head("x, w, q") +
       "  # x: \"cuda:0 bf16[0, 4]\"\n"
       "  # w: \"cuda:0 bf16[4, 4]\"\n"
       "  # q: \"cuda:0 bf16[1, 0, 4]\"\n"
       "  t0 = torch.matmul(x, w)  # t0: \"cuda:0 bf16[0, 4]\"\n"
       "  t1 = torch.nn.functional.scaled_dot_product_attention(q, q, q)  # t1: \"cuda:0 bf16[1, "
       "0, 4]\"\n"
       "  return t0\n"});
  for (const Op& op : lowered.graph().ops) {
    const Cost& cost = lowered.graph().at(op.cost);
    CHECK(cost.kind == OpKind::elementwise);
    CHECK(cost.m + cost.n + cost.k + cost.batch == 0);
  }
}

TEST_CASE("Thunder graph: a square matrix whose dimensions are exchanged is no longer dense") {
  const auto copies = [](const char* call) {
    const Lowered lowered({head("a") + "  # a: \"cuda:0 f32[8, 8]\"\n  t0 = " + call +
                           "  # t0: \"cuda:0 f32[8, 8]\"\n"
                           "  t1 = torch.Tensor.contiguous(t0)  # t1: \"cuda:0 f32[8, 8]\"\n"
                           "  return t1\n"});
    return lowered.ops_of(OpKind::copy);
  };
  CHECK(copies("torch.transpose(a, 0, 1)") == 1);
  CHECK(copies("torch.transpose(a, -1, -2)") == 1);
  CHECK(copies("torch.permute(a, (1, 0))") == 1);
  CHECK(copies("torch.permute(a, (0, 1))") == 0);
}

TEST_CASE("Thunder graph: a copy_ writes to what it returns, another name is no other tensor") {
  const Lowered lowered({head("a, b") + "  # a: \"cuda:0 f32[8]\"\n"
                                        "  # b: \"cuda:0 f32[8]\"\n"
                                        "  t0 = torch.exp(a)  # t0: \"cuda:0 f32[8]\"\n"
                                        "  t1 = prims.copy_(t0, b)  # t1: \"cuda:0 f32[8]\"\n"
                                        "  t2 = t1\n"
                                        "  _ = torch.exp(t2)  # t9: \"cuda:0 f32[8]\"\n"
                                        "  del t0\n"
                                        "  return t2\n"});
  const Graph& graph = lowered.graph();
  REQUIRE(graph.ops.size() >= 2);
  const auto copy = graph.accesses_of(graph.ops[1]);
  CHECK(graph.ops[1].kind == OpKind::copy);
  REQUIRE(copy.size() == 2);
  CHECK(graph.text(graph.at(graph.at(copy[0].tensor).storage).name) == "t0");
  CHECK(copy[0].mode == Access::read);
  CHECK(graph.text(graph.at(graph.at(copy[1].tensor).storage).name) == "b");
  CHECK(copy[1].mode == Access::write);
  CHECK(lowered.live_peak() == 3 * 32);
}

TEST_CASE("Thunder graph: what two traces of a step do not agree on is said") {
  const auto gathers = [](const char* def, int ranks) {
    return "def " + std::string(def) + ":\n  # a: \"cuda:0 f32[8]\"\n" +
           fmt::format(
               "  p = thunder.distributed.prims.all_gather(a, G_ProcessGroup_3, True)  "
               "# p: \"FUTURE cuda:0 f32[{}]\"\n"
               "  t = thunder.distributed.prims.wait(p)  # t: \"cuda:0 f32[{}]\"\n",
               8 * ranks, 8 * ranks);
  };
  const Lowered ranks({gathers("computation(a)", 4) + "  return a\n",
                       gathers("backward_fn(a)", 2) + "  return a\n"});
  CHECK(ranks.graph().world_size == 4);
  REQUIRE_FALSE(ranks.result.warnings.empty());
  CHECK(ranks.result.warnings.front() ==
        "t.txt: shows 2 ranks where another trace shows 4: 4 it is");
  const std::string forward =
      "def augmented_forward(x):\n  # x: \"cuda:0 f32[64]\"\n"
      "  t1 = torch.sin(x)  # t1: \"cuda:0 f32[64]\"\n"
      "  return {'output': t1}, ((x, t1), ())\n";
  const std::string backward =
      "def backward_fn(saved_for_backward, cotangents):\n  C0, _, = saved_for_backward\n"
      "  g, = cotangents\n  # g: \"cuda:0 f32[64]\"\n  u1, = C0\n"
      "  t3 = torch.mul(g, u1)  # t3: \"cuda:0 f32[64]\"\n  return (t3,)\n";
  const Lowered saved({forward, backward});
  REQUIRE(saved.result.warnings.size() == 1);
  CHECK(saved.result.warnings.front() == "t.txt:5:1: takes 1 values where the forward saved 2");
  const std::string text = head("a") + "  return a\n";
  const auto file = read_thunder(text, "t.txt");
  REQUIRE(file);
  std::vector<std::string> warnings;
  ThunderGraphOptions options;
  options.world_size = 0;
  const auto none = thunder_graph(thunder_parts(*file, "t.txt", warnings), options);
  REQUIRE_FALSE(none);
  CHECK(none.error().message.starts_with("a world of 0 ranks, expected 1 to "));
}
