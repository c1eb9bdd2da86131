"""Records what one transformer block of Hugging Face transformers allocates on a CPU, for tests/unit/plan.

    python record_block_memory.py > data/block_memory.json

Needs PyTorch and transformers.  For each case it runs the forward and the backward of one block under the profiler, which sees
every allocation and release of PyTorch's CPU allocator, and writes down, relative to the state before the forward:

* saved_bytes: what is still allocated after the forward, without the block's output;
* forward_peak_bytes, backward_peak_bytes: the most that is allocated at one time; the gradients of the parameters stay, and the
  gradient of the block's output counts;
* saved: bytes of each distinct storage that autograd saves, without parameters and the block's input, sorted;
* matmuls: [batch, m, n, k] of each matrix product, forward then backward, in order.

Peaks of blocks are recorded in float32 only: in bfloat16 the CPU's matrix products and sums take scratch memory of their own.

The same, less `saved`, under activation checkpointing (use_reentrant=False): `full`, and `selective` by torchtitan's per-op policy
(every second aten.mm is kept; eager attention has no other op of its list).  `heads` are final norm, vocabulary projection and
ForCausalLMLoss.

The sizes are large against what a profiler or Python itself might allocate, and small enough for a laptop.  Attention is eager:
the fused kernels of CPU and CUDA differ in what they save, eager attention does not.  Dropout is off: CPU and CUDA differ here too.
"""

import gc
import json
import platform
import sys
import tempfile

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from transformers.loss.loss_utils import ForCausalLMLoss
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

B, S = 2, 96

LLAMA = dict(
    hidden_size=192, intermediate_size=448, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=1, vocab_size=512,
    max_position_embeddings=256,
)
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
}


def build(kind, sizes, dtype):
    config = transformers.AutoConfig.for_model(kind, **sizes)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    layers = {"llama": LlamaDecoderLayer, "qwen2": Qwen2DecoderLayer, "qwen3": Qwen3DecoderLayer, "gpt2": GPT2Block}
    return config, layers[kind](config, layer_idx=0).to(dtype).train()


def runner(kind, config, layer, dtype):
    hidden = sizes_hidden(config)
    x = torch.randn(B, S, hidden, dtype=dtype, requires_grad=True)
    mask = torch.full((S, S), torch.finfo(dtype).min, dtype=dtype).triu(1).expand(B, 1, S, S)
    if kind == "gpt2":
        return x, lambda x: layer(x, attention_mask=mask, use_cache=False)
    dim = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    angles = torch.randn(1, S, dim)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    return x, lambda x: layer(x, attention_mask=mask, position_embeddings=(cos, sin), use_cache=False)


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


def profile(kind, sizes, dtype, policy="none"):
    config, layer = build(kind, sizes, dtype)
    x, run = runner(kind, config, layer, dtype)
    return measure(layer, x, checkpointed(run, policy), dtype == torch.float32)


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


class LlamaHead(torch.nn.Module):
    """The end of LlamaForCausalLM.forward; the caller keeps the logits until it has the loss."""

    def __init__(self, hidden, vocab):
        super().__init__()
        self.norm = LlamaRMSNorm(hidden)
        self.lm_head = torch.nn.Linear(hidden, vocab, bias=False)

    def forward(self, x, labels):
        logits = self.lm_head(self.norm(x))
        loss = ForCausalLMLoss(logits, labels, logits.shape[-1])
        del logits
        return loss


def measure_head(sizes, dtype):
    hidden, vocab = sizes["hidden_size"], sizes["vocab_size"]
    module = LlamaHead(hidden, vocab).to(dtype)
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
        elif name == "bmm":
            a, b = args
            self.rows.append([a.shape[0], a.shape[1], b.shape[2], a.shape[2]])
        return out


def saved(kind, sizes, dtype):
    config, layer = build(kind, sizes, dtype)
    x, run = runner(kind, config, layer, dtype)
    mine = {p.untyped_storage().data_ptr() for p in layer.parameters()} | {x.untyped_storage().data_ptr()}
    kept = {}

    def pack(t):
        kept[t.untyped_storage().data_ptr()] = t
        return t

    matmuls = Matmuls()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), matmuls:
        y = first(run(x))
        torch.autograd.backward(y, torch.randn_like(y))
    table = S * (getattr(config, "head_dim", None) or sizes_hidden(config) // config.num_attention_heads) * y.element_size()
    rows = sorted(t.untyped_storage().nbytes() for k, t in kept.items() if k not in mine)
    if kind != "gpt2":  # cos and sin, which all blocks share
        rows.remove(table)
        rows.remove(table)
    return {"saved": rows, "matmuls": matmuls.rows}


def main():
    cases = []
    for name, (kind, sizes) in CASES.items():
        for dtype in (torch.float32, torch.bfloat16):
            if kind == "gpt2" and dtype == torch.bfloat16:
                continue  # a CPU keeps the statistics of LayerNorm in bfloat16, CUDA in float32
            row = {"name": name, "dtype": {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]}
            row["config"] = {"model_type": kind, **sizes}
            row.update(profile(kind, sizes, dtype))
            row.update(saved(kind, sizes, dtype))
            if dtype == torch.float32:
                row["full"] = profile(kind, sizes, dtype, "full")
                row["selective"] = profile(kind, sizes, dtype, "selective")
            cases.append(row)
    heads = []
    for name, sizes in (("wide", {**LLAMA, "vocab_size": 4096}), ("narrow", {**LLAMA, "vocab_size": 160})):
        for dtype in (torch.float32, torch.bfloat16):
            config = {"model_type": "llama", **sizes}
            heads.append({"name": name, "dtype": "f32" if dtype == torch.float32 else "bf16", "config": config, **measure_head(sizes, dtype)})
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
