// Calibration on samples of a machine whose figures are known.
#include "sim/cost/calibrate.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "core/ir/builder.h"
#include "sim/cost/measured.h"
#include "sim/cost/measured_toml.h"
#include "sim/cost/overlay.h"
#include "sim/cost/price.h"

using namespace foregather;
using namespace foregather::sim;
using run::WorkSample;

namespace {

Hardware base() {
  auto hardware = load_hardware("h100_sxm");
  if (!hardware) FAIL(hardware.error().text());
  return *hardware;
}

/// What the samples are of.
Hardware truth() {
  Hardware hardware = base();
  hardware.efficiency.gemm = 0.71;
  hardware.compute.matmul_f32 = 300e12;
  hardware.kernel.gemm_ramp = 4500;
  hardware.kernel.floor = 3100;
  hardware.efficiency.elementwise = 0.62;
  hardware.efficiency.copy = 0.81;
  hardware.efficiency.attention_forward = 0.52;
  hardware.efficiency.attention_backward = 0.37;
  hardware.intra.host_bandwidth = 21e9;
  hardware.intra.efficiency = 0.66;
  hardware.nccl.launch_floor = 24'000;
  return hardware;
}

WorkSample timed(const char* kernel, const Cost& cost, std::uint32_t ranks = 1) {
  static const Hardware machine = truth();
  WorkSample sample;
  sample.kernel = kernel;
  sample.cost = cost;
  sample.has_cost = true;
  sample.ranks = ranks;
  sample.time = std::max<Ns>(static_cast<Ns>(modelled_time(sample, machine) + 0.5), 1);
  sample.total = sample.time;
  return sample;
}

Cost product(DType type, std::int64_t m, std::int64_t n, std::int64_t k) {
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

Cost attention(std::int64_t rows, std::int64_t products) {
  Cost cost;
  cost.kind = OpKind::attention;
  cost.dtype = DType::bf16;
  cost.batch = 64;
  cost.m = cost.n = rows;
  cost.k = 128;
  cost.flops = 2 * products * cost.batch * rows * rows * cost.k;
  cost.bytes_read = 3 * cost.batch * rows * cost.k * 2;
  cost.bytes_written = cost.batch * rows * cost.k * 2;
  return cost;
}

Cost traffic(OpKind kind, Bytes bytes) {
  Cost cost;
  cost.kind = kind;
  cost.dtype = DType::bf16;
  cost.bytes_read = cost.bytes_written = bytes;
  return cost;
}

Cost message(Bytes bytes) {
  Cost cost;
  cost.kind = OpKind::all_gather;
  cost.dtype = DType::bf16;
  cost.message_bytes = bytes;
  return cost;
}

std::vector<WorkSample> samples() {
  std::vector<WorkSample> all;
  for (const std::int64_t m : {512, 1024, 2048, 4096, 8192})
    for (const std::int64_t n : {1024, 4096, 14336}) {
      all.push_back(timed("nvjet", product(DType::bf16, m, n, 4096)));
      all.push_back(timed("sgemm", product(DType::f32, m, n, 2048)));
    }
  for (const std::int64_t rows : {512, 1024, 2048, 3072, 4096, 8192}) {
    all.push_back(timed("flash_fwd", attention(rows, 2)));
    all.push_back(timed("flash_bwd_dq_dk_dv", attention(rows, 5)));
  }
  for (Bytes bytes = 1 << 12; bytes <= 1 << 28; bytes *= 2) {
    all.push_back(timed("add", traffic(OpKind::elementwise, bytes)));
    all.push_back(timed("copy", traffic(OpKind::copy, bytes)));
    all.push_back(timed("upload", traffic(OpKind::host_to_device, bytes)));
    all.push_back(timed("ncclAllGather", message(bytes), 8));
  }
  std::stable_sort(all.begin(), all.end(), run::is_before);
  return all;
}

void check_figures(const Calibration& found, double within) {
  const Hardware right = truth();
  const Hardware& fitted = found.hardware;
  CHECK(fitted.efficiency.gemm == Approx(right.efficiency.gemm).epsilon(within));
  CHECK(fitted.compute.matmul_f32 == Approx(right.compute.matmul_f32).epsilon(within));
  CHECK(fitted.kernel.floor == Approx(right.kernel.floor).epsilon(within));
  CHECK(fitted.efficiency.elementwise == Approx(right.efficiency.elementwise).epsilon(within));
  CHECK(fitted.efficiency.copy == Approx(right.efficiency.copy).epsilon(within));
  CHECK(fitted.efficiency.attention_forward ==
        Approx(right.efficiency.attention_forward).epsilon(within));
  CHECK(fitted.efficiency.attention_backward ==
        Approx(right.efficiency.attention_backward).epsilon(within));
  CHECK(fitted.intra.host_bandwidth == Approx(right.intra.host_bandwidth).epsilon(within));
  CHECK(fitted.intra.efficiency == Approx(right.intra.efficiency).epsilon(within));
}

const Mechanism& mechanism(const Calibration& calibration, std::string_view name) {
  const auto found = std::find_if(calibration.mechanisms.begin(), calibration.mechanisms.end(),
                                  [&](const Mechanism& m) { return m.name == name; });
  REQUIRE(found != calibration.mechanisms.end());
  return *found;
}

Price price_of(const Cost& cost, const Hardware& hardware, std::string& source) {
  GraphBuilder builder;
  builder.cost(cost);
  const Graph graph = std::move(builder).finish();
  const CostTable table = price(graph, hardware, {});
  source = table.sources[table.prices[0].source];
  return table.prices[0];
}

}  // namespace

TEST_CASE("calibrate: figures that made the samples come back within 1 %") {
  const Calibration found = calibrate(samples(), base(), {});
  check_figures(found, 0.01);
  CHECK(found.hardware.kernel.gemm_ramp == Approx(truth().kernel.gemm_ramp).epsilon(0.05));
  CHECK(found.hardware.nccl.launch_floor == Approx(truth().nccl.launch_floor).epsilon(0.05));
  REQUIRE(found.all.priced);
  CHECK(found.all.priced->median < 0.02);
  REQUIRE(found.all.held_out);
  CHECK(found.all.held_out->median < 0.08);
  CHECK(found.all.base->median > 0.1);
  for (const FittedFigure& figure : found.figures) CHECK(figure.base != figure.value);
}

TEST_CASE("calibrate: one bad sample in ten changes the figures by less than 2 %") {
  std::vector<WorkSample> noisy = samples();
  for (std::size_t i = 0; i < noisy.size(); i += 10) noisy[i].time *= i % 20 == 0 ? 10 : 3;
  check_figures(calibrate(noisy, base(), {}), 0.02);
}

TEST_CASE("calibrate: cuDNN's attention is measured and leaves FlashAttention's figures alone") {
  const char* const kForward = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop";
  const char* const kBackward = "cudnn_generated_fort_native_sdpa_sm90_flash_bprop";
  std::vector<WorkSample> all = samples();
  const std::size_t before = all.size();
  for (const std::int64_t rows : {640, 1280, 2560, 3584, 5120, 6144, 7168, 10240}) {
    all.push_back(timed(kForward, attention(rows, 2)));
    all.push_back(timed(kBackward, attention(rows, 5)));
  }
  for (std::size_t i = before; i < all.size(); ++i) all[i].time /= 2;
  std::stable_sort(all.begin(), all.end(), run::is_before);
  const Calibration found = calibrate(all, base(), {});
  check_figures(found, 0.01);
  CHECK(mechanism(found, "attention").priced_shapes == 28);
  std::erase_if(all, [](const WorkSample& sample) { return sample.kernel.starts_with("flash"); });
  const Hardware alone = calibrate(all, base(), {}).hardware;
  CHECK(alone.efficiency.attention_forward == base().efficiency.attention_forward);
  CHECK(alone.efficiency.attention_backward == base().efficiency.attention_backward);
  CHECK(alone.kernel.attention_ramp == base().kernel.attention_ramp);
}

TEST_CASE("calibrate: both types of float8 give one efficiency, and a file that reads back") {
  std::vector<WorkSample> all = samples();
  Hardware machine = base();
  machine.efficiency.gemm_f8 = 0.55;
  for (const DType type : {DType::f8e4m3, DType::f8e5m2})
    for (const std::int64_t m : {1024, 4096, 8192})
      for (const std::int64_t n : {4096, 14336}) {
        WorkSample sample = timed("nvjet_sm90_q", product(type, m, n, 4096));
        machine.kernel.gemm_ramp = truth().kernel.gemm_ramp;
        sample.time = sample.total = static_cast<Ns>(modelled_time(sample, machine));
        all.push_back(sample);
      }
  std::stable_sort(all.begin(), all.end(), run::is_before);
  const Calibration found = calibrate(all, base(), {});
  CHECK(found.hardware.efficiency.gemm_f8 == Approx(0.55).epsilon(0.02));
  const auto loaded = parse_hardware(overlay_text(found, all, "h100_sxm", "x"), "mine.toml");
  if (!loaded) FAIL(loaded.error().text());
}

TEST_CASE("calibrate: too few shapes stay at the base's figures, and say so") {
  std::vector<WorkSample> few{timed("add", traffic(OpKind::elementwise, 1 << 20)),
                              timed("add", traffic(OpKind::elementwise, 1 << 24))};
  WorkSample unknown;
  unknown.kernel = "mystery";
  unknown.cost.kind = OpKind::other;
  unknown.time = 1000;
  few.push_back(unknown);
  const Calibration found = calibrate(few, base(), {});
  CHECK(found.figures.empty());
  CHECK(mechanism(found, "elementwise").stays == "too few shapes");
  CHECK_FALSE(mechanism(found, "other").stays.empty());
  CHECK_FALSE(mechanism(found, "other").priced);
  CHECK(found.hardware.efficiency.elementwise == base().efficiency.elementwise);
}

TEST_CASE("calibrate: a figure of several mechanisms says so, and so do they") {
  std::vector<WorkSample> copies;
  for (Bytes bytes = 1 << 20; bytes <= 1 << 26; bytes *= 2) {
    copies.push_back(timed("up", traffic(OpKind::host_to_device, bytes)));
    if (bytes >= 1 << 25) copies.push_back(timed("down", traffic(OpKind::device_to_host, bytes)));
  }
  std::stable_sort(copies.begin(), copies.end(), run::is_before);
  const Calibration found = calibrate(copies, base(), {});
  REQUIRE(found.figures.size() == 1);
  CHECK(found.figures[0].value == Approx(truth().intra.host_bandwidth).epsilon(0.02));
  CHECK(found.figures[0].from.name == "host_to_device, device_to_host");
  CHECK(found.figures[0].from.priced_shapes == 9);
  CHECK(mechanism(found, "device_to_host").priced_shapes == 2);
  CHECK(mechanism(found, "device_to_host").stays.empty());
  CHECK_THAT(overlay_text(found, copies, "h100_sxm", "x"),
             Catch::Contains("9 distinct shapes of host_to_device, device_to_host of x"));
}

TEST_CASE("calibrate: products that wait for their launch tell no rate") {
  std::vector<WorkSample> small;
  for (const std::int64_t rows : {8, 16, 32}) {
    small.push_back(timed("gemm", product(DType::f32, rows, 1000, 2048)));
    small.back().time = small.back().time * 2 / 3;  // the ramp is shorter than the base's
  }
  const Calibration found = calibrate(small, base(), {});
  CHECK(found.hardware.compute.matmul_f32 <= base().compute.matmul_f32);
}

TEST_CASE("calibrate: a share is held out evenly") {
  const std::vector<WorkSample> all = samples();
  const Calibration quarter = calibrate(all, base(), {0.25});
  CHECK(quarter.all.priced->shapes == all.size() / 4);
  const Calibration half = calibrate(all, base(), {});
  CHECK(half.all.priced->shapes == all.size());
}

TEST_CASE("calibrate: repeats of one shape are never on both sides") {
  // Each kernel has one shape: what is held out is of a kernel that the rest does not have.
  std::vector<WorkSample> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(
        timed(fmt::format("k{:02}", i).c_str(), traffic(OpKind::elementwise, 4096 << (i % 12))));
    all.back().repeats = 50;
  }
  std::stable_sort(all.begin(), all.end(), run::is_before);
  const Calibration found = calibrate(all, base(), {});
  CHECK(found.all.extrapolated == 1);
  CHECK_FALSE(found.all.inside);
}

TEST_CASE("calibrate: the hardware file reads back and prices work between the samples") {
  const std::vector<WorkSample> all = samples();
  Calibration found = calibrate(all, base(), {});
  found.hardware.name = "mine";
  const std::string text = overlay_text(found, all, "h100_sxm", "trace \"x\".json");
  const auto loaded = parse_hardware(text, "mine.toml");
  if (!loaded) FAIL(loaded.error().text());
  CHECK(loaded->efficiency.gemm == found.hardware.efficiency.gemm);
  CHECK(loaded->kernel.floor == found.hardware.kernel.floor);
  CHECK(loaded->name == "mine");
  REQUIRE(loaded->measured);
  CHECK(loaded->measured->rows().size() == all.size());
  CHECK(loaded->residuals.size() == found.residuals.size());

  std::string source;
  const Cost inside = product(DType::bf16, 3000, 4096, 4096);
  const Price before = price_of(inside, base(), source);
  CHECK(source == "roofline gemm bf16 h100_sxm");
  const Price after = price_of(inside, *loaded, source);
  CHECK(source == "calibrated gemm bf16 mine");
  CHECK(after.duration > before.duration);
  WorkSample right = timed("", inside);
  CHECK(static_cast<double>(after.duration) ==
        Approx(static_cast<double>(right.time)).epsilon(0.05));
  // A measured shape has its measured time.
  const Cost known = product(DType::bf16, 4096, 4096, 4096);
  CHECK(static_cast<double>(price_of(known, *loaded, source).duration) ==
        Approx(static_cast<double>(timed("", known).time)).epsilon(0.01));

  price_of(product(DType::bf16, 65536, 65536, 65536), *loaded, source);
  CHECK(source == "calibrated, extrapolated gemm bf16 mine");
  price_of(product(DType::f16, 1024, 1024, 4096), *loaded, source);
  CHECK(source == "calibrated, extrapolated gemm f16 mine");
  price_of(traffic(OpKind::softmax, 1 << 20), *loaded, source);
  CHECK(source == "roofline softmax bf16 mine");
}

TEST_CASE("calibrate: attention has the time of the kernels that the schedule names") {
  const char* const kForward = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop";
  std::vector<WorkSample> all;
  for (const std::int64_t rows : {512, 1024, 2048, 4096, 8192})
    all.push_back(timed(kForward, attention(rows, 2)));
  for (WorkSample& sample : all) sample.time /= 3;
  const std::string text = overlay_text(calibrate(all, base(), {}), all, "h100_sxm", "x");
  const Hardware mine = parse_hardware(text, "mine.toml").value();
  GraphBuilder builder;
  builder.cost(attention(2048, 2));
  const Graph graph = std::move(builder).finish();
  const auto duration = [&](const Hardware& hardware, bool cudnn, bool is_stated) {
    PriceOptions options;
    options.cudnn_attention = cudnn;
    options.attention_is_stated = is_stated;
    return price(graph, hardware, options).prices[0].duration;
  };
  const Ns measured = all[2].time;
  CHECK(duration(mine, true, true) == measured);
  CHECK(duration(mine, false, true) == duration(base(), false, true));
  CHECK(duration(base(), false, true) > 2 * measured);
  // What the framework chooses is what it chose there.
  CHECK(duration(mine, false, false) == measured);
  // The model that is measured against is that of the kernel.
  WorkSample flash = all[2];
  flash.kernel = "flash_fwd";
  CHECK(modelled_time(all[2], base()) * 10 < modelled_time(flash, base()) * 6);
}

TEST_CASE("calibrate: attention that was measured of a kernel without a name is of any") {
  WorkSample row;
  row.cost = attention(2048, 2);
  row.has_cost = true;
  row.time = row.total = 900'000;
  const MeasuredTable table({row}, base());
  for (const bool by_cudnn : {false, true}) {
    WorkSample work = row;
    work.by_cudnn = by_cudnn;
    const auto estimate = table.estimate(work, base());
    REQUIRE(estimate);
    CHECK_FALSE(estimate->is_extrapolated);
    CHECK(estimate->time > 100'000);
  }
}

TEST_CASE("calibrate: the same samples give the same bytes") {
  const std::vector<WorkSample> all = samples();
  CHECK(overlay_text(calibrate(all, base(), {}), all, "h100_sxm", "x") ==
        overlay_text(calibrate(all, base(), {}), all, "h100_sxm", "x"));
}

TEST_CASE("calibrate: names from a trace cannot break the file") {
  std::vector<WorkSample> all = samples();
  for (WorkSample& sample : all) sample.kernel += "\"\n]\\ \x7f\xff";
  const std::string text = overlay_text(calibrate(all, base(), {}), all, "h100_sxm", "a\"\nb");
  const auto loaded = parse_hardware(text, "mine.toml");
  if (!loaded) FAIL(loaded.error().text());
  CHECK(loaded->measured->rows().size() == all.size());
}

TEST_CASE("calibrate: mistakes in measured sections are found at their place") {
  const auto fault = [](const std::string& text) {
    const auto loaded = parse_hardware("base = \"h100_sxm\"\nname = \"x\"\n" + text, "x.toml");
    return loaded ? std::string("no fault") : loaded.error().text();
  };
  const std::string head = "[[measured]]\nkernel = \"k\"\nkind = \"copy\"\ndtype = \"f32\"\n";
  const std::string sourced = head + "source = \"s\"\n";
  CHECK(fault(sourced + "rows = [{ read = 8, ns = 5, priced = true }]\n") == "no fault");
  CHECK(fault(head + "rows = []\n") ==
        "x.toml:3:1: measured work has no source: say where it comes from, source = \"…\"");
  CHECK(fault(sourced) == "x.toml:3:1: measured work has no rows: write rows = [ … ]");
  CHECK(fault(sourced + "rows = [{ read = 8, ns = 5, priced = 1 }]\n") ==
        "x.toml:8:38: 'priced' must be true or false");
  std::vector<WorkSample> samples;
  std::vector<Residual> residuals;
  const Status broken = read_measured("a = 1\n[[measured]\n", "x.toml", samples, residuals);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().text().starts_with("x.toml:2:"));
  CHECK(fault(sourced + "rows = [{ read = 8 }]\n") ==
        "x.toml:8:9: a row needs its time: ns = …, above 0");
  CHECK(fault(sourced + "rows = [{ reads = 8, ns = 5 }]\n")
            .starts_with("x.toml:8:11: unknown key 'reads', did you mean 'read'?"));
  CHECK(fault(sourced + "rows = [{ read = -8, ns = 5 }]\n")
            .starts_with("x.toml:8:18: 'read' must be a whole number"));
  CHECK(fault(sourced + "rows = [{ read = 1.5, ns = 5 }]\n")
            .starts_with("x.toml:8:18: 'read' must be a whole number"));
  CHECK(fault(sourced + "rows = 5\n") ==
        "x.toml:3:1: measured work has no rows: write rows = [ … ]");
  CHECK(fault("measured = 5\n") == "x.toml:3:12: expected tables: write [[measured]]");
  CHECK(fault("[[measured]]\nkind = \"magic\"\ndtype = \"f32\"\nsource = \"s\"\nrows = []\n")
            .starts_with("x.toml:3:1: 'kind' must be one of"));
  CHECK(fault("[[residual]]\nkind = \"gemm\"\nlow = 2\nhigh = 3\nsource = \"s\"\n") ==
        "x.toml:3:1: expected 0.001 <= low <= 1 <= high <= 1000");
}
