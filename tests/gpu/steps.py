"""Training steps of Llamas in PyTorch under FSDP2, on one GPU: one rank of many.

    steps.py OUT.json [--trace FOLDER] [--device cpu --tiny] CASE...

The rank computes, holds and schedules what a rank of a real job does. Its collectives move no byte
over a link: an all-gather copies the own shard to where those of the others would lie, and a
reduce-scatter keeps the own part. So the time is that of compute and host. The scripts follow
torchtitan: complex rotary embedding, keys and values repeated, loss in fp32 without the logits held,
AdamW, clipping, selective checkpointing by op, blocks compiled one by one.
"""

import argparse
import functools
import gzip
import json
import os
import shutil
import statistics
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# hidden, layers, heads, kv heads, intermediate, vocabulary
LLAMA_8B = (4096, 32, 32, 8, 14336, 128256)
LLAMA_1B = (2048, 16, 32, 8, 8192, 128256)
TINY = (128, 2, 4, 2, 256, 512)

# By name: dimensions, and what the keys of a workload say.
BASE = dict(layers=None, micro_batch=1, seq_len=8192, world_size=8, checkpointing="none", compile=False,
            compile_loss=False, float8=None, optimizer="foreach", repeat_kv=True, complex_rotary=True,
            wrap="block", attention="sdpa", family="llama", fused_norm=True)


def case(model, **choices):
    return dict(BASE, model=model, **choices)


CASES = {
    "8b-selective": case("8b", checkpointing="selective"),
    "8b-full": case("8b", checkpointing="full"),
    "8b-none-l12": case("8b", layers=12),
    "8b-selective-l12": case("8b", layers=12, checkpointing="selective"),
    "8b-full-l12": case("8b", layers=12, checkpointing="full"),
    "8b-fused-l12": case("8b", layers=12, checkpointing="selective", optimizer="fused"),
    "8b-selective-compile": case("8b", checkpointing="selective", compile=True),
    "8b-full-compile": case("8b", checkpointing="full", compile=True),
    "8b-none-compile-l12": case("8b", layers=12, compile=True),
    "8b-selective-compile-l12": case("8b", layers=12, checkpointing="selective", compile=True),
    "8b-full-compile-l12": case("8b", layers=12, checkpointing="full", compile=True),
    "8b-compile-loss-l12": case("8b", layers=12, checkpointing="selective", compile=True, compile_loss=True),
    "8b-tensorwise-compile-l12": case("8b", layers=12, checkpointing="selective", compile=True, float8="tensorwise"),
    "8b-rowwise-compile-l12": case("8b", layers=12, checkpointing="selective", compile=True, float8="rowwise"),
    "8b-tensorwise-l12": case("8b", layers=12, checkpointing="selective", float8="tensorwise"),
    "8b-plain-rotary-compile-l12": case("8b", layers=12, checkpointing="selective", compile=True,
                                        complex_rotary=False),
    "8b-plain-rotary-l12": case("8b", layers=12, checkpointing="selective", complex_rotary=False),
    "8b-gqa-l12": case("8b", layers=12, checkpointing="selective", repeat_kv=False),
    "8b-s2048-l12": case("8b", layers=12, seq_len=2048),
    "8b-s2048-mb4-l12": case("8b", layers=12, seq_len=2048, micro_batch=4),
    "1b-none": case("1b", micro_batch=2, seq_len=4096),
    "1b-full": case("1b", micro_batch=2, seq_len=4096, checkpointing="full"),
    "1b-none-compile": case("1b", micro_batch=2, seq_len=4096, compile=True),
    "1b-small": case("1b", micro_batch=1, seq_len=256),
    "1b-small-full": case("1b", micro_batch=1, seq_len=256, checkpointing="full"),
    "1b-small-l8": case("1b", seq_len=256, layers=8),
    "1b-small-model": case("1b", seq_len=256, wrap="model"),
    "1b-small-plain": case("1b", seq_len=256, wrap="none"),
    "1b-small-plain-l8": case("1b", seq_len=256, wrap="none", layers=8),
    "1b-small-plain-fused": case("1b", seq_len=256, wrap="none", optimizer="fused"),
    "1b-small-fused": case("1b", seq_len=256, optimizer="fused"),
    "1b-small-selective": case("1b", seq_len=256, checkpointing="selective"),
    "1b-small-full-compile": case("1b", seq_len=256, checkpointing="full", compile=True),
    "1b-small-plain-full": case("1b", seq_len=256, wrap="none", checkpointing="full", optimizer="fused"),
    "1b-small-plain-compile": case("1b", seq_len=256, wrap="none", compile=True, optimizer="fused"),
    "1b-small-plain-selective": case("1b", seq_len=256, wrap="none", checkpointing="selective", optimizer="fused"),
    "1b-small-plain-tensorwise": case("1b", seq_len=256, wrap="none", float8="tensorwise", optimizer="fused"),
    "1b-small-compile": case("1b", seq_len=256, compile=True),
    "1b-small-tensorwise": case("1b", seq_len=256, float8="tensorwise"),
    "1b-hf": case("1b", micro_batch=2, seq_len=4096, family="hf", complex_rotary=False, repeat_kv=False),
    "8b-flash-l12": case("8b", layers=12, attention="flash"),
    "8b-flash-selective-l12": case("8b", layers=12, attention="flash", checkpointing="selective"),
    "8b-chain-selective-l12": case("8b", layers=12, checkpointing="selective", fused_norm=False),
    "8b-chain-selective-compile-l12": case("8b", layers=12, checkpointing="selective", fused_norm=False, compile=True),
    "8b-chain-selective-mb2-l12": case("8b", layers=12, micro_batch=2, checkpointing="selective", fused_norm=False),
    "8b-chain-selective-mb2-compile-l12": case("8b", layers=12, micro_batch=2, checkpointing="selective",
                                               fused_norm=False, compile=True),
    "8b-chain-tensorwise-l12": case("8b", layers=12, checkpointing="selective", fused_norm=False, float8="tensorwise"),
    "1b-one-rank": case("1b", micro_batch=2, seq_len=4096, world_size=1),
}


def rotate(x, turns, is_complex):
    if is_complex:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)
    cosine, sine = turns
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cosine[None, :, None, :] + turned * sine[None, :, None, :]


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads, repeat_kv, complex_rotary):
        super().__init__()
        self.size = hidden // heads
        self.repeats, self.repeat_kv, self.complex = heads // kv_heads, repeat_kv, complex_rotary
        self.wq = nn.Linear(hidden, heads * self.size, bias=False)
        self.wk = nn.Linear(hidden, kv_heads * self.size, bias=False)
        self.wv = nn.Linear(hidden, kv_heads * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, hidden, bias=False)

    def forward(self, x, turns):
        batch, tokens, _ = x.shape
        q, k, v = (w(x).view(batch, tokens, -1, self.size) for w in (self.wq, self.wk, self.wv))
        q, k = (rotate(each, turns, self.complex) for each in (q, k))
        if self.repeat_kv:
            k, v = (each[:, :, :, None, :].expand(-1, -1, -1, self.repeats, -1).flatten(2, 3) for each in (k, v))
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=not self.repeat_kv)
        return self.wo(out.transpose(1, 2).contiguous().view(batch, tokens, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.w1 = nn.Linear(hidden, intermediate, bias=False)
        self.w2 = nn.Linear(intermediate, hidden, bias=False)
        self.w3 = nn.Linear(hidden, intermediate, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class ChainNorm(nn.Module):
    """What torch.nn.RMSNorm dispatched before PyTorch 2.9."""

    def __init__(self, hidden, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True).add_(self.eps))
        return (wide * scale).type_as(x) * self.weight


def norm_of(fused):
    return nn.RMSNorm if fused else ChainNorm


class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, intermediate, repeat_kv, complex_rotary, fused_norm):
        super().__init__()
        self.attention = Attention(hidden, heads, kv_heads, repeat_kv, complex_rotary)
        self.feed_forward = FeedForward(hidden, intermediate)
        self.attention_norm = norm_of(fused_norm)(hidden, eps=1e-5)
        self.ffn_norm = norm_of(fused_norm)(hidden, eps=1e-5)

    def forward(self, x, turns):
        h = x + self.attention(self.attention_norm(x), turns)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    def __init__(self, hidden, layers, heads, kv_heads, intermediate, vocabulary, repeat_kv, complex_rotary,
                 fused_norm):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleDict(
            {str(i): Block(hidden, heads, kv_heads, intermediate, repeat_kv, complex_rotary, fused_norm)
             for i in range(layers)})
        self.norm = norm_of(fused_norm)(hidden, eps=1e-5)
        self.output = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, tokens, turns):
        x = self.embedding(tokens)
        for layer in self.layers.values():
            x = layer(x, turns)
        return self.output(self.norm(x))


def transformers_llama(hidden, layers, heads, kv_heads, intermediate, vocabulary):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=intermediate, vocab_size=vocabulary, attn_implementation="sdpa"))


def turns_of(tokens, size, is_complex, device):
    rates = 500000.0 ** (-torch.arange(0, size, 2, device=device).float() / size)
    angles = torch.outer(torch.arange(tokens, device=device).float(), rates)
    if is_complex:
        return torch.polar(torch.ones_like(angles), angles)
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().bfloat16(), both.sin().bfloat16()


class Done:
    """What a collective that has nothing to wait for returns."""

    def wait(self, *_):
        return True


def use_no_links(world_size):
    """A group of `world_size` ranks of which this is the first."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())

    def all_gather(output_tensor, input_tensor, group=None, async_op=False):
        parts = output_tensor.view(dist.get_world_size(group), -1)
        parts[1:].copy_(input_tensor.view(1, -1))
        if parts.data_ptr() != input_tensor.data_ptr():
            parts[0].copy_(input_tensor.view(-1))
        return Done()

    def reduce_scatter(output, input, op=None, group=None, async_op=False):
        output.view(-1).copy_(input.view(dist.get_world_size(group), -1)[0])
        return Done()

    dist.all_gather_into_tensor = all_gather
    dist.reduce_scatter_tensor = reduce_scatter


def checkpointed(block, how):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    if how == "none":
        return block
    if how == "full":
        return checkpoint_wrapper(block, preserve_rng_state=False)
    mm = torch.ops.aten.mm.default
    saved = {mm, torch.ops.aten._scaled_dot_product_efficient_attention.default,
             torch.ops.aten._scaled_dot_product_flash_attention.default,
             torch.ops.aten._scaled_dot_product_cudnn_attention.default,
             torch.ops.aten.max.default}

    def context():
        counts = {True: 0, False: 0}

        def policy(ctx, op, *_, **__):
            if op == mm:
                counts[ctx.is_recompute] += 1
            keeps = op in saved and not (op == mm and counts[ctx.is_recompute] % 2 == 0)
            return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return checkpoint_wrapper(block, context_fn=context, preserve_rng_state=False)


def to_float8(model, recipe):
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    if recipe == "rowwise":
        torch._inductor.config.emulate_precision_casts = True
    config = (Float8LinearConfig.from_recipe_name("rowwise") if recipe == "rowwise" else Float8LinearConfig())
    convert_to_float8_training(model, config=config, module_filter_fn=lambda module, name: "output" not in name)


def train(name, settings, device, tiny, trace_folder, steps=6, warm_up=4):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dimensions = list(TINY if tiny else {"8b": LLAMA_8B, "1b": LLAMA_1B}[settings["model"]])
    if settings["layers"] and not tiny:
        dimensions[1] = settings["layers"]
    batch, tokens = settings["micro_batch"], 64 if tiny else settings["seq_len"]
    if settings["world_size"] > 1:
        use_no_links(settings["world_size"])
    else:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
        dist.init_process_group("nccl" if device == "cuda" else "gloo", rank=0, world_size=1)
    mesh = dist.device_mesh.init_device_mesh(device, (settings["world_size"],))
    torch.manual_seed(1)
    if device == "cuda" and settings["attention"] == "flash":
        torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("meta"):
        model = (transformers_llama(*dimensions) if settings["family"] == "hf" else
                 Llama(*dimensions, settings["repeat_kv"], settings["complex_rotary"], settings["fused_norm"]))
    if settings["float8"]:
        to_float8(model, settings["float8"])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if settings["family"] == "hf":
        for block in model.model.layers:
            fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    for number, block in list(model.layers.items()) if settings["family"] == "llama" else []:
        block = checkpointed(block, settings["checkpointing"])
        if settings["compile"]:
            block = torch.compile(block, fullgraph=True)
        model.layers.register_module(number, block)
        if settings["wrap"] == "block":
            fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    if settings["wrap"] == "none":
        model.bfloat16()
    else:
        fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    with torch.no_grad():
        for parameter in model.parameters():
            shard = parameter if settings["wrap"] == "none" else parameter.to_local()
            shard.normal_(0, 0.02) if parameter.dim() > 1 else shard.fill_(1)
        for key, buffer in model.named_buffers():
            if key.endswith("inv_freq"):
                buffer.copy_(10000.0 ** (-torch.arange(buffer.numel(), device=device) / buffer.numel()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1,
                                  foreach=settings["optimizer"] == "foreach", fused=settings["optimizer"] == "fused")
    turns = turns_of(tokens, dimensions[0] // dimensions[2], settings["complex_rotary"], device)
    inputs = torch.randint(0, dimensions[5], (batch, tokens), device=device)
    labels = torch.randint(0, dimensions[5], (batch, tokens), device=device)

    def loss_of(logits, wanted):
        return F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(0, 1))

    if settings["compile_loss"]:
        loss_of = torch.compile(loss_of)

    parts = {}

    def step():
        began = time.perf_counter()

        def part(name):
            nonlocal began
            now = time.perf_counter()
            parts.setdefault(name, []).append(1e3 * (now - began))
            began = now

        optimizer.zero_grad()
        part("zero_grad")
        if settings["family"] == "hf":
            loss = model(input_ids=inputs, labels=inputs, use_cache=False).loss
            part("forward")
        else:
            logits = model(inputs, turns)
            part("forward")
            loss = loss_of(logits, labels)
            del logits
            part("loss")
        loss.backward()
        part("backward")
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        if hasattr(norm, "full_tensor"):
            norm = norm.full_tensor()
        part("clip")
        optimizer.step()
        part("optimizer")
        return loss.detach()

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(warm_up):
        loss = step()
    synchronize()
    out = {"id": name, "settings": settings, "loss": float(loss), "torch": torch.__version__}
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        ends[0].record()
    began = time.perf_counter()
    for i in range(steps):
        step()
        if device == "cuda":
            ends[i + 1].record()
    queued = time.perf_counter()
    synchronize()
    ended = time.perf_counter()
    out["mean_step_ms"] = 1e3 * (ended - began) / steps
    out["host_step_ms"] = 1e3 * (queued - began) / steps
    out["host_parts_ms"] = {name: round(statistics.median(each[-steps:]), 3) for name, each in parts.items()}
    if device == "cuda":
        each = [a.elapsed_time(b) for a, b in zip(ends, ends[1:])]
        stats = torch.cuda.memory_stats()
        out.update(gpu=torch.cuda.get_device_name(), step_ms=statistics.median(each), step_ms_each=each,
                   peak_allocated_bytes=stats["allocated_bytes.all.peak"],
                   peak_reserved_bytes=stats["reserved_bytes.all.peak"],
                   retries=stats["num_alloc_retries"])
        if trace_folder:
            record(step, os.path.join(trace_folder, name))
    return out


def packed(path):
    with open(path, "rb") as plain, gzip.open(path + ".gz", "wb", 6) as file:
        shutil.copyfileobj(plain, file)
    os.remove(path)


def record(step, path):
    """A trace and the allocator's history of a step each."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as profiler:
        step()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(path + ".json")
    packed(path + ".json")
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=400_000)
    step()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(path + ".pickle")
    torch.cuda.memory._record_memory_history(enabled=None)
    packed(path + ".pickle")


def in_child(function, limit_s):
    """What `function` returns, from a process of its own; or {"error": …}."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            out = function()
        except BaseException as error:
            traceback.print_exc()
            out = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        with os.fdopen(writer, "w") as pipe:
            json.dump(out, pipe)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(writer)
    import select
    import signal

    ready, _, _ = select.select([reader], [], [], limit_s)
    if not ready:
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "no answer in time"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--trace", default="", help="folder for a trace and a memory snapshot of each case named NAME+")
    parser.add_argument("--limit", type=float, default=150, help="seconds a case")
    parser.add_argument("--until", type=float, default=1e9, help="no case begins after so many seconds")
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    began = time.time()
    results = []
    for name in options.cases:
        traced, name = name.endswith("+"), name.rstrip("+")
        if time.time() - began > options.until:
            print(f"{name}: left out, no time", flush=True)
            continue
        start = time.time()
        result = in_child(functools.partial(train, name, CASES[name], options.device, options.tiny,
                                            options.trace if traced else ""), options.limit)
        result.setdefault("id", name)
        results.append(result)
        with open(options.out, "w") as file:
            json.dump(results, file, indent=1)
        print(name, f"{time.time() - start:.0f} s:",
              result.get("error") or {key: value for key, value in result.items()
                                      if key not in ("id", "settings", "torch", "gpu", "step_ms_each")}, flush=True)


if __name__ == "__main__":
    main()
