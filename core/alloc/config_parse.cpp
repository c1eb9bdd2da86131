// Text to AllocConfig.
#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <vector>

#include "core/alloc/config.h"
#include "core/alloc/rounding.h"
#include "core/base/suggest.h"

namespace foregather::alloc {
namespace {

constexpr std::array<std::string_view, 16> kKeys{"backend",
                                                 "expandable_segments",
                                                 "garbage_collection_threshold",
                                                 "graph_capture_record_stream_reuse",
                                                 "large_segment_size_mb",
                                                 "max_non_split_rounding_mb",
                                                 "max_split_size_mb",
                                                 "per_process_memory_fraction",
                                                 "pinned_num_register_threads",
                                                 "pinned_reserve_segment_size_mb",
                                                 "pinned_use_background_threads",
                                                 "pinned_use_cuda_host_register",
                                                 "pinned_use_hip_host_register",
                                                 "release_lock_on_cudamalloc",
                                                 "release_lock_on_hipmalloc",
                                                 "roundup_power2_divisions"};

// Greatest number of MiB that still makes a sensible size; PyTorch clamps to what fits 64 bits.
constexpr std::uint64_t kMaxMiB = std::uint64_t{1} << 40;

// The characters , : [ ] are tokens; what is between them is one; spaces vanish.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) out.push_back(std::exchange(word, {}));
  };
  for (const char c : text) {
    if (c == ',' || c == ':' || c == '[' || c == ']') {
      end_word();
      out.emplace_back(1, c);
    } else if (c != ' ') {
      word.push_back(c);
    }
  }
  end_word();
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokens_of(text)) {}

  Result<AllocConfig> parse() {
    while (at_ < tokens_.size() && !error_) {
      pair();
      if (at_ < tokens_.size()) expect(",");
    }
    if (!error_) check_together();
    if (error_) return tl::unexpected(*error_);
    return config_;
  }

 private:
  template <class... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (!error_) error_ = fail(format, std::forward<Args>(args)...).value();
  }

  std::string_view next() {
    if (at_ < tokens_.size()) return tokens_[at_++];
    complain("allocator configuration ends after '{}', expected a value", key_);
    return {};
  }
  void expect(std::string_view token) {
    if (error_) return;
    if (at_ < tokens_.size() && tokens_[at_] == token) {
      ++at_;
      return;
    }
    complain("expected '{}' after '{}' in the allocator configuration", token,
             at_ > 0 ? tokens_[at_ - 1] : "");
  }

  std::uint64_t number(std::string_view word) {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc{} || end != word.data() + word.size()) {
      complain("{}: '{}' is not a whole number", key_, word);
    }
    return value;
  }
  double real(std::string_view word) {
    double value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc{} || end != word.data() + word.size()) {
      complain("{}: '{}' is not a number", key_, word);
    }
    return value;
  }
  bool boolean(std::string_view word) {
    if (word != "True" && word != "False") {
      complain("{}: '{}' is neither True nor False", key_, word);
    }
    return word == "True";
  }
  Bytes mebibytes(std::string_view word) {
    return static_cast<Bytes>(std::min(number(word), kMaxMiB)) * MiB;
  }

  void pair() {
    const std::string key = tokens_[at_++];
    key_ = key;
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      complain("unknown allocator option '{}'{}", key, did_you_mean(key, kKeys));
      return;
    }
    expect(":");
    if (error_) return;
    if (key == "roundup_power2_divisions") return divisions();
    const std::string_view value = next();
    if (error_) return;
    if (key == "backend") {
      backend(value);
    } else if (key == "expandable_segments") {
      config_.expandable_segments = boolean(value);
    } else if (key == "garbage_collection_threshold") {
      config_.garbage_collection_threshold = real(value);
      if (!(config_.garbage_collection_threshold > 0 && config_.garbage_collection_threshold < 1)) {
        complain("{}: {} is not between 0 and 1 (both excluded)", key, value);
      }
    } else if (key == "per_process_memory_fraction") {
      config_.memory_fraction = real(value);
      if (!(config_.memory_fraction >= 0 && config_.memory_fraction <= 1)) {
        complain("{}: {} is not between 0 and 1", key, value);
      }
    } else if (key == "large_segment_size_mb") {
      config_.large_segment_size = mebibytes(value);
    } else if (key == "max_split_size_mb") {
      config_.max_split_size = mebibytes(value);
    } else if (key == "max_non_split_rounding_mb") {
      non_split_rounding_ = mebibytes(value);
    } else if (key == "pinned_num_register_threads") {
      const std::uint64_t threads = number(value);
      if (!std::has_single_bit(threads) || threads > 128) {
        complain("{}: {} is not a power of two up to 128", key, value);
      }
    } else if (key == "pinned_reserve_segment_size_mb") {
      if (number(value) == 0) complain("{}: must be greater than 0", key);
    } else {
      boolean(value);  // no effect on placement
    }
  }

  void backend(std::string_view value) {
    if (value != "native" && value != "cudaMallocAsync" && value != "hipMallocAsync") {
      complain("backend: '{}' is neither native nor cudaMallocAsync", value);
    }
    config_.native_backend = value == "native";
  }

  std::uint32_t division(std::string_view word) {
    const std::uint64_t value = number(word);
    if ((value != 0 && !std::has_single_bit(value)) || value > kMaxDivisions) {
      complain("{}: {} is neither 0 nor a power of two", key_, word);
      return 0;
    }
    return static_cast<std::uint32_t>(value);
  }

  // A number for all intervals, or [256:1,512:2,>:8] with intervals named by their start in MiB.
  void divisions() {
    auto& slots = config_.roundup_power2_divisions;
    const std::string_view first = next();
    if (error_) return;
    if (first != "[") {
      slots.fill(division(first));
      if (!error_ && slots[0] == 0) complain("{}: 0 is not a power of two", key_);
      return;
    }
    std::size_t last = 0;
    bool any = false;
    while (!error_ && at_ < tokens_.size() && tokens_[at_] != "]") {
      const std::string name = tokens_[at_++];
      expect(":");
      const std::uint32_t value = error_ ? 0 : division(next());
      if (error_) return;
      if (name == ">") {
        std::fill(slots.begin() + static_cast<std::ptrdiff_t>(last), slots.end(), value);
      } else {
        const std::uint64_t start = number(name);
        if (error_) return;
        if (!std::has_single_bit(start)) {
          return complain("{}: interval {} is not a power of two", key_, name);
        }
        last = std::min<std::size_t>(static_cast<std::size_t>(std::countr_zero(start)), 15);
        if (!any) std::fill_n(slots.begin(), last, value);
        slots[last] = value;
        any = true;
      }
      if (at_ < tokens_.size() && tokens_[at_] != "]") expect(",");
    }
    expect("]");
  }

  void check_together() {
    const Bytes segment = config_.large_segment_size;
    if (segment <= kMinLargeAlloc) {
      return complain("large_segment_size_mb: {} is not greater than 10", segment / MiB);
    }
    if (config_.max_split_size && *config_.max_split_size < segment) {
      return complain("max_split_size_mb: {} is too small, expected at least {}",
                      *config_.max_split_size / MiB, segment / MiB);
    }
    config_.max_non_split_rounding = non_split_rounding_.value_or(segment);
    if (config_.max_non_split_rounding < segment) {
      complain("max_non_split_rounding_mb: {} is too small, expected at least {}",
               config_.max_non_split_rounding / MiB, segment / MiB);
    }
  }

  static constexpr std::uint64_t kMaxDivisions = std::uint64_t{1} << 30;

  std::vector<std::string> tokens_;
  std::size_t at_ = 0;
  std::string key_;
  AllocConfig config_;
  std::optional<Bytes> non_split_rounding_;
  std::optional<Error> error_;
};

}  // namespace

Result<AllocConfig> parse_alloc_conf(std::string_view text) { return Parser(text).parse(); }

}  // namespace foregather::alloc
