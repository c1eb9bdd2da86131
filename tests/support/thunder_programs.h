// Programs of lightning-thunder's issue 1337, written as Thunder prints them.
#pragma once

#include <string>

namespace foregather::test {

/// N paths of relu, matmul with itself, relu, matmul onto the carried a; tensors are size × size
/// f32. Depth first: one path after the other.
std::string paths_one_by_one(int paths, int size);
/// Each of the four stages for all paths before the next, one op at a time.
std::string paths_stage_by_stage(int paths, int size);
/// The relus of all paths in one region each: horizontal fusion.
std::string paths_horizontal(int paths, int size);
/// One path after the other, but all results of the second relu are there before a is carried on.
std::string paths_relus_first(int paths, int size);

}  // namespace foregather::test
