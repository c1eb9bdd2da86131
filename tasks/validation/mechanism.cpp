#include "tasks/validation/mechanism.h"

#include <array>
#include <cmath>

#include "tasks/validation/row_script.h"

namespace foregather::tasks {
namespace {

constexpr double kMuch = 0.05;         // of the step, or of the device's memory
constexpr std::int64_t kShort = 4096;  // tokens of a micro-batch

struct Situation {
  const MeasuredRow& row;
  const RowPrediction& prediction;
  bool is_time;  ///< the larger error is that of the time
  bool is_low;   ///< the prediction is too low

  bool several_nodes() const { return row.nodes.value_or(1) > 1; }
  std::int64_t tokens() const { return row.micro_batch.value_or(1) * row.seq_len.value_or(1); }
  bool is_nearly_full() const {
    const auto room = static_cast<double>(prediction.capacity - prediction.outside);
    return static_cast<double>(prediction.reserved) > (1 - 2 * kMuch) * room;
  }
};

/// A mechanism and where it applies; the first that does is named.
struct Mechanism {
  bool (*applies)(const Situation&);
  std::string_view words;
};

constexpr std::array kMechanisms{
    Mechanism{[](const Situation& s) {
                return s.is_time && s.is_low && s.several_nodes() && s.row.fabric == "unknown" &&
                       !s.row.fabric_gbps && s.tokens() <= kShort;
              },
              "The fabric is not stated and a short micro-batch leaves little compute to hide the "
              "gathers behind: a network slower than assumed shows in full."},
    Mechanism{[](const Situation& s) { return s.is_time && s.is_low && s.is_nearly_full(); },
              "The device is nearly full: PyTorch then releases and maps segments again and again, "
              "and waits for the device each time."},
    Mechanism{[](const Situation& s) {
                return s.is_time && s.is_low && s.row.strategy == "fsdp1" && s.several_nodes();
              },
              "FSDP1's slowest rank sets the pace of every gather; all ranks are alike here."},
    Mechanism{[](const Situation& s) { return s.is_time && s.is_low && s.row.attention == "flex"; },
              "FlexAttention runs slower than FlashAttention, as which it is priced."},
    Mechanism{[](const Situation& s) {
                return s.is_time && s.is_low && s.row.gpu.find("MI300") != std::string::npos;
              },
              "ROCm's products, attention and casts run below the rates assumed of MI300X, of "
              "which no table of kernels is known."},
    Mechanism{[](const Situation& s) { return s.is_time && s.is_low && s.row.compute != "bf16"; },
              "Scaling and casting to float8 cost more kernels than the model has."},
    Mechanism{
        [](const Situation& s) {
          return s.is_time && s.is_low && s.row.strategy == "ddp" && runs_litgpt(s.row);
        },
        "Not explained: a micro-batch without an all-reduce, a quarter slower than on one GPU."},
    Mechanism{[](const Situation& s) { return s.is_time && s.is_low && s.row.strategy == "ddp"; },
              "DDP's all-reduce is measured as exposed; buckets overlap with the backward here."},
    Mechanism{[](const Situation& s) {
                return s.is_time && s.is_low && s.row.compile == "none" &&
                       s.row.gpu.find("A100") != std::string::npos;
              },
              "Eager kernels on A100 run below the rates assumed: matrix products of training "
              "shapes and transposed layouts, chains of small fp32 kernels, the clock under load."},
    Mechanism{[](const Situation& s) { return s.is_time && s.is_low && s.row.compile == "none"; },
              "Eager kernels that the tape has not: casts, masks and copies of the script."},
    Mechanism{[](const Situation& s) { return s.is_time && s.is_low; },
              "The compiler fuses less than assumed, or breaks the graph at hooks."},
    Mechanism{[](const Situation& s) {
                return s.is_time && s.prediction.shares.exposed_comm > kMuch && s.several_nodes();
              },
              "More communication is exposed than was measured: the network is faster than assumed "
              "or gathers start earlier."},
    Mechanism{[](const Situation& s) {
                return s.is_time && s.row.compute != "bf16" && s.row.compile == "none";
              },
              "Float8 is priced too slow: the passes that scale and cast, or its products."},
    Mechanism{[](const Situation& s) { return s.is_time && s.row.compute != "bf16"; },
              "Float8 is priced too slow: its products, or casts and scales that the compiler "
              "fuses into their neighbours."},
    Mechanism{[](const Situation& s) {
                return s.is_time && s.row.compile != "none" && s.row.compile != "unknown";
              },
              "The compiler chooses faster kernels: cuDNN's attention is 1.5 times as fast as "
              "FlashAttention-2 on H100, fused chains stay in cache."},
    Mechanism{
        [](const Situation& s) { return s.is_time && s.row.seq_len.value_or(0) >= 8192; },
        "Long sequences: the attention kernel used is faster than FlashAttention-2 as priced."},
    Mechanism{[](const Situation& s) { return s.is_time; },
              "Kernels run faster than the efficiencies assumed for this GPU."},
    Mechanism{[](const Situation& s) {
                return s.is_low && s.row.memory_metric == "reserved_gib" &&
                       s.row.allocator_conf.empty();
              },
              "Peak: without expandable segments the reserved bytes depend on fragmentation over "
              "many steps; older code also kept fp32 copies of the logits."},
    Mechanism{
        [](const Situation& s) { return s.is_low && s.row.param_dtype == "fp32"; },
        "Peak: not explained. The fp32 logits that such scripts hold, their shifted copy and the "
        "cache are predicted; a constant amount is missing, whatever the number of GPUs."},
    Mechanism{
        [](const Situation& s) { return s.is_low; },
        "Peak: the implementation keeps activations that the tape frees (fp32 copies in norms, "
        "rotary embeddings and the loss)."},
    Mechanism{[](const Situation& s) { return s.row.compile != "none"; },
              "Peak: the compiler recomputes or frees more than assumed."},
    Mechanism{[](const Situation&) { return true; },
              "Peak: the implementation frees logits or activations earlier than the tape."},
};

}  // namespace

std::string mechanism_of(const RowResult& result) {
  const double time = result.time_error().value_or(0);
  const double peak = result.peak_error().value_or(0);
  const bool is_time = std::abs(time) >= std::abs(peak);
  const Situation situation{result.row, result.prediction, is_time, (is_time ? time : peak) < 0};
  for (const Mechanism& mechanism : kMechanisms)
    if (mechanism.applies(situation)) return std::string(mechanism.words);
  return {};
}

std::string mechanism_of_time(const RowResult& result) {
  RowResult time_alone = result;
  time_alone.row.peak_gib.reset();
  return mechanism_of(time_alone);
}

std::string mechanism_of_peak(const RowResult& result) {
  RowResult peak_alone = result;
  peak_alone.row.step_time_s.reset();
  constexpr std::string_view kPrefix = "Peak: ";
  const std::string words = mechanism_of(peak_alone);
  return words.starts_with(kPrefix) ? words.substr(kPrefix.size()) : words;
}

}  // namespace foregather::tasks
