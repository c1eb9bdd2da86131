// Gradients that meet at one value.
#include "core/plan/tape_builder.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/plan/build_layers.h"

namespace foregather::plan {

namespace {

// An op whose gradient is a tensor of its own.
ValueIndex doubled(TapeBuilder& t, ValueIndex x, const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(x));
  t.elementwise({x}, {y});
  t.node({y}, [x, name](TapeBuilder& back, TapeBuilder::Gradients g) {
    const ValueIndex dx = back.make("grad by " + name, back.elements(x));
    back.elementwise({*g[0]}, {dx});
    back.give(x, dx);
  });
  return y;
}

}  // namespace

TEST_CASE("a gradient is summed in place unless another value still waits with it") {
  const Train train;
  TapeBuilder t(train, false, "");
  const ValueIndex x = t.input("x", 8, train.compute, true);
  const ValueIndex a = doubled(t, x, "a"), b = doubled(t, x, "b");
  const ValueIndex both = add(t, a, b, "both", {});
  const Tape tape = t.finish(add(t, both, x, "out", {}), true, 0);
  // The gradient of the sum is that of x, of a and of b. b's part comes while a has yet to read it.
  std::vector<std::string> ops;
  const auto names = [&](const std::vector<ValueIndex>& values) {
    std::string all;
    for (const ValueIndex value : values)
      all += (all.empty() ? "" : " ") + (value == tape.output_grad ? "g" : tape.values[value].name);
    return all;
  };
  for (const TapeOp& op : tape.backward)
    ops.push_back(names(op.reads) + " > " + names(op.writes) + " += " + names(op.updates));
  CHECK(ops == std::vector<std::string>{"g > grad by b += ", "g grad by b > grad x += ",
                                        "g > grad by a += ", "grad by a >  += grad x"});
}

}  // namespace foregather::plan
