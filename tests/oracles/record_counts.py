#!/usr/bin/env python3
"""Counts the parameters of models described by Hugging Face config.json files, by building them on the meta device.

    python3 record_counts.py CONFIG.json...      # writes data/parameter_counts.json

Nothing is downloaded and no weight is allocated.  A tied weight is counted once (``total``); ``embedding`` is the input
embedding, ``per_layer`` the distinct counts of the decoder layers in order of appearance with how many layers have each.
Needs the ``transformers`` package.  Files are named by their base name; their essential sizes are repeated so that a test can
find the same model elsewhere.
"""

import json
import os
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import record_fsdp

KEYS = ("model_type", "hidden_size", "n_embd", "intermediate_size", "moe_intermediate_size", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head",
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "head_dim", "vocab_size", "tie_word_embeddings", "attention_bias", "num_experts", "num_local_experts",
        "n_routed_experts", "n_shared_experts", "first_k_dense_replace", "bias", "alibi", "new_decoder_architecture", "parallel_attn", "multi_query")


def count(module):
    return sum(p.numel() for p in module.parameters())


def decoder_layers(model):
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    return max(lists, key=count)


def main(paths):
    out = {}
    for path in sorted(paths, key=os.path.basename):
        name = os.path.basename(path)
        with open(path) as f:
            raw = json.load(f)
        try:
            kind = raw["model_type"]
            old_names = {}
            if kind in ("RefinedWeb", "RefinedWebModel"):  # Falcon's first name, with other names for three fields
                kind, old_names = "falcon", {"n_head": "num_attention_heads", "n_head_kv": "num_kv_heads", "n_layer": "num_hidden_layers"}
            given = {old_names.get(k, k): v for k, v in raw.items() if k not in ("model_type", "auto_map", "quantization_config", "transformers_version")}
            config = AutoConfig.for_model(kind, **given)
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config)
            layers = decoder_layers(model)
            runs = []
            for layer in layers:
                n = count(layer)
                if runs and runs[-1][0] == n:
                    runs[-1][1] += 1
                else:
                    runs.append([n, 1])
            out[name] = {
                "total": count(model),
                "embedding": count(model.get_input_embeddings()),
                "per_layer": runs,
                "tied": model.get_input_embeddings().weight is model.get_output_embeddings().weight,
                "class": type(model).__name__,
                "config": {k: raw[k] for k in KEYS if k in raw},
            }
            print(name, out[name]["total"], flush=True)
        except Exception as e:
            out[name] = {"error": f"{type(e).__name__}: {str(e)[:160]}"}
            print(name, out[name], flush=True)
    versions = {**record_fsdp.versions(), "transformers": transformers.__version__, "device": "meta"}
    versions.pop("backend")
    record_fsdp.write(os.path.join(record_fsdp.HERE, "data", "parameter_counts.json"), {"versions": versions, "models": out})


if __name__ == "__main__":
    main(sys.argv[1:])
