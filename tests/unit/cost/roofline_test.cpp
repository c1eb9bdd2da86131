#include "sim/cost/roofline.h"

#include <catch2/catch.hpp>

#include "sim/cost/gemm.h"

using namespace foregather;
using namespace foregather::sim;

namespace {

Cost gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType type = DType::bf16) {
  Cost cost;
  cost.kind = OpKind::gemm;
  cost.dtype = type;
  cost.m = m;
  cost.n = n;
  cost.k = k;
  cost.batch = 1;
  cost.flops = 2 * m * n * k;
  cost.bytes_read = (m * k + k * n) * size_of(type);
  cost.bytes_written = m * n * size_of(type);
  return cost;
}

Cost attention(std::int64_t batch, std::int64_t length, std::int64_t flops_per_triple) {
  Cost cost;
  cost.kind = OpKind::attention;
  cost.dtype = DType::bf16;
  cost.batch = batch;
  cost.m = cost.n = length;
  cost.k = 128;
  cost.flops = flops_per_triple * batch * length * length * 128;
  cost.bytes_read = 3 * batch * length * 128 * 2;
  cost.bytes_written = batch * length * 128 * 2;
  return cost;
}

Cost stream(OpKind kind, Bytes bytes) {
  Cost cost;
  cost.kind = kind;
  cost.bytes_read = bytes / 2;
  cost.bytes_written = bytes - bytes / 2;
  return cost;
}

double rate(const Cost& cost, const Hardware& hw) {
  return static_cast<double>(cost.flops) / gemm_work(cost, hw).time / 1000;  // TFLOP/s
}

}  // namespace

TEST_CASE("large matrix products run at the published achievable rates") {
  // ml-engineering's table, boost clock: 794.5 and 271.2 TFLOP/s at these shapes.
  Hardware h100 = load_hardware("h100_sxm").value();
  Hardware a100 = load_hardware("a100_80_sxm").value();
  h100.compute.sustained_clock = a100.compute.sustained_clock = 1;
  CHECK(rate(gemm(2048, 2048, 13312), h100) == Approx(794.5).epsilon(0.04));
  CHECK(rate(gemm(1024, 10240, 5120), a100) == Approx(271.2).epsilon(0.04));
}

TEST_CASE("a matrix product never gets faster as it grows") {
  for (const char* name : {"h100_sxm", "a100_80_sxm", "v100_sxm"}) {
    const Hardware hw = load_hardware(name).value();
    for (int axis = 0; axis < 3; ++axis) {
      double before = 0;
      for (std::int64_t size = 8; size < 20000; size += 8 + size / 56 * 8) {
        const Cost cost = axis == 0   ? gemm(size, 1500, 700, DType::f16)
                          : axis == 1 ? gemm(900, size, 3000, DType::f16)
                                      : gemm(333, 444, size, DType::f16);
        const double time = gemm_work(cost, hw).time;
        INFO(name << " axis " << axis << " size " << size);
        REQUIRE(time >= before);
        before = time;
      }
    }
  }
}

TEST_CASE("rows that do not begin at 16 bytes make a product of 16-bit numbers slow") {
  // traces/measured/h200_products.csv: 8,192 tokens, 4,096 inputs.
  const Hardware hw = load_hardware("h200_sxm").value();
  const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k, DType type) {
    return gemm_work(gemm(m, n, k, type), hw).time;
  };
  const double aligned = time(8192, 50264, 4096, DType::bf16);
  CHECK(time(8192, 50257, 4096, DType::bf16) / aligned == Approx(31057.0 / 4390).epsilon(0.25));
  CHECK(time(8192, 50258, 4096, DType::bf16) / aligned == Approx(11744.0 / 4390).epsilon(0.1));
  CHECK(time(8192, 4096, 50257, DType::bf16) / aligned == Approx(24102.0 / 4954).epsilon(0.2));
  CHECK(time(8191, 50264, 4096, DType::bf16) <= aligned);
  CHECK(time(8192, 50257, 4096, DType::f32) ==
        Approx(time(8192, 50264, 4096, DType::f32)).epsilon(0.01));
  // Where nothing loads by TMA, odd rows are no worse than even ones.
  for (const char* name : {"rtx_3090", "a100_80_sxm", "rtx_5090"}) {
    const Hardware other = load_hardware(name).value();
    const double whole = gemm_work(gemm(8192, 50264, 4096, DType::bf16), other).time;
    for (const std::int64_t n : {50257, 50258})
      CHECK(gemm_work(gemm(8192, n, 4096, DType::bf16), other).time / whole ==
            Approx(2.2).epsilon(0.05));
  }
}

TEST_CASE("bf16 where nothing multiplies it runs as fp32 does, whatever its rows begin at") {
  for (const char* name : {"v100_sxm", "t4"}) {
    const Hardware hw = load_hardware(name).value();
    REQUIRE(hw.compute.matmul_bf16 == 0);
    const auto time = [&](std::int64_t n, DType type) {
      return gemm_work(gemm(2048, n, 768, type), hw).time;
    };
    CHECK(time(50257, DType::bf16) == Approx(time(50257, DType::f32)).epsilon(1e-9));
    CHECK(time(50257, DType::f16) > 2 * time(50264, DType::f16));
  }
}

TEST_CASE("what computes in doubles takes its bytes' time and that of its operations") {
  // traces/measured/h200_float8_kernels.csv, triton_poi…_17 and …_26 of the rowwise case: gradients
  // of 14,336 × 4,096 and 4,096 × 4,096 weights times both of their scales.
  const Hardware hw = load_hardware("h200_sxm").value();
  const auto time = [&](std::int64_t values, const Hardware& machine) {
    Cost cost;
    cost.kind = OpKind::fused;
    cost.dtype = DType::f64;
    cost.bytes_read = cost.bytes_written = 2 * values;
    cost.flops = 2 * 11 * values;
    return memory_work(cost, machine).time;
  };
  CHECK(time(14'336 * 4'096, hw) == Approx(323'200).epsilon(0.05));
  CHECK(time(4'096 * 4'096, hw) == Approx(94'200).epsilon(0.05));
  // Where units for doubles are few, they are what it waits for: those of a B300 do two
  // instructions in a cycle, on 148 SMs at 1.9 GHz. GeForce boards have a 64th of the rate of fp32.
  CHECK(time(4'096 * 4'096, load_hardware("b300_sxm").value()) ==
        Approx(2 * 11 * 4'096 * 4'096 / (148 * 2 * 1.9)).epsilon(0.25));
  CHECK(time(4'096 * 4'096, load_hardware("rtx_4090").value()) > 400'000);
  Hardware unknown = hw;
  unknown.compute.vector_f64 = 0;
  CHECK(time(4'096 * 4'096, unknown) < 20'000);
}

TEST_CASE("what finds its elements one by one is bound by that, not by memory") {
  // Published H100 trace (Qwen1.5-0.5B, batches of 16): products of bf16 heads with broadcast
  // tables, turned or not; a copy that transposes; an fp32 product with a factor a row; a cast into
  // fp32.
  const Hardware hw = load_hardware("h100_sxm").value();
  const auto time = [&](OpKind kind, std::int64_t values, std::int64_t read, std::int64_t written,
                        std::int64_t places) {
    Cost cost;
    cost.kind = kind;
    cost.bytes_read = read * values;
    cost.bytes_written = written * values;
    cost.m = places;
    return memory_work(cost, hw).time;
  };
  constexpr std::int64_t kValues = 16 * 559 * 1024;
  CHECK(time(OpKind::elementwise, kValues, 2, 2, kValues) == Approx(28'000).epsilon(0.25));
  CHECK(time(OpKind::copy, kValues, 2, 2, kValues) == Approx(29'300).epsilon(0.25));
  CHECK(time(OpKind::elementwise, kValues, 4, 4, kValues) == Approx(32'800).epsilon(0.25));
  CHECK(time(OpKind::cast, kValues, 2, 4, kValues) == Approx(29'200).epsilon(0.25));
  // A sum of vectors.
  CHECK(time(OpKind::elementwise, kValues, 4, 2, 0) == Approx(17'800).epsilon(0.25));
  // Bytes that take longer than places.
  CHECK(time(OpKind::elementwise, kValues, 32, 32, kValues) ==
        time(OpKind::elementwise, kValues, 32, 32, 0));
}

TEST_CASE("a copy into chunks that widens is bound by its kernel, another by memory") {
  // traces/measured/h200_selective.json.gz: chunk_cat of a block's and of the root's gradients.
  const auto time = [](std::int64_t values, std::int64_t read, std::int64_t written,
                       const char* machine, std::int64_t chunks = 8) {
    Cost cost;
    cost.kind = OpKind::copy;
    cost.bytes_read = read * values;
    cost.bytes_written = written * values;
    cost.batch = chunks;
    return memory_work(cost, load_hardware(machine).value()).time;
  };
  CHECK(time(218'112'000, 2, 4, "h200_sxm") == Approx(662'000).epsilon(0.03));
  CHECK(time(1'050'677'248, 2, 4, "h200_sxm") == Approx(3'191'000).epsilon(0.03));
  CHECK(time(218'112'000, 2, 4, "h200_sxm", 0) < 320'000);
  // pytorch pull request 120678: billions of elements a second.
  const auto rate = [&](std::int64_t read, std::int64_t written) {
    return 1e9 / time(1'000'000'000, read, written, "h100_96_500w");
  };
  CHECK(rate(2, 4) == Approx(278).epsilon(0.02));
  CHECK(rate(2, 2) == Approx(500).epsilon(0.06));
  CHECK(rate(4, 4) == Approx(260).epsilon(0.02));
}

TEST_CASE("cuDNN's attention takes what was measured, FlashAttention-2 longer") {
  // traces/measured/h200_attention.csv: 2 × 32 heads of 128, causal, 8,192 tokens. Alone, the GPU
  // runs above the clock of training.
  const Hardware hw = load_hardware("h200_sxm").value();
  Cost forward;
  forward.kind = OpKind::attention;
  forward.dtype = DType::bf16;
  forward.batch = 64;
  forward.m = forward.n = 8192;
  forward.k = 128;
  forward.flops = 2 * forward.batch * forward.m * forward.n * forward.k;
  Cost backward = forward;
  backward.flops = forward.flops / 2 * 5;
  const double clock = hw.compute.sustained_clock;
  const auto cudnn = AttentionKernels::cudnn;
  CHECK(attention_work(forward, hw, cudnn).time * clock == Approx(1'764'290).epsilon(0.06));
  CHECK(attention_work(backward, hw, cudnn).time * clock == Approx(5'601'250).epsilon(0.06));
  CHECK(attention_work(forward, hw).time * clock == Approx(3'358'720).epsilon(0.06));
  CHECK(attention_work(backward, hw).time * clock == Approx(9'787'940).epsilon(0.06));
}

TEST_CASE("attention of small heads runs at a lower rate") {
  // traces/measured/h200_attention.csv: 4 × 32 heads, causal, 4,096 tokens, of 64 against 128.
  const Hardware hw = load_hardware("h200_sxm").value();
  const auto rate = [&](std::int64_t size, bool backward, AttentionKernels kernels) {
    Cost cost;
    cost.kind = OpKind::attention;
    cost.dtype = DType::bf16;
    cost.batch = 128;
    cost.m = cost.n = 4096;
    cost.k = size;
    cost.flops = (backward ? 5 : 2) * cost.batch * cost.m * cost.n * cost.k;
    return static_cast<double>(cost.flops) / attention_work(cost, hw, kernels).time;
  };
  const auto ratio = [&](std::int64_t size, bool backward, AttentionKernels kernels) {
    return rate(size, backward, kernels) / rate(128, backward, kernels);
  };
  const auto cudnn = AttentionKernels::cudnn;
  const auto flash = AttentionKernels::flash;
  CHECK(ratio(64, false, flash) == Approx(1750.43 / 2 / 1047.68).epsilon(0.07));
  CHECK(ratio(64, true, flash) == Approx(5454.08 / 2 / 3139.49).epsilon(0.05));
  CHECK(ratio(64, false, cudnn) == Approx(941.66 / 2 / 663.2).epsilon(0.05));
  CHECK(ratio(64, true, cudnn) == Approx(2909.98 / 2 / 1981.18).epsilon(0.08));
  CHECK(ratio(96, false, cudnn) == Approx(0.85).epsilon(0.02));
  CHECK(ratio(32, true, flash) == Approx(ratio(64, true, flash)).epsilon(0.02));
  CHECK(ratio(256, true, cudnn) == Approx(1).epsilon(0.02));
}

TEST_CASE("one tile more than a wave costs a wave more") {
  const Hardware hw = load_hardware("h100_sxm").value();
  const double full = gemm_work(gemm(256 * 12, 128 * 11, 8192), hw).time;
  const double over = gemm_work(gemm(256 * 12 + 1, 128 * 11, 8192), hw).time;
  CHECK(over > 1.15 * full);
}

TEST_CASE("a thin product is bound by the bytes of its weights") {
  const Hardware hw = load_hardware("h100_sxm").value();
  const Cost cost = gemm(1, 8192, 8192);
  const double bytes_time = 8192.0 * 8192 * 2 / 3350;
  CHECK(gemm_work(cost, hw).time > bytes_time);
  CHECK(gemm_work(cost, hw).time < 2 * bytes_time);
}

TEST_CASE("types without a unit run on the next wider one") {
  const Hardware v100 = load_hardware("v100_sxm").value();
  CHECK(matmul_rate(v100, DType::bf16) == matmul_rate(v100, DType::f32));
  CHECK(matmul_rate(v100, DType::f8e4m3) == matmul_rate(v100, DType::f16));
  const Hardware h100 = load_hardware("h100_sxm").value();
  CHECK(matmul_rate(h100, DType::f8e4m3) > 1.9 * matmul_rate(h100, DType::bf16));
  CHECK(matmul_rate(h100, DType::f8e5m2) == matmul_rate(h100, DType::f8e4m3));
  CHECK(h100.compute.matmul_f64 == Approx(66.9e12));
  CHECK(matmul_rate(h100, DType::f64) == h100.compute.matmul_f64 * h100.compute.sustained_clock);
}

TEST_CASE("a product without a shape counts its operations") {
  const Hardware hw = load_hardware("h100_sxm").value();
  Cost cost;
  cost.kind = OpKind::gemm;
  cost.dtype = DType::bf16;
  cost.flops = 1'000'000'000'000;
  CHECK(gemm_work(cost, hw).time == Approx(1e9 / (989.4 * 0.84 * 0.83) + 3000).epsilon(1e-3));
}

TEST_CASE("flash attention forward follows its published curve") {
  // FlashAttention-3 paper, H100, FlashAttention-2, causal, head dimension 128, 16k tokens.
  Hardware hw = load_hardware("h100_sxm").value();
  hw.compute.sustained_clock = 1;
  const std::pair<std::int64_t, double> points[] = {{512, 191},  {1024, 260}, {2048, 298},
                                                    {4096, 319}, {8192, 333}, {16384, 335}};
  for (const auto& [length, published] : points) {
    const Cost cost = attention(16 * 16384 / length, length, 2);
    const double achieved = static_cast<double>(cost.flops) / attention_work(cost, hw).time / 1000;
    INFO(length);
    CHECK(achieved == Approx(published).epsilon(0.09));
  }
}

TEST_CASE("attention backward is slower a FLOP, and time grows with length") {
  const Hardware hw = load_hardware("h100_sxm").value();
  const double forward = attention_work(attention(32, 4096, 2), hw).time;
  CHECK(attention_work(attention(32, 4096, 5), hw).time > 2.5 * forward);
  double before = 0;
  for (std::int64_t length = 16; length < 70000; length += 1 + length / 5) {
    const double time = attention_work(attention(32, length, 2), hw).time;
    REQUIRE(time >= before);
    before = time;
  }
}

TEST_CASE("memory-bound work takes its bytes, and at least its kernels") {
  const Hardware hw = load_hardware("h100_sxm").value();
  CHECK(memory_work(stream(OpKind::elementwise, 0), hw).time == Approx(2200));
  const Work large = memory_work(stream(OpKind::elementwise, 3'350'000'000), hw);
  CHECK(large.time == Approx(1e6 / 0.87 + 2200));
  CHECK(large.share[static_cast<std::size_t>(Resource::hbm)] == Approx(0.87).epsilon(0.01));
  Cost many = stream(OpKind::optimizer, 1000);
  many.kernels = 60;
  CHECK(memory_work(many, hw).time == Approx(60 * 2200).epsilon(0.01));
  CHECK(memory_work(stream(OpKind::embedding, 1'000'000), hw).time >
        memory_work(stream(OpKind::copy, 1'000'000), hw).time);
}

TEST_CASE("host copies take the bytes of one side") {
  const Hardware hw = load_hardware("h100_sxm").value();
  Cost cost;
  cost.kind = OpKind::host_to_device;
  cost.bytes_read = cost.bytes_written = 52'000'000;
  CHECK(host_copy_work(cost, hw).time == Approx(1e6 + 2200));
}
