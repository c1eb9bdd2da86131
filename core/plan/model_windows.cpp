#include "core/plan/model_windows.h"

#include <algorithm>

#include "core/plan/model_detail_parts.h"
#include "core/plan/model_families.h"

namespace foregather::plan {
namespace {

/// Where no layer_types say which layers have a window.
enum class Which : std::uint8_t {
  all,        ///< whatever layer_types say
  each,       ///< all
  all_but,    ///< every Nth sees all tokens
  late,       ///< from max_window_layers on
  early_odd,  ///< the first, third, … before max_window_layers
  unrotated,  ///< those without positions
  rotated,    ///< those with
};

struct Windowed {
  std::string_view model_type;
  std::int64_t usual;  ///< tokens, where the config says nothing; 0: none
  Which which = Which::all;
  std::int64_t every = 0;    ///< N of all_but
  bool has_pattern = false;  ///< sliding_window_pattern is another N
  bool has_switch = false;   ///< use_sliding_window, which is off
  bool in_chunks = false;    ///< ModelConfig::in_chunks
};

constexpr Windowed kWindowed[] = {
    {"mistral", 4096},
    {"ministral", 4096, Which::each},
    {"ministral3", 0},
    {"mixtral", 0},
    {"phimoe", 0},
    {"phi3", 0},
    {"starcoder2", 0},
    {"gemma2", 4096, Which::all_but, 2},
    {"gemma3_text", 4096, Which::all_but, 6, true},
    {"olmo3", 4096, Which::all_but, 4},
    {"cohere2", 4096, Which::all_but, 4, true},
    {"exaone4", 4096, Which::all_but, 4, true},
    {"gpt_oss", 128, Which::all_but, 2},
    {"qwen2", 4096, Which::late, 0, false, true},
    {"qwen3", 4096, Which::late, 0, false, true},
    {"qwen2_vl_text", 4096, Which::late, 0, false, true},
    {"qwen2_5_vl_text", 4096, Which::late, 0, false, true},
    {"qwen2_moe", 4096, Which::early_odd, 0, false, true},
    {"qwen3_moe", 4096, Which::all, 0, false, true},
    {"smollm3", 0, Which::unrotated, 0, false, true},
    {"llama4_text", 8192, Which::rotated, 0, false, false, true},
};

bool is_windowed(const Windowed& row, std::int64_t layer, std::int64_t every, std::int64_t bound,
                 const ModelConfig& c) {
  switch (row.which) {
    case Which::all:
    case Which::each: return true;
    case Which::all_but: return (layer + 1) % every != 0;
    case Which::late: return layer >= bound;
    case Which::early_odd: return layer % 2 == 0 && layer < bound;
    case Which::unrotated: return !c.has_positions(layer);
    case Which::rotated: return c.has_positions(layer);
  }
  return false;
}

std::vector<std::int64_t> windowed_layers(const ConfigFile& file, const Windowed& row,
                                          const ModelConfig& c) {
  constexpr std::int64_t kUsualBound = 28;
  const std::int64_t every = row.has_pattern ? window_pattern(file, row.every) : row.every;
  const std::int64_t bound = file.size("max_window_layers", kLargestSize, kUsualBound, -1);
  const std::vector<std::string> types = file.texts("layer_types");
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const auto i = static_cast<std::size_t>(layer);
    const std::string_view type = row.in_chunks ? "chunked_attention" : "sliding_attention";
    const bool is = file.has("layer_types") ? i < types.size() && types[i] == type
                                            : is_windowed(row, layer, every, bound, c);
    if (is) layers.push_back(layer);
  }
  return layers;
}

}  // namespace

void read_window(const ConfigFile& file, ModelConfig& c) {
  const Windowed* row = std::ranges::find(kWindowed, c.model_type, &Windowed::model_type);
  if (row == std::end(kWindowed)) return;
  const std::string_view key = row->in_chunks ? "attention_chunk_size" : "sliding_window";
  if (file.has_null(key)) return;
  if (row->has_switch && !file.flag("use_sliding_window", false)) return;
  c.window = file.size(key, kLargestSize, row->usual, 0);
  c.in_chunks = row->in_chunks;
  if (row->which == Which::all) return;
  c.windowed = windowed_layers(file, *row, c);
  if (c.windowed.empty()) c.window = 0;
}

}  // namespace foregather::plan
