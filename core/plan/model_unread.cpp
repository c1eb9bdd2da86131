#include "core/plan/model_unread.h"

#include "core/plan/model_families.h"

namespace foregather::plan {

namespace {

constexpr std::string_view kFlags[] = {"use_cache", "norm_topk_prob", "output_router_logits",
                                       "use_sliding_window"};
constexpr std::string_view kTexts[] = {"torch_dtype", "dtype", "transformers_version",
                                       "scoring_func", "topk_method"};
constexpr std::string_view kObjects[] = {"rope_scaling", "rope_parameters", "quantization_config"};

struct Number {
  std::string_view key;
  double most;
};
constexpr Number kNumbers[] = {{"rope_theta", 1e15},
                               {"rotary_emb_base", 1e15},
                               {"rms_norm_eps", 1},
                               {"layer_norm_eps", 1},
                               {"norm_eps", 1},
                               {"layer_norm_epsilon", 1},
                               {"initializer_range", 1e6},
                               {"aux_loss_alpha", 1e6},
                               {"router_aux_loss_coef", 1e6},
                               {"router_jitter_noise", 1},
                               {"routed_scaling_factor", 1e6},
                               {"attn_logit_softcapping", 1e9},
                               {"final_logit_softcapping", 1e9},
                               {"query_pre_attn_scalar", 1e9}};

constexpr std::string_view kSizes[] = {
    "pretraining_tp", "sliding_window", "max_window_layers", "original_max_position_embeddings",
    "n_group",        "topk_group",     "pad_token_id",      "bos_token_id"};

}  // namespace

void check_unread(const ConfigFile& file) {
  for (const std::string_view key : kFlags) file.flag(key, false);
  for (const std::string_view key : kTexts) file.text(key, "");
  for (const Number& number : kNumbers) file.number(number.key, 0, number.most, 0);
  for (const std::string_view key : kSizes) file.size(key, kLargestSize, 0, -1);
  for (const std::string_view key : kObjects)
    if (file.has(key) && !file.is_object(key))
      file.complain(
          key, fmt::format("'{}' is {}, expected an object", file.label(key), file.shown(key)));
}

}  // namespace foregather::plan
