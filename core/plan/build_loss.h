// What a model ends with: the vocabulary projection and the loss.
#pragma once

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// The scope of a language model's loss.
inline constexpr std::string_view kLossScope = "loss";

/// Hugging Face's ForCausalLMLoss over logits of `vocab` columns: logits in fp32, labels shifted by
/// padding, cross_entropy; the value is the fp32 loss. Encoders (ForMaskedLMLoss): logits as they
/// are, labels as given. Train::logits: the model itself widens the logits, so that what it returns
/// is fp32 and the narrow ones die at once; before transformers 4.46 (LlamaForCausalLM.forward)
/// not the labels are shifted but the logits, `logits[..., :-1, :].contiguous()`: a copy, which the
/// model's frame holds until it returns, and whose gradient is put back into zeros.
/// Logits::fused: one kernel makes the losses of the tokens and keeps, beside the logits, what
/// their exponentials sum up to; one makes the gradient of the logits (flash-attn,
/// losses/cross_entropy.py).
/// Train::logits_chunks: the parts of what the model returns are widened one by one, unless they
/// are to stay narrow; their log probabilities stay for the backward, where only one part at a time
/// has gradients.
ValueIndex token_loss(TapeBuilder& tape, const LayerContext& context, ValueIndex logits);

/// The vocabulary projection and the loss over Train::loss_chunks parts of the tokens, one by one.
/// Each part is checkpointed: its logits die with its loss and are computed again in backward
/// (torch.utils.checkpoint around each part; fused kernels such as Liger's save that second
/// matmul). Of the forms of logits, Logits::narrow alone differs: its parts are not widened.
ValueIndex chunked_loss(TapeBuilder& tape, const LayerContext& context, ValueIndex hidden,
                        const LinearSpec& projection);

/// The projection and the loss, in parts or at once.
ValueIndex language_loss(TapeBuilder& tape, const LayerContext& context, ValueIndex hidden,
                         const LinearSpec& projection);

/// mean(x.float()), a stand-in for the loss of models that end in features.
ValueIndex mean_loss(TapeBuilder& tape, ValueIndex x);

}  // namespace foregather::plan
