"""Records what one transformer block of Hugging Face transformers allocates on a CPU, for tests/unit/plan.

    python record_block_memory.py > data/block_memory.json

Needs PyTorch and transformers.  For each case it runs the forward and the backward of one block under the profiler, which sees
every allocation and release of PyTorch's CPU allocator, and writes down, relative to the state before the forward:

* saved_bytes: what is still allocated after the forward, without the block's output;
* forward_peak_bytes, backward_peak_bytes: the most that is allocated at one time; the gradients of the parameters stay, and the
  gradient of the block's output counts;
* saved: bytes of each distinct storage that autograd saves, without parameters and the block's input, sorted;
* layer: which block of the model, where they differ and it is not the first;
* matmuls: [batch, m, n, k] of each matrix product, forward then backward, in order.

Peaks of blocks are recorded in float32 only: in bfloat16 the CPU's matrix products and sums take scratch memory of their own.

The same, less `saved`, under activation checkpointing (use_reentrant=False): `full`, and `selective` by torchtitan's per-op policy
(every second aten.mm is kept; eager attention has no other op of its list).  `heads` are final norm, vocabulary projection and
ForCausalLMLoss.

Experts run as transformers' grouped_mm (the usual choice on CUDA).  The sizes are large against what a profiler or Python itself might allocate, and small enough for a laptop.  Attention is eager:
the fused kernels of CPU and CUDA differ in what they save, eager attention does not.  Dropout is off: CPU and CUDA differ here too.
"""

import gc
import importlib
import json
import platform
import sys
import tempfile
import weakref

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from transformers.loss.loss_utils import ForCausalLMLoss

B, S = 2, 96

LLAMA = dict(
    hidden_size=192, intermediate_size=448, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=1, vocab_size=512,
    max_position_embeddings=256,
)
GRANITE = dict(embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.0078125, logits_scaling=8.0)
OPT = dict(hidden_size=192, ffn_dim=448, num_attention_heads=6, num_hidden_layers=1, vocab_size=512, max_position_embeddings=256, dropout=0.0)
BLOOM = dict(hidden_size=192, n_head=6, n_layer=1, vocab_size=512)
SECTIONS = dict(rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6]})
LLAMA4 = dict(LLAMA, head_dim=32, intermediate_size=128, intermediate_size_mlp=448, num_hidden_layers=4, num_local_experts=4)
EXPERTS = dict(moe_intermediate_size=128, num_experts_per_tok=2)
LATENT = dict(LLAMA, num_key_value_heads=6, q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32)
# name: (family, sizes, layer)
CASES = {
    "llama": ("llama", LLAMA),
    "llama_mha": ("llama", {**LLAMA, "num_key_value_heads": 6}),
    "llama_bias": ("llama", {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "qwen2": ("qwen2", LLAMA),
    "qwen3": ("qwen3", {**LLAMA, "head_dim": 64}),
    "gpt2": (
        "gpt2",
        dict(n_embd=192, n_head=6, n_layer=1, vocab_size=512, n_positions=256, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0),
    ),
    "olmo2": ("olmo2", LLAMA),
    "olmo2_mha": ("olmo2", {**LLAMA, "num_key_value_heads": 6}),
    "olmo3": ("olmo3", LLAMA),
    "granite": ("granite", {**LLAMA, **GRANITE}),
    "ministral": ("ministral", {**LLAMA, "head_dim": 64}),
    "ministral3": ("ministral3", {**LLAMA, "head_dim": 32}),
    "exaone4": ("exaone4", {**LLAMA, "num_hidden_layers": 4}),
    "exaone4_without_positions": ("exaone4", {**LLAMA, "num_hidden_layers": 4}, 3),
    "ernie4_5": ("ernie4_5", {**LLAMA, "head_dim": 64}),
    "ernie4_5_bias": ("ernie4_5", {**LLAMA, "num_key_value_heads": 6, "head_dim": 32, "use_bias": True}),
    "arcee": ("arcee", LLAMA),
    "arcee_bias": ("arcee", {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "olmo": ("olmo", {**LLAMA, "num_key_value_heads": 6}),
    "olmo_grouped_bias": ("olmo", {**LLAMA, "attention_bias": True}),
    "nemotron": ("nemotron", LLAMA),
    "nemotron_bias": ("nemotron", {**LLAMA, "num_key_value_heads": 6, "head_dim": 64, "attention_bias": True, "mlp_bias": True}),
    "smollm3": ("smollm3", {**LLAMA, "num_hidden_layers": 4}),
    "smollm3_without_positions": ("smollm3", {**LLAMA, "num_hidden_layers": 4}, 3),
    "seed_oss": ("seed_oss", {**LLAMA, "head_dim": 32, "pad_token_id": 0, "attention_dropout": 0.0, "residual_dropout": 0.0}),
    "starcoder2": ("starcoder2", LLAMA),
    "phi": ("phi", {**LLAMA, "num_key_value_heads": 6}),
    "phi_grouped_with_norms": ("phi", {**LLAMA, "qk_layernorm": True}),
    "phi3": ("phi3", {**LLAMA, "pad_token_id": 0}),
    "phi3_partial": ("phi3", {**LLAMA, "pad_token_id": 0, "partial_rotary_factor": 0.75}),
    "glm": ("glm", {**LLAMA, "head_dim": 64, "pad_token_id": 0}),
    "glm4": ("glm4", {**LLAMA, "head_dim": 64, "pad_token_id": 0, "attention_bias": False}),
    "cohere": ("cohere", LLAMA),
    "cohere_with_norms": ("cohere", {**LLAMA, "use_qk_norm": True}),
    "cohere2": ("cohere2", {**LLAMA, "num_hidden_layers": 4}),
    "cohere2_without_positions": ("cohere2", {**LLAMA, "num_hidden_layers": 4}, 3),
    "opt": ("opt", OPT),
    "bloom": ("bloom", BLOOM),
    "qwen2_5_vl": ("qwen2_5_vl_text", {**LLAMA, **SECTIONS}),
    "qwen3_vl": ("qwen3_vl_text", {**LLAMA, **SECTIONS, "head_dim": 32}),
    "mixtral": ("mixtral", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "phimoe": ("phimoe", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "phimoe_with_noise": ("phimoe", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True,
                                     "input_jitter_noise": 0.01}),
    "llama4": ("llama4_text", LLAMA4),
    "llama4_without_positions": ("llama4_text", LLAMA4, 3),
    "llama4_dense_bias": ("llama4_text", {**LLAMA4, "interleave_moe_layer_step": 2, "use_qk_norm": False, "attention_bias": True}),
    "granitemoe": ("granitemoe", {**LLAMA, **GRANITE, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": ("qwen2_moe", {**LLAMA, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 256}),
    "qwen3_moe": ("qwen3_moe", {**LLAMA, **EXPERTS, "num_experts": 4, "head_dim": 64}),
    "deepseek_v2": ("deepseek_v2", {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 2, "first_k_dense_replace": 0}),
    "deepseek_v3": ("deepseek_v3", {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 0,
                                    "n_group": 1, "topk_group": 1}),
    "olmoe": ("olmoe", {**LLAMA, "num_key_value_heads": 6, "num_experts": 4, "num_experts_per_tok": 2}),
    "glm4_moe": ("glm4_moe", {**LLAMA, **EXPERTS, "head_dim": 32, "n_routed_experts": 4, "n_shared_experts": 1,
                              "first_k_dense_replace": 0, "use_qk_norm": True, "attention_bias": True}),
    "glm4_moe_dense": ("glm4_moe", {**LLAMA, **EXPERTS, "head_dim": 32, "n_routed_experts": 4, "n_shared_experts": 1,
                                    "first_k_dense_replace": 1}),
    "gpt_oss": ("gpt_oss", {**LLAMA, "head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": ["full_attention"]}),
    "minimax_m2": ("minimax_m2", {**LLAMA, "head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2}),
}
NORMS = {"cohere": "LayerNorm", "olmo": "LayerNorm", "nemotron": "LayerNorm1P"}  # the others': RMSNorm
# What a CPU keeps in bfloat16 and CUDA in float32: the statistics of LayerNorm.
F32_ONLY = ("gpt2", "starcoder2", "phi", "opt", "nemotron", "bloom", "phimoe")


def class_of(kind, suffix):
    folder = kind.removesuffix("_text")
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    found = [name for name in dir(module) if name.endswith(suffix) and getattr(module, name).__module__ == module.__name__]
    return getattr(module, next(name for name in found if "Vision" not in name))


def build(kind, sizes, layer, dtype):
    config = transformers.AutoConfig.for_model(kind, **sizes)
    config._attn_implementation = "eager"
    config._experts_implementation = "grouped_mm"
    torch.manual_seed(0)
    block = class_of(kind, "Block" if kind in ("gpt2", "bloom") else "DecoderLayer")
    return config, block(config, layer_idx=layer).to(dtype).train()


def tables(kind, config, x):
    """cos and sin, or ALiBi's row of each head, which all blocks share; none with learned positions."""
    if kind in ("gpt2", "opt"):
        return ()
    if kind == "bloom":
        return (torch.randn(B * config.n_head, 1, S, dtype=x.dtype),)
    rotary = class_of(kind, "RotaryEmbedding")(config=config)
    of_layer = {"layer_type": config.layer_types[0]} if kind == "olmo3" else {}
    return rotary(x, torch.arange(S)[None], **of_layer)


def runner(kind, config, layer, dtype):
    hidden = sizes_hidden(config)
    x = torch.randn(B, S, hidden, dtype=dtype, requires_grad=True)
    mask = torch.full((S, S), torch.finfo(dtype).min, dtype=dtype).triu(1).expand(B, 1, S, S)
    shared = tables(kind, config, x)
    shared = shared if isinstance(shared, tuple) else (shared,)
    positions = {"position_embeddings": shared if len(shared) > 1 else shared[0]} if shared else {}
    if kind == "bloom":
        positions = {"alibi": shared[0]}
    if kind == "ministral3":
        positions["position_ids"] = torch.arange(S)[None]
    return x, shared, lambda x: layer(x, attention_mask=mask, use_cache=False, **positions)


def sizes_hidden(config):
    return config.hidden_size


def first(y):
    return y[0] if isinstance(y, tuple) else y


def memory_events(prof):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        prof.export_chrome_trace(f.name)
        events = json.load(open(f.name))["traceEvents"]
    marks = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "user_annotation"}
    rows = [
        (e["ts"], e["args"]["Total Allocated"])
        for e in events
        if e.get("name") == "[memory]" and e["args"].get("Device Type") == 0
    ]
    return marks, sorted(rows)


def every_second_mm():
    counts = {True: 0, False: 0}

    def policy(ctx, func, *args, **kwargs):
        if func != torch.ops.aten.mm.default:
            return CheckpointPolicy.PREFER_RECOMPUTE
        counts[ctx.is_recompute] += 1
        return CheckpointPolicy.PREFER_RECOMPUTE if counts[ctx.is_recompute] % 2 == 0 else CheckpointPolicy.MUST_SAVE

    return create_selective_checkpoint_contexts(policy)


def checkpointed(run, policy):
    options = {"use_reentrant": False, "preserve_rng_state": False}
    if policy == "full":
        return lambda x: checkpoint(run, x, **options)
    if policy == "selective":
        return lambda x: checkpoint(run, x, context_fn=every_second_mm, **options)
    return run


def profile(kind, sizes, layer, dtype, policy="none"):
    config, block = build(kind, sizes, layer, dtype)
    x, _, run = runner(kind, config, block, dtype)
    return measure(block, x, checkpointed(run, policy), dtype == torch.float32)


def measure(module, x, run, with_peaks):
    first(run(x)).sum().backward()  # warm up: lazy buffers of the library
    module.zero_grad(set_to_none=True)
    x.grad = None
    g = torch.ones_like(first(run(x)))
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        with torch.profiler.record_function("start"):
            probe = torch.empty(1 << 20, dtype=torch.uint8)
            del probe
        with torch.profiler.record_function("forward"):
            y = first(run(x))
        # The gradient that the block gets is the negation's: only the engine holds it, as in the middle of a model.
        z = y.neg()
        del y
        with torch.profiler.record_function("backward"):
            z.backward(g)
    marks, rows = memory_events(prof)
    before = [total for ts, total in rows if ts <= marks["start"][1]][-1]
    forward = [total - before for ts, total in rows if marks["forward"][0] <= ts <= marks["forward"][1]]
    output = z.numel() * z.element_size()
    backward = [total - before - output for ts, total in rows if marks["backward"][0] <= ts <= marks["backward"][1]]
    result = {"saved_bytes": forward[-1] - output}
    if with_peaks:
        result["forward_peak_bytes"] = max(forward)
        result["backward_peak_bytes"] = max(backward)
        result["after_backward_bytes"] = backward[-1]
    return result


class Head(torch.nn.Module):
    """The end of a ForCausalLM.forward; the caller keeps the logits until it has the loss."""

    def __init__(self, kind, config):
        super().__init__()
        self.kind = kind
        self.config = config
        if kind == "phi":
            self.norm = torch.nn.LayerNorm(config.hidden_size)
        else:
            self.norm = class_of(kind, NORMS.get(kind, "RMSNorm"))(config.hidden_size)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=kind == "phi")

    def forward(self, x, labels):
        logits = self.lm_head(self.norm(x))
        if self.kind == "granite":
            logits = logits / self.config.logits_scaling
        if self.kind == "cohere":
            logits = logits * self.config.logit_scale
        loss = ForCausalLMLoss(logits, labels, logits.shape[-1])
        del logits
        return loss


def measure_head(kind, sizes, dtype):
    hidden, vocab = sizes["hidden_size"], sizes["vocab_size"]
    module = Head(kind, transformers.AutoConfig.for_model(kind, **sizes)).to(dtype)
    labels = torch.randint(0, vocab, (B, S))
    x = torch.randn(B, S, hidden, dtype=dtype, requires_grad=True)
    return measure(module, x, lambda x: module(x, labels), True)


class Matmuls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.rows = []

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        name = f.overloadpacket.__name__
        if name in ("mm", "addmm"):
            a, b = args[-2:]
            self.rows.append([1, a.shape[0], b.shape[1], a.shape[1]])
        elif name in ("bmm", "baddbmm"):
            a, b = args[-2:]
            self.rows.append([a.shape[0], a.shape[1], b.shape[2], a.shape[2]])
        elif name == "_grouped_mm":
            a, b = args[:2]
            groups = args[2].shape[0]
            if b.dim() == 3:
                self.rows.append([groups, a.shape[0] // groups, b.shape[2], a.shape[1]])
            else:
                self.rows.append([groups, a.shape[0], b.shape[1], a.shape[1] // groups])
        return out


class Packed:
    """A saved tensor: it goes with the node that saved it, which may be dropped before the forward ends (a choice of experts)."""

    def __init__(self, tensor):
        self.tensor = tensor


def saved(kind, sizes, layer, dtype):
    config, block = build(kind, sizes, layer, dtype)
    x, shared, run = runner(kind, config, block, dtype)
    own = [*block.parameters(), x, *shared]
    mine = {t.untyped_storage().data_ptr() for t in own}
    kept = weakref.WeakSet()

    def pack(t):
        kept.add(packed := Packed(t))
        return packed

    matmuls = Matmuls()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor), matmuls:
        y = first(run(x))
        alive = {packed.tensor.untyped_storage().data_ptr(): packed.tensor.untyped_storage().nbytes() for packed in kept}
        torch.autograd.backward(y, torch.randn_like(y))
    return {"saved": sorted(size for pointer, size in alive.items() if pointer not in mine), "matmuls": matmuls.rows}


def main():
    cases = []
    for name, (kind, sizes, *which) in CASES.items():
        layer = which[0] if which else 0
        for dtype in (torch.float32, torch.bfloat16):
            if kind in F32_ONLY and dtype == torch.bfloat16:
                continue
            row = {"name": name, "dtype": {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]}
            row["config"] = {"model_type": kind, **sizes}
            if layer > 0:
                row["layer"] = layer
            row.update(profile(kind, sizes, layer, dtype))
            row.update(saved(kind, sizes, layer, dtype))
            if dtype == torch.float32:
                row["full"] = profile(kind, sizes, layer, dtype, "full")
                row["selective"] = profile(kind, sizes, layer, dtype, "selective")
            cases.append(row)
    heads = []
    ends = [("wide", "llama", {**LLAMA, "vocab_size": 4096}), ("narrow", "llama", {**LLAMA, "vocab_size": 160})]
    ends += [
        (f"{kind} wide", kind, {**LLAMA, **more, "vocab_size": 4096})
        for kind, more in (("granite", GRANITE), ("cohere", {}), ("olmo2", {}), ("phi", {"num_key_value_heads": 6}),
                           ("olmo", {}), ("nemotron", {}))
    ]
    for name, kind, sizes in ends:
        for dtype in (torch.float32, torch.bfloat16):
            if kind in F32_ONLY and dtype == torch.bfloat16:
                continue
            config = {"model_type": kind, **sizes}
            measured = measure_head(kind, sizes, dtype)
            heads.append({"name": name, "dtype": "f32" if dtype == torch.float32 else "bf16", "config": config, **measured})
    head = {
        "recorded_by": "tests/oracles/record_block_memory.py",
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "batch": B,
        "positions": S,
    }
    out = json.dumps(head, indent=1)[:-2] + ',\n "cases": [\n'
    out += ",\n".join("  " + json.dumps(c) for c in cases) + "\n ],\n \"heads\": [\n"
    out += ",\n".join("  " + json.dumps(c) for c in heads) + "\n ]\n}\n"
    sys.stdout.write(out)


if __name__ == "__main__":
    main()
