// How often a test tries what it tries at random.
#pragma once

namespace foregather::test {

/// `count`, but a quarter of it under sanitizers, where all takes ten times as long and one path
/// through the code is as good as many. Tests of RapidCheck have RC_PARAMS in CMakePresets.json.
constexpr int repetitions(int count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (count + 3) / 4;
#else
  return count;
#endif
}

}  // namespace foregather::test
