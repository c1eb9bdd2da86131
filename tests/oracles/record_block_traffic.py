#!/usr/bin/env python3
"""Records what the eager kernels of one transformers block read and write, but for products and attention.

    python3 record_block_traffic.py > data/block_traffic.json

Nothing but the case of autocast runs: the block is on the meta device, and every operator that PyTorch dispatches is counted: the bytes of each tensor that it
takes or returns, of a broadcast one what is stored. Views move nothing. Attention itself is replaced by a function that only has
its shapes. Needs torch, transformers and peft; a few seconds.
"""

import json

import peft
import torch
import torch.nn.functional as functional
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModel

VIEWS = {"view", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "expand", "slice", "select", "detach", "alias", "as_strided",
         "squeeze", "split", "unbind", "empty_like", "empty_strided", "new_empty_strided", "ones_like", "empty"}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
TOKENS = 512
COMMON = {"num_hidden_layers": 1, "vocab_size": 160, "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16}
CASES = {
    "llama": {"model_type": "llama", "num_key_value_heads": 16},
    "llama_grouped": {"model_type": "llama", "num_key_value_heads": 4},
    "qwen2": {"model_type": "qwen2", "num_key_value_heads": 4},
    "qwen3": {"model_type": "qwen3", "num_key_value_heads": 4, "head_dim": 64},
    "mistral": {"model_type": "mistral", "num_key_value_heads": 4, "head_dim": 64},
}
# PEFT's adapters: in fp32, its default beside 16-bit weights, and as those are; under torch.autocast (which no meta tensor has).
ADAPTERS = {"llama_lora": (True, False), "llama_lora_16": (False, False), "llama_lora_autocast": (True, True)}
LORA = {"r": 16, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}


class NoAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value):
        ctx.shapes = query, key, value
        batch, heads, tokens, size = query.shape
        strides = (tokens * heads * size, size, heads * size, 1)
        return torch.empty_strided(query.shape, strides, dtype=query.dtype, device=query.device)

    @staticmethod
    def backward(ctx, gradient):
        return tuple(torch.empty_like(tensor) for tensor in ctx.shapes)


class Traffic(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.bytes = self.operators = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        out = operator(*args, **(kwargs or {}))
        name = operator._schema.name.split("::")[1]
        if name in VIEWS or name in PRODUCTS:
            return out
        self.operators += 1
        self.bytes += sum(stored(tensor) for tensor in tensors(args) + tensors(out))
        return out


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def stored(tensor):
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def record(config, wide=None, autocast=False):
    with torch.device("cpu" if autocast else "meta"):
        model = AutoModel.from_config(AutoConfig.for_model(**config), attn_implementation="sdpa").bfloat16()
        if wide is not None:
            model = peft.get_peft_model(model, peft.LoraConfig(**LORA)).base_model.model
            model = model if wide else model.bfloat16()
        block = model.layers[0]
        positions = torch.arange(TOKENS).unsqueeze(0)
        hidden = torch.empty(1, TOKENS, config["hidden_size"], dtype=torch.bfloat16, requires_grad=True)
        tables = model.rotary_emb(hidden.detach(), positions)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast), Traffic() as forward:
            out = block(hidden, position_embeddings=tables, attention_mask=None, position_ids=positions)
        out = out[0] if isinstance(out, tuple) else out
        gradient = torch.empty_like(out)
        with Traffic() as backward:
            out.backward(gradient)
    return {"forward": {"operators": forward.operators, "bytes": forward.bytes},
            "backward": {"operators": backward.operators, "bytes": backward.bytes}}


def main():
    functional.scaled_dot_product_attention = lambda query, key, value, **others: NoAttention.apply(query, key, value)
    torch.nn.functional.scaled_dot_product_attention = functional.scaled_dot_product_attention
    cases = []
    for name, own in CASES.items():
        config = {**COMMON, **own}
        cases.append({"name": name, "config": config, "tokens": TOKENS, **record(config)})
    for name, (wide, autocast) in ADAPTERS.items():
        config = {**COMMON, **CASES["llama"]}
        cases.append({"name": name, "config": config, "tokens": TOKENS, "lora": {**LORA, "fp32": wide, "autocast": autocast},
                      **record(config, wide, autocast)})
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    print(json.dumps({"versions": versions, "cases": cases}, indent=1))


main()
