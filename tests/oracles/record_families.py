#!/usr/bin/env python3
"""Counts the parameters of one or more models of each family, by building them on the meta device.

    python3 record_families.py      # writes data/family_counts.json

Nothing is downloaded and no weight is allocated.  Sizes are those of published models where the name says so; the others are small
models that set a flag.  ``config`` is the file to read, ``total`` counts a tied weight once.  OpenVLA is in timm, not in
transformers: its total is the published one (7,541,237,184 parameters in the model card's index).  Needs ``transformers``.
"""

import os
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
import transformers
from transformers import AutoConfig

import record_fsdp


def lm(kind, name, h, layers, heads, inter, vocab, kv=None, **more):
    c = {"architectures": [name], "model_type": kind, "hidden_size": h, "num_hidden_layers": layers, "num_attention_heads": heads,
         "intermediate_size": inter, "vocab_size": vocab}
    if kv:
        c["num_key_value_heads"] = kv
    return {**c, **more}


def vit(kind, name, h, layers, heads, **more):
    return {"architectures": [name], "model_type": kind, "hidden_size": h, "num_hidden_layers": layers, "num_attention_heads": heads, **more}


SMALL = dict(h=64, layers=3, heads=4, inter=160, vocab=100)
MODELS = {
    "gemma-2b": lm("gemma", "GemmaForCausalLM", 2048, 18, 8, 16384, 256000, 1, head_dim=256),
    "gemma2-9b": lm("gemma2", "Gemma2ForCausalLM", 3584, 42, 16, 14336, 256000, 8, head_dim=256),
    "gemma3-1b": lm("gemma3_text", "Gemma3ForCausalLM", 1152, 26, 4, 6912, 262144, 1, head_dim=256),
    "pythia-1.4b": lm("gpt_neox", "GPTNeoXForCausalLM", 2048, 24, 16, 8192, 50304),
    "gpt-neox-20b": lm("gpt_neox", "GPTNeoXForCausalLM", 6144, 44, 64, 24576, 50432),
    "neox serial without bias": lm("gpt_neox", "GPTNeoXForCausalLM", **SMALL, use_parallel_residual=False, attention_bias=False),
    "falcon-7b": {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
                  "num_attention_heads": 71, "vocab_size": 65024, "multi_query": True, "parallel_attn": True, "bias": False},
    "falcon-rw-1b": {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24,
                     "num_attention_heads": 32, "vocab_size": 50304, "multi_query": False, "parallel_attn": False, "bias": True,
                     "alibi": True},
    "falcon-11b": {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 4096, "num_hidden_layers": 60,
                   "num_attention_heads": 32, "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": True,
                   "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 16384, "tie_word_embeddings": False},
    "mpt-7b": {"architectures": ["MptForCausalLM"], "model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32,
               "vocab_size": 50432, "expansion_ratio": 4, "max_seq_len": 2048, "no_bias": True, "attn_config": {"alibi": True}},
    "roberta-large": lm("roberta", "RobertaForMaskedLM", 1024, 24, 16, 4096, 50265, max_position_embeddings=514, type_vocab_size=1),
    "roberta-base model": lm("roberta", "RobertaModel", 768, 12, 12, 3072, 50265, max_position_embeddings=514, type_vocab_size=1),
    "bert-base": lm("bert", "BertForMaskedLM", 768, 12, 12, 3072, 30522),
    "bert-large pretraining": lm("bert", "BertForPreTraining", 1024, 24, 16, 4096, 30522),
    "bert-base model": lm("bert", "BertModel", 768, 12, 12, 3072, 30522),
    "vit-base": vit("vit", "ViTModel", 768, 12, 12, intermediate_size=3072, image_size=224, patch_size=16),
    "vit-large classifier": vit("vit", "ViTForImageClassification", 1024, 24, 16, intermediate_size=4096, image_size=384, patch_size=16,
                                id2label={str(i): str(i) for i in range(10)}),
    "dinov2-large": vit("dinov2", "Dinov2Model", 1024, 24, 16, mlp_ratio=4, image_size=518, patch_size=14),
    "dinov2-giant": vit("dinov2", "Dinov2Model", 1536, 40, 24, mlp_ratio=4, image_size=518, patch_size=14, use_swiglu_ffn=True),
    "dinov2-small classifier": vit("dinov2", "Dinov2ForImageClassification", 384, 12, 6, mlp_ratio=4, image_size=518, patch_size=14),
    "dinov2-base with registers": vit("dinov2_with_registers", "Dinov2WithRegistersModel", 768, 12, 12, mlp_ratio=4, image_size=518,
                                      patch_size=14, num_register_tokens=4),
    "siglip-so400m-384": vit("siglip_vision_model", "SiglipVisionModel", 1152, 27, 16, intermediate_size=4304, image_size=384,
                             patch_size=14),
    "siglip-base without head": vit("siglip_vision_model", "SiglipVisionModel", 768, 12, 12, intermediate_size=3072, image_size=224,
                                    patch_size=16, vision_use_head=False),
    "clip-large-336": vit("clip_vision_model", "CLIPVisionModel", 1024, 24, 16, intermediate_size=4096, image_size=336, patch_size=14),
    "stablelm-3b": lm("stablelm", "StableLmForCausalLM", 2560, 32, 32, 6912, 50304, 32),
    "stablelm-2-1.6b": lm("stablelm", "StableLmForCausalLM", 2048, 24, 32, 5632, 100352, 32, use_qkv_bias=True),
    "stablelm-2-12b": lm("stablelm", "StableLmForCausalLM", 5120, 40, 32, 13824, 100352, 8, qk_layernorm=True, use_parallel_residual=True),
    "phi-3-mini": lm("phi3", "Phi3ForCausalLM", 3072, 32, 32, 8192, 32064, 32, resid_pdrop=0.0),
    "phi-3-medium": lm("phi3", "Phi3ForCausalLM", 5120, 40, 40, 17920, 32064, 10),
    "phi-4-mini": lm("phi3", "Phi3ForCausalLM", 3072, 32, 24, 8192, 200064, 8, tie_word_embeddings=True, partial_rotary_factor=0.75),
    "qwen1.5-moe-a2.7b": lm("qwen2_moe", "Qwen2MoeForCausalLM", 2048, 24, 16, 5632, 151936, 16, moe_intermediate_size=1408,
                            shared_expert_intermediate_size=5632, num_experts=60, num_experts_per_tok=4),
    "qwen3-235b-a22b": lm("qwen3_moe", "Qwen3MoeForCausalLM", 4096, 94, 64, 12288, 151936, 4, head_dim=128, moe_intermediate_size=1536,
                          num_experts=128, num_experts_per_tok=8),
    "qwen3 moe every second": lm("qwen3_moe", "Qwen3MoeForCausalLM", **SMALL, kv=2, head_dim=16, moe_intermediate_size=32, num_experts=4,
                                 num_experts_per_tok=2, decoder_sparse_step=2, mlp_only_layers=[1]),
    "deepseek-v2-lite": lm("deepseek_v2", "DeepseekV2ForCausalLM", 2048, 27, 16, 10944, 102400, 16, q_lora_rank=None, kv_lora_rank=512,
                           moe_intermediate_size=1408, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
                           first_k_dense_replace=1, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
    "llava-1.5-7b": {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
                     "text_config": {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096},
                     "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
                                       "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768}},
}
OPENVLA = {"architectures": ["OpenVLAForActionPrediction"], "model_type": "openvla", "hf_llm_id": "meta-llama/Llama-2-7b-hf",
           "image_sizes": [224, 224], "llm_max_length": 2048, "text_config": {"model_type": "llama", "vocab_size": 32064},
           "timm_model_ids": ["vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"]}


def total(config):
    given = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    made = AutoConfig.for_model(config["model_type"], **given)
    with torch.device("meta"):
        model = getattr(transformers, config["architectures"][0])(made)
    return sum(p.numel() for p in model.parameters())


def main():
    out = {}
    for name, config in MODELS.items():
        out[name] = {"total": total(config), "config": config}
        print(name, out[name]["total"], flush=True)
    out["openvla-7b"] = {"total": 7541237184, "published": True, "config": OPENVLA}
    versions = {**record_fsdp.versions(), "transformers": transformers.__version__, "device": "meta"}
    versions.pop("backend")
    record_fsdp.write(os.path.join(record_fsdp.HERE, "data", "family_counts.json"), {"versions": versions, "models": out})


if __name__ == "__main__":
    main()
