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
         **({"intermediate_size": inter} if inter else {}), "vocab_size": vocab}
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
    "bloom-560m": {"architectures": ["BloomForCausalLM"], "model_type": "bloom", "n_embed": 1024, "n_layer": 24, "n_head": 16,
                   "vocab_size": 250880},
    "bloom-7b1": lm("bloom", "BloomForCausalLM", 4096, 30, 32, None, 250880),
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
    "kimi-k2": lm("kimi_k2", "DeepseekV3ForCausalLM", 7168, 61, 64, 18432, 163840, 64, q_lora_rank=1536, kv_lora_rank=512,
                  moe_intermediate_size=2048, n_routed_experts=384, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=1,
                  qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_group=1, topk_group=1),
    "olmoe-1b-7b": lm("olmoe", "OlmoeForCausalLM", 2048, 16, 16, 1024, 50304, 16, num_experts=64, num_experts_per_tok=8),
    "glm-4.5-air": lm("glm4_moe", "Glm4MoeForCausalLM", 4096, 46, 96, 10944, 151552, 8, head_dim=128, moe_intermediate_size=1408,
                      n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=1, attention_bias=True),
    "glm-4.5": lm("glm4_moe", "Glm4MoeForCausalLM", 5120, 92, 96, 12288, 151552, 8, head_dim=128, moe_intermediate_size=1536,
                  n_routed_experts=160, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3, attention_bias=True,
                  use_qk_norm=True),
    "minimax-m2": lm("minimax_m2", "MiniMaxM2ForCausalLM", 3072, 62, 48, 1536, 200064, 8, head_dim=128, num_local_experts=256,
                     num_experts_per_tok=8, rotary_dim=64),
    "gpt-oss-20b": lm("gpt_oss", "GptOssForCausalLM", 2880, 24, 64, 2880, 201088, 8, head_dim=64, num_local_experts=32,
                      num_experts_per_tok=4),
    "gpt-oss-120b": lm("gpt_oss", "GptOssForCausalLM", 2880, 36, 64, 2880, 201088, 8, head_dim=64, num_local_experts=128,
                       num_experts_per_tok=4),
    "seed-oss-36b": lm("seed_oss", "SeedOssForCausalLM", 5120, 64, 80, 27648, 155136, 8, head_dim=128, attention_bias=True,
                       attention_out_bias=False, attention_dropout=0.1, residual_dropout=0.1),
    "seed-oss small with biases": lm("seed_oss", "SeedOssForCausalLM", **SMALL, kv=2, head_dim=16, attention_out_bias=True, mlp_bias=True,
                                     pad_token_id=0),
    "olmo-2-7b": lm("olmo2", "Olmo2ForCausalLM", 4096, 32, 32, 11008, 100352, 32, max_position_embeddings=4096),
    "olmo-2-13b": lm("olmo2", "Olmo2ForCausalLM", 5120, 40, 40, 13824, 100352, 40, max_position_embeddings=4096),
    "olmo-2-32b": lm("olmo2", "Olmo2ForCausalLM", 5120, 64, 40, 27648, 100352, 8, max_position_embeddings=4096),
    "olmo-3-7b": lm("olmo3", "Olmo3ForCausalLM", 4096, 32, 32, 11008, 100278, 32, max_position_embeddings=65536),
    "ministral-8b": lm("ministral", "MinistralForCausalLM", 4096, 36, 32, 12288, 131072, 8, head_dim=128, sliding_window=32768,
                       layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"] * 9),
    "ministral-3-8b": lm("ministral3", "Ministral3ForCausalLM", 4096, 34, 32, 14336, 131072, 8, head_dim=128),
    "ministral-3-3b": {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "tie_word_embeddings": True,
                       "text_config": {"model_type": "ministral3", "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 26,
                                       "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 131072}},
    "exaone-4.0-32b": lm("exaone4", "Exaone4ForCausalLM", 5120, 64, 40, 27392, 102400, 8, head_dim=128, sliding_window=4096,
                         sliding_window_pattern="LLLG",
                         layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"] * 16),
    "exaone-4.0-1.2b": lm("exaone4", "Exaone4ForCausalLM", 2048, 30, 32, 4096, 102400, 8, head_dim=64, sliding_window=None,
                          layer_types=["full_attention"] * 30, tie_word_embeddings=True),
    "ernie-4.5-0.3b": lm("ernie4_5", "Ernie4_5ForCausalLM", 1024, 18, 16, 3072, 103424, 2, head_dim=128),
    "ernie4_5 small with biases": lm("ernie4_5", "Ernie4_5ForCausalLM", **SMALL, kv=2, head_dim=None, use_bias=True,
                                     tie_word_embeddings=False),
    "afm-4.5b": lm("arcee", "ArceeForCausalLM", 2560, 36, 20, 18432, 128004, 4, head_dim=128),
    "arcee small with biases": lm("arcee", "ArceeForCausalLM", **SMALL, kv=2, attention_bias=True, mlp_bias=True),
    "nemotron-4-15b": lm("nemotron", "NemotronForCausalLM", 6144, 32, 48, 24576, 256000, 8, head_dim=128),
    "minitron-4b": lm("nemotron", "NemotronForCausalLM", 3072, 32, 24, 9216, 256000, 8, head_dim=128),
    "nemotron small with biases": lm("nemotron", "NemotronForCausalLM", **SMALL, kv=2, attention_bias=True, mlp_bias=True),
    "olmo-1b": lm("olmo", "OlmoForCausalLM", 2048, 16, 16, 8192, 50304, 16, tie_word_embeddings=True),
    "olmo-7b": lm("olmo", "OlmoForCausalLM", 4096, 32, 32, 11008, 50304, 32),
    "phi-3.5-moe": lm("phimoe", "PhimoeForCausalLM", 4096, 32, 32, 6400, 32064, 8, num_local_experts=16, num_experts_per_tok=2,
                      attention_bias=True, lm_head_bias=True, input_jitter_noise=0.01, router_jitter_noise=0.01, sliding_window=131072),
    "llama-4-scout": {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4",
                      "text_config": {"model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192,
                                      "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40,
                                      "num_key_value_heads": 8, "num_local_experts": 16, "vocab_size": 202048},
                      "vision_config": {"model_type": "llama4_vision_model"}},
    "llama-4-maverick": lm("llama4_text", "Llama4ForCausalLM", 5120, 48, 40, 8192, 202048, 8, intermediate_size_mlp=16384, head_dim=128,
                           num_local_experts=128, interleave_moe_layer_step=2, use_qk_norm=False),
    "llama4 small": lm("llama4_text", "Llama4ForCausalLM", **SMALL, kv=2, intermediate_size_mlp=224, head_dim=16, num_local_experts=4,
                       moe_layers=[1], attention_bias=True, tie_word_embeddings=True),
    "granite-3.1-1b-a400m": lm("granitemoe", "GraniteMoeForCausalLM", 1024, 24, 16, 512, 49155, 8, num_local_experts=32,
                               num_experts_per_tok=8, attention_multiplier=0.015625, embedding_multiplier=12.0, logits_scaling=6.0,
                               residual_multiplier=0.22, tie_word_embeddings=True),
    "granite-3.1-3b-a800m": lm("granitemoe", "GraniteMoeForCausalLM", 1536, 32, 24, 512, 49155, 8, num_local_experts=40,
                               num_experts_per_tok=8, attention_multiplier=0.015625, embedding_multiplier=12.0, logits_scaling=6.0,
                               residual_multiplier=0.22, tie_word_embeddings=True),
    "granite-3.1-8b": lm("granite", "GraniteForCausalLM", 4096, 40, 32, 12800, 49155, 8, max_position_embeddings=131072,
                         attention_multiplier=0.0078125, embedding_multiplier=12.0, logits_scaling=16.0, residual_multiplier=0.22,
                         tie_word_embeddings=True),
    "granite-3.1-2b": lm("granite", "GraniteForCausalLM", 2048, 40, 32, 8192, 49155, 8, max_position_embeddings=131072,
                         attention_multiplier=0.015625, embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
                         tie_word_embeddings=True),
    "smollm3-3b": lm("smollm3", "SmolLM3ForCausalLM", 2048, 36, 16, 11008, 128256, 4, max_position_embeddings=65536,
                     no_rope_layers=[1, 1, 1, 0] * 9),
    "smollm3 small untied": lm("smollm3", "SmolLM3ForCausalLM", **SMALL, kv=2, no_rope_layer_interval=2, tie_word_embeddings=False,
                               attention_bias=True, mlp_bias=True, pad_token_id=0),
    "starcoder2-3b": lm("starcoder2", "Starcoder2ForCausalLM", 3072, 30, 24, 12288, 49152, 2, max_position_embeddings=16384),
    "starcoder2-7b": lm("starcoder2", "Starcoder2ForCausalLM", 4608, 32, 36, 18432, 49152, 4, max_position_embeddings=16384),
    "starcoder2 without bias": lm("starcoder2", "Starcoder2ForCausalLM", **SMALL, kv=2, use_bias=False, tie_word_embeddings=False),
    "phi-1.5": lm("phi", "PhiForCausalLM", 2048, 24, 32, 8192, 51200),
    "phi-2": lm("phi", "PhiForCausalLM", 2560, 32, 32, 10240, 51200, partial_rotary_factor=0.4),
    "phi small with norms": lm("phi", "PhiForCausalLM", **SMALL, kv=2, qk_layernorm=True),
    "glm-4-9b": lm("glm", "GlmForCausalLM", 4096, 40, 32, 13696, 151552, 2, head_dim=128, partial_rotary_factor=0.5),
    "glm-4-9b-0414": lm("glm4", "Glm4ForCausalLM", 4096, 40, 32, 13696, 151552, 2, head_dim=128, partial_rotary_factor=0.5,
                        attention_bias=False),
    "glm-4-32b-0414": lm("glm4", "Glm4ForCausalLM", 6144, 61, 48, 23040, 151552, 2, head_dim=128, partial_rotary_factor=0.5,
                         attention_bias=False),
    "command-r-35b": lm("cohere", "CohereForCausalLM", 8192, 40, 64, 22528, 256000, 64),
    "command-r-plus-104b": lm("cohere", "CohereForCausalLM", 12288, 64, 96, 33792, 256000, 8, use_qk_norm=True),
    "aya-23-8b": lm("cohere", "CohereForCausalLM", 4096, 32, 32, 14336, 256000, 8),
    "command-r7b": lm("cohere2", "Cohere2ForCausalLM", 4096, 32, 32, 14336, 256000, 8, sliding_window_pattern=4),
    "cohere2 small": lm("cohere2", "Cohere2ForCausalLM", **SMALL, kv=2, attention_bias=True,
                        layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
    "opt-125m": lm("opt", "OPTForCausalLM", 768, 12, 12, None, 50272, ffn_dim=3072),
    "opt-6.7b": lm("opt", "OPTForCausalLM", 4096, 32, 32, None, 50272, ffn_dim=16384),
    "opt small without bias": lm("opt", "OPTForCausalLM", 64, 3, 4, None, 100, ffn_dim=160, enable_bias=False, tie_word_embeddings=False),
    "llava-1.5-7b": {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
                     "text_config": {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096},
                     "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
                                       "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768}},
    "gemma-3-4b": {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
                   "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
                                   "sliding_window": 1024},
                   "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
                                     "num_attention_heads": 16, "num_hidden_layers": 27, "image_size": 896, "patch_size": 14}},
    "mistral-small-3.1-24b": {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "tie_word_embeddings": False,
                              "text_config": {"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 32768, "head_dim": 128,
                                              "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
                                              "vocab_size": 131072}},
    "qwen2-vl-7b": {"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl",
                    "text_config": {"model_type": "qwen2_vl_text", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
                                    "num_attention_heads": 28, "num_key_value_heads": 4}},
    "qwen2.5-vl-7b": {**lm("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", 3584, 28, 28, 18944, 152064, 4), "tie_word_embeddings": False},
    "qwen2.5-vl-3b": {**lm("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", 2048, 36, 16, 11008, 151936, 2), "tie_word_embeddings": True},
    "qwen3-vl-4b": {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": True,
                    "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
                                    "num_attention_heads": 32, "num_key_value_heads": 8}},
}
# What code of its own reads elsewhere.
OF_ANOTHER_CLASS = {"kimi_k2": "deepseek_v3"}
# Of these the language model alone is counted.
TEXT_ALONE = ("gemma3", "mistral3", "llama4", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
OPENVLA = {"architectures": ["OpenVLAForActionPrediction"], "model_type": "openvla", "hf_llm_id": "meta-llama/Llama-2-7b-hf",
           "image_sizes": [224, 224], "llm_max_length": 2048, "text_config": {"model_type": "llama", "vocab_size": 32064},
           "timm_model_ids": ["vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"]}


def total(config):
    given = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    made = AutoConfig.for_model(OF_ANOTHER_CLASS.get(config["model_type"], config["model_type"]), **given)
    with torch.device("meta"):
        model = getattr(transformers, config["architectures"][0])(made)
    alone = config["model_type"] in TEXT_ALONE
    of_text = ("model.language_model.", "language_model.", "lm_head.")
    return sum(p.numel() for name, p in model.named_parameters() if not alone or name.startswith(of_text))


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
