// Choices for workloads that RapidCheck makes up.
#pragma once

#include <rapidcheck.h>

#include <initializer_list>
#include <vector>

#include "tests/unit/plan/toy_model.h"

namespace foregather::test {

template <class Value>
Value any(std::initializer_list<Value> values) {
  return *rc::gen::elementOf(std::vector<Value>(values));
}

inline bool flag() { return *rc::gen::arbitrary<bool>(); }

inline ToyShape any_shape() {
  ToyShape shape;
  shape.hidden = any({64, 66});
  shape.vocab = any({160, 163});
  shape.layers = any({1U, 2U, 3U, 4U, 5U});
  shape.tied = flag();
  return shape;
}

}  // namespace foregather::test
