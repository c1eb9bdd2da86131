// How often a test tries what it tries at random.
#pragma once

namespace foregather::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// `count`, but a quarter of it under sanitizers, where all takes ten times as long and one path
/// through the code is as good as many. Tests of RapidCheck have RC_PARAMS in CMakePresets.json.
constexpr int repetitions(int count) { return kSanitized ? (count + 3) / 4 : count; }

}  // namespace foregather::test
