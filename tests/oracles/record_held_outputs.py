"""What is alive at the loss when a loop holds the outputs of a transformers model.

    record_held_outputs.py > data/held_outputs.json

DLRover's examples/llama2/fsdp_llama2.py in small: `outputs = model(**batch)` in a loop, Llama-2-7B of
transformers, its decoder layers checkpointed, attention as atorch's LlamaAttentionFA has it (the cache
is on, flash-attn gets queries, keys and values as they come and refuses fp32), parameters and buffers
in bf16 as FSDP's MixedPrecision gathers them, bf16 autocast; with and without LoRA (peft) on q, k, v
and o. Fake tensors: the real Python code and autograd, no memory. Parameters, their gradients and
FSDP's buffers are not counted; all else is, in blocks of 512 bytes, at its highest in the forward of
the first and the second step.

With torch 2.1.2, transformers 4.31.0, peft 0.4.0, numpy < 2: half a minute. Later versions have other
models; torch from 2.2 on no longer keeps the input of `mean`.
"""

import collections
import json
import sys

import peft
import torch
import transformers
import transformers.models.llama.modeling_llama as llama
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl, apply_activation_checkpointing, checkpoint_wrapper)
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

SEQUENCES, LENGTH = 4, 4096


class FlashAttention(torch.autograd.Function):
    """flash_attn_func by its tensors."""

    @staticmethod
    def forward(ctx, q, k, v):
        assert q.dtype == torch.bfloat16, "flash-attn refuses fp32"
        out = torch.empty(q.shape, dtype=q.dtype)
        ctx.save_for_backward(q, k, v, out, torch.empty(q.shape[0], q.shape[2], q.shape[1]))
        return out

    @staticmethod
    def backward(ctx, _):
        q, k, v, _, _ = ctx.saved_tensors
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


class Attention(llama.LlamaAttention):
    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_value=None,
                output_attentions=False, use_cache=False):
        b, s, _ = hidden_states.size()
        q, k, v = (p(hidden_states).view(b, s, self.num_heads, self.head_dim).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = self.rotary_emb(v, seq_len=s)
        q, k = llama.apply_rotary_pos_emb(q, k, cos, sin, position_ids)
        out = FlashAttention.apply(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        past = (k, v) if use_cache else None
        return self.o_proj(out.reshape(b, s, self.hidden_size)), None, past


class LiveStorages(TorchDispatchMode):
    def __init__(self, uncounted):
        super().__init__()
        self.uncounted, self.live = uncounted, {}
        self.peak, self.at_peak, self.op = 0, {}, ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_flatten(out)[0]:
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            known = key in self.live and not self.live[key][0].expired()
            if key not in self.uncounted and not known:
                what = f"{str(tensor.dtype)[6:]}{list(tensor.shape)}"
                self.live[key] = (StorageWeakRef(storage), -(-storage.nbytes() // 512) * 512, what)
        self.live = {k: e for k, e in self.live.items() if not e[0].expired()}
        total = sum(size for _, size, _ in self.live.values())
        if total > self.peak:
            self.peak, self.op = total, str(func)
            self.at_peak = collections.Counter(what for _, _, what in self.live.values())
        return out


def run(lora):
    config = transformers.LlamaConfig(
        hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
        vocab_size=32000, max_position_embeddings=LENGTH, pad_token_id=None)
    llama.LlamaAttention = Attention
    llama.LlamaPreTrainedModel._init_weights = lambda *_: None
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = llama.LlamaForCausalLM(config)
        if lora:
            model.enable_input_require_grads()
            model = peft.get_peft_model(model, peft.LoraConfig(
                task_type="CAUSAL_LM", r=16, lora_alpha=16, lora_dropout=0.05,
                target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
        model.to(torch.bfloat16).train()
        apply_activation_checkpointing(
            model, checkpoint_wrapper_fn=lambda m: checkpoint_wrapper(
                m, checkpoint_impl=CheckpointImpl.REENTRANT, preserve_rng_state=False),
            check_fn=lambda m: isinstance(m, llama.LlamaDecoderLayer))
        # FSDP's views of its flat parameter are no leaves: autocast caches nothing.
        uncounted = {p.untyped_storage()._cdata for p in model.parameters()}
        outputs, steps = None, []
        with LiveStorages(uncounted) as live:
            for _ in range(2):
                live.peak = 0
                ids = torch.zeros(SEQUENCES, LENGTH, dtype=torch.long)
                batch = {name: torch.zeros_like(ids) for name in
                         ("input_ids", "labels", "attention_mask", "position_ids")}
                with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                    outputs = model(**batch)
                steps.append({"bytes": live.peak, "op": live.op,
                              "alive": dict(sorted(live.at_peak.items()))})
                outputs["loss"].backward()
                for parameter in model.parameters():
                    parameter.grad = None
    return steps


def main():
    json.dump({"versions": {m.__name__: m.__version__ for m in (torch, transformers, peft)},
               "all": run(False), "lora": run(True)}, sys.stdout, indent=1)
    print()


main()
