// What recordings say of the time that work takes.
#include "core/rebuild/work_samples.h"

#include <algorithm>
#include <limits>
#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/rebuild/measured_run.h"
#include "core/rebuild/run_recording.h"

using namespace foregather;
using namespace foregather::test;

namespace {

/// One thread that launches kernels inside operators.
struct Profile {
  RecordingWriter write;
  run::LaneRow thread = write.lane("1", "1"), stream = write.lane("0", "7");
  Ns time = 0;
  std::uint32_t correlation = 0;

  void op(const char* name, const char* shapes, const char* types,
          std::initializer_list<std::pair<const char*, Ns>> kernels, std::int64_t threads = 1024) {
    const Ns begin = time;
    for (const auto& [kernel, length] : kernels) {
      write.call(thread, "cudaLaunchKernel", time + 1, time + 2, correlation);
      write.kernel(stream, kernel, time + 3, time + 3 + length, correlation++);
      write.recording.activities.threads.back() = threads;
      time += 10 + length;
    }
    write.range(thread, name, begin, time);
    run::RangeColumns& rows = write.recording.ranges;
    rows.kind.back() = run::RangeKind::op;
    rows.shapes.back() = write.recording.strings.intern(shapes);
    rows.types.back() = write.recording.strings.intern(types);
    time += 1;
  }
  rebuild::WorkSamples samples() const {
    const run::Recording* const one = &write.recording;
    return rebuild::work_samples(std::span(&one, 1));
  }
};

constexpr const char* kHalves = R"(["c10::Half", "c10::Half"])";
constexpr const char* kFloats = R"(["float", "float", "Scalar"])";

}  // namespace

TEST_CASE("work samples: a product has m, n, k and the median of its repeats") {
  Profile profile;
  for (const Ns length : {100, 300, 110})
    profile.op("aten::mm", "[[8, 16], [16, 32]]", kHalves, {{"some_gemm", length}});
  const auto samples = profile.samples();
  CHECK(samples.activities == 3);
  CHECK(samples.with_shapes == 3);
  REQUIRE(samples.rows.size() == 1);
  const run::WorkSample& row = samples.rows[0];
  CHECK(row.has_cost);
  CHECK(row.repeats == 3);
  CHECK(row.time == 110 * kMicrosecond);
  CHECK(row.total == 510 * kMicrosecond);
  CHECK(row.cost.kind == OpKind::gemm);
  CHECK(row.cost.dtype == DType::f16);
  CHECK(row.cost.m == 8);
  CHECK(row.cost.n == 32);
  CHECK(row.cost.k == 16);
  CHECK(row.cost.batch == 1);
  CHECK(row.cost.flops == 2 * 8 * 16 * 32);
  CHECK(row.cost.bytes_read == 2 * (8 * 16 + 16 * 32));
  CHECK(row.cost.bytes_written == 2 * 8 * 32);
}

TEST_CASE("work samples: rows of a run say of kernels what the recording does") {
  Profile profile;
  profile.op("aten::mm", "[[8, 16], [16, 32]]", kHalves, {{"some_gemm", 100}});
  profile.op("aten::add", "[[64], [64], []]", kFloats, {{"first_add", 5}, {"second_add", 7}}, 64);
  profile.op("aten::add", "[[32], [32], []]", kFloats, {{"first_add", 5}}, 0);
  const run::Recording* const one = &profile.write.recording;
  const auto measured = rebuild::measured_run(std::span(&one, 1), std::nullopt);
  REQUIRE(measured.has_value());
  const run::Recording again = rebuild::recording_of(measured->run, run::ClassRow(0), std::nullopt);
  const run::Recording* const other = &again;
  const auto expected = profile.samples(), samples = rebuild::work_samples(std::span(&other, 1));
  CHECK(samples.with_shapes == 4);
  REQUIRE(samples.rows.size() == expected.rows.size());
  for (std::size_t i = 0; i < expected.rows.size(); ++i) {
    CHECK(samples.rows[i].kernel == expected.rows[i].kernel);
    CHECK(samples.rows[i].cost == expected.rows[i].cost);
    CHECK(samples.rows[i].has_cost == expected.rows[i].has_cost);
    CHECK(samples.rows[i].threads == expected.rows[i].threads);
  }
}

TEST_CASE("work samples: a batch of products, with something added") {
  Profile profile;
  profile.op("aten::baddbmm", "[[4, 8, 32], [4, 8, 16], [4, 16, 32]]",
             R"(["float", "float", "float"])", {{"some_gemm", 10}});
  const auto samples = profile.samples();
  REQUIRE(samples.rows.size() == 1);
  CHECK(samples.rows[0].cost.batch == 4);
  CHECK(samples.rows[0].cost.flops == 2 * 4 * 8 * 16 * 32);
}

TEST_CASE("work samples: an output among the arguments is no factor, and says its type") {
  Profile profile;
  profile.op("aten::mm", "[[8, 16], [16, 32], [8, 32]]",
             R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])", {{"nvjet_sm90_tst", 1}});
  profile.op("aten::addmm", "[[32], [8, 16], [16, 32], [], [], [8, 32]]",
             R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar", "float"])",
             {{"nvjet_sm90_tst", 1}});
  const auto rows = profile.samples().rows;
  REQUIRE(rows.size() == 2);
  Bytes written = 0;
  for (const run::WorkSample& row : rows) {
    CHECK(row.has_cost);
    CHECK(row.cost.dtype == DType::bf16);
    CHECK(row.cost.m == 8);
    CHECK(row.cost.n == 32);
    CHECK(row.cost.k == 16);
    CHECK(row.cost.bytes_read == 2 * (8 * 16 + 16 * 32));
    written += row.cost.bytes_written;
  }
  CHECK(written == (2 + 4) * 8 * 32);
}

TEST_CASE("work samples: float8 products beside their scales, with and without an output") {
  Profile profile;
  profile.op("aten::_scaled_mm", "[[8, 16], [16, 32], [8, 1], [1, 32], [], [], [], []]",
             R"(["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float", "", "", "Scalar",
                 "Scalar"])",
             {{"nvjet_sm90_qqtst_128x128", 1}});
  profile.op("aten::_scaled_mm", "[[8, 16], [16, 32], [], [], [], [], [], [], [8, 32]]",
             R"(["c10::Float8_e5m2", "c10::Float8_e4m3fn", "float", "float", "", "", "Scalar",
                 "Scalar", "c10::BFloat16"])",
             {{"nvjet_sm90_qrtst_128x128", 1}});
  const auto rows = profile.samples().rows;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].cost.dtype == DType::f8e4m3);
  CHECK(rows[1].cost.dtype == DType::f8e5m2);
  for (const run::WorkSample& row : rows) {
    CHECK(row.has_cost);
    CHECK(row.cost.flops == 2 * 8 * 16 * 32);
    CHECK(row.cost.bytes_read == 8 * 16 + 16 * 32);
    CHECK(row.cost.bytes_written == 2 * 8 * 32);
  }
}

TEST_CASE("work samples: the names of cuBLAS's products say the types where nothing else does") {
  const auto type_of = [](const char* kernel) {
    Profile profile;
    profile.write.kernel(profile.stream, kernel, 0, 10);
    return profile.samples().rows.at(0).cost.dtype;
  };
  CHECK(type_of("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_TNT") == DType::bf16);
  CHECK(type_of("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT") == DType::f16);
  CHECK(type_of("nvjet_sm90_qqtst_320x128_128x3_1x2_h_bz_coopB_TNT") == DType::f8e4m3);
  CHECK(type_of("nvjet_sm90_qrtst_128x160_128x5_2x1_v_bz_coopA_algo2_TNT") == DType::f8e5m2);
  CHECK(type_of("ampere_sgemm_128x64_nn") == DType::f32);
}

TEST_CASE("work samples: attention by the sizes and the mask of its operator") {
  for (const bool is_causal : {true, false}) {
    Profile profile;
    profile.op("aten::_flash_attention_forward", "[[2, 64, 8, 16], [2, 64, 4, 16], [2, 64, 4, 16]]",
               R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])", {{"flash_fwd_kernel", 9}});
    run::Recording& recording = profile.write.recording;
    recording.ranges.values.back() = recording.strings.intern(
        is_causal ? R"(["", "0.", "True", "False"])" : R"(["", "0.", "False", "False"])");
    const auto rows = profile.samples().rows;
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].has_cost);
    CHECK(rows[0].cost.batch == 16);
    CHECK(rows[0].cost.m == 64);
    CHECK(rows[0].cost.n == 64);
    CHECK(rows[0].cost.k == 16);
    CHECK(rows[0].cost.flops == (is_causal ? 2 : 4) * 16 * 64 * 64 * 16);
    CHECK(rows[0].cost.bytes_written == 2 * 2 * 64 * 8 * 16);
  }
}

TEST_CASE("work samples: cuDNN's attention has heads before rows and a flag before its mask") {
  for (const bool is_causal : {true, false}) {
    Profile profile;
    run::Recording& recording = profile.write.recording;
    const auto say = [&](const char* causal, const char* others) {
      recording.ranges.values.back() = recording.strings.intern(others);
      if (is_causal) recording.ranges.values.back() = recording.strings.intern(causal);
    };
    profile.op("aten::_cudnn_attention_forward", "[[2, 8, 64, 16], [2, 4, 32, 16], [2, 4, 32, 16]]",
               R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])",
               {{"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", 9}});
    say(R"(["", "64", "True", "0.", "True", "False"])",
        R"(["", "64", "True", "0.", "False", "False"])");
    profile.op("aten::_cudnn_attention_backward",
               "[[2, 8, 64, 16], [2, 8, 64, 16], [2, 4, 32, 16], [2, 4, 32, 16], [2, 8, 64, 16]]",
               R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "c10::BFloat16",
                   "c10::BFloat16"])",
               {{"void cudnn::fusion::compute_dot_do_o_specialized<true, 16>", 2},
                {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16", 20},
                {"void cudnn::fusion::convert_dq_to_16bits<true>", 2}});
    say(R"(["", "64", "0.", "True"])", R"(["", "64", "0.", "False"])");
    int products = 0;
    for (const run::WorkSample& row : profile.samples().rows) {
      CAPTURE(row.kernel);
      CHECK(row.cost.kind == OpKind::attention);
      const bool is_forward = row.kernel.find("fprop") != std::string::npos;
      const bool is_helper = row.kernel.find("fusion") != std::string::npos;
      CHECK(row.has_cost != is_helper);
      if (is_helper) continue;
      ++products;
      CHECK(row.cost.dtype == DType::bf16);
      CHECK(row.cost.batch == 16);
      CHECK(row.cost.m == 64);
      CHECK(row.cost.n == 32);
      CHECK(row.cost.k == 16);
      CHECK(row.cost.flops == (is_forward ? 4 : 10) * 16 * 64 * 32 * 16 / (is_causal ? 2 : 1));
    }
    CHECK(products == 2);
  }
}

TEST_CASE("work samples: what operators of one kernel read and write") {
  Profile profile;
  profile.op("aten::add", "[[100], [100], []]", kFloats, {{"elementwise_add", 1}});
  profile.op("aten::add_", "[[101], [101], []]", kFloats, {{"elementwise_add", 1}});
  profile.op("aten::copy_", "[[102], [102], []]", R"(["float", "c10::Half", "Scalar"])",
             {{"direct_copy", 1}});
  profile.op("aten::sum", "[[103], [], []]", R"(["float", "", ""])", {{"reduce_kernel", 1}});
  profile.op("aten::layer_norm", "[[104], [], []]", kFloats,
             {{"elementwise_a", 1}, {"elementwise_b", 1}});
  const auto rows = profile.samples().rows;
  REQUIRE(rows.size() == 6);
  CHECK(std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.has_cost; }) == 4);
  for (const run::WorkSample& row : rows) {
    if (!row.has_cost) continue;
    CAPTURE(row.kernel, name(row.cost.kind));
    if (row.cost.kind == OpKind::reduction) {
      CHECK(row.cost.bytes_read == 412);
      CHECK(row.cost.bytes_written == 0);
    } else if (row.cost.kind == OpKind::cast) {
      CHECK(row.cost.bytes_read == 204);
      CHECK(row.cost.bytes_written == 408);
    } else {
      CHECK(row.cost.bytes_read == 2 * row.cost.bytes_written);
    }
  }
}

TEST_CASE("work samples: a grid is a shape where nothing else is known") {
  Profile profile;
  run::LaneRow stream = profile.stream;
  for (const Ns threads : {256, 512, 512}) {
    profile.write.kernel(stream, "mine", profile.time, profile.time + threads);
    profile.write.recording.activities.threads.back() = threads;
    profile.time += 1000;
  }
  profile.write.kernel(stream, "mine", profile.time, profile.time);
  const auto samples = profile.samples();
  CHECK(samples.empty == 1);
  REQUIRE(samples.rows.size() == 2);
  CHECK(samples.rows[0].threads == 256);
  CHECK(samples.rows[1].repeats == 2);
  CHECK_FALSE(samples.rows[0].has_cost);
}

TEST_CASE("work samples: the least time of a collective is its own") {
  Profile profile;
  for (const Ns length : {500, 20, 90}) {
    profile.write.kernel(profile.stream, "ncclDevKernel_AllReduce", profile.time,
                         profile.time + length);
    profile.write.describe(profile.write.recording.activities.size() - 1, "g", 8, profile.time, 64);
    profile.time += 1000;
  }
  const auto rows = profile.samples().rows;
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].time == 20 * kMicrosecond);
  CHECK(rows[0].cost.message_bytes == 256);
  CHECK(rows[0].ranks == 8);
  CHECK(rows[0].has_cost);
}

TEST_CASE("work samples: of what a run says of a kernel, not which elements it finds one by one") {
  Profile profile;
  profile.write.kernel(profile.stream, "mine", 0, 10);
  Cost strided;
  strided.kind = OpKind::elementwise;
  strided.bytes_read = strided.bytes_written = 4096;
  strided.m = 1024;
  run::Recording& recording = profile.write.recording;
  recording.known.works.push_back({recording.strings.intern("mine"), strided});
  const auto rows = profile.samples().rows;
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].has_cost);
  CHECK(rows[0].cost.m == 0);  // as predictions ask for it
  CHECK(rows[0].cost.bytes_read == 4096);
}

TEST_CASE("work samples: sizes and times that have no room are no products and no overflow") {
  Profile profile;
  profile.op("aten::mm", "[[1125899906842624, 0], [0, 1125899906842624]]", kHalves,
             {{"some_gemm", 1}});
  profile.op("aten::mm", "[[33554432, 33554432], [33554432, 33554432]]", kHalves,
             {{"some_gemm", 2}});
  for (int i = 0; i < 3; ++i) profile.write.kernel(profile.stream, "long", 0, Ns{1} << 51);
  const auto samples = profile.samples();
  for (const run::WorkSample& row : samples.rows) CHECK_FALSE(row.has_cost);
  CHECK(run::sum_of_times(std::numeric_limits<Ns>::max(), 5) == std::numeric_limits<Ns>::max());
}
