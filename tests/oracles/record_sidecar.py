#!/usr/bin/env python3
"""Records small jobs with the side-car (profiler/torch/foregather_torch.py): its workload and its recording of one step, which
tests/models/sidecar_oracle_test.cpp holds against each other.

    python3 record_sidecar.py            # all cases, into data/sidecar/
    python3 record_sidecar.py CASE DIR   # one case, into DIR

Two processes (gloo, loopback) train four steps; the last one is recorded. Of each case CASE.toml and CASE.json.gz, rank 0's trace, are
kept. Gradients with and without the side-car must be the same bits, or the script stops.
"""

import gzip
import json
import os
import shutil
import sys
import tempfile
import traceback
import types
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "profiler", "torch"))
sys.dont_write_bytecode = True

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor

import foregather_torch as fg

STEPS, WORLD, BATCH, SEQ, VOCABULARY, WIDTH = 4, 2, 2, 8, 64, 16
BF16 = (torch.bfloat16, torch.float32)


class Attention(nn.Module):
    """Grouped heads: two of queries, one of keys and values."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.v_proj, self.o_proj = nn.Linear(WIDTH, WIDTH // 2, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q = self.q_proj(x).view(BATCH, SEQ, 2, -1).transpose(1, 2)
        k, v = (p(x).view(BATCH, SEQ, 1, -1).transpose(1, 2) for p in (self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(BATCH, SEQ, WIDTH))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, 40, bias=False), nn.Linear(WIDTH, 40, bias=False)
        self.down_proj = nn.Linear(40, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm, self.attention, self.post_norm, self.mlp = nn.RMSNorm(WIDTH), Attention(), nn.RMSNorm(WIDTH), Mlp()
        self.gain = nn.Parameter(torch.ones(WIDTH))  # a module that holds parameters and modules

    def forward(self, x):
        x = x + self.gain * self.attention(self.input_norm(x))
        return x + self.mlp(self.post_norm(x))


class Decoder(nn.Module):
    """A Llama-like language model with a table of positions."""

    def __init__(self, layers, tied):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(SEQ, WIDTH))
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Block() for _ in range(layers)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("scale", torch.tensor(1.0))
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x) * self.scale)


class Encoder(nn.Module):
    """torch.nn.TransformerEncoder between linears."""

    def __init__(self):
        super().__init__()
        self.into = nn.Sequential(nn.Linear(6, WIDTH), nn.ReLU(), nn.Dropout(0.0))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 24, dropout=0.0), 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.out(self.encoder(self.into(x)))


def sharded2(model, units, mixed=(None, None), **options):
    """fully_shard() of `units` and of the root."""
    mesh = init_device_mesh("cpu", (WORLD,))
    for unit in [*units, model]:
        fully_shard(unit, mesh=mesh, mp_policy=MixedPrecisionPolicy(*mixed), **options)
    return model


def sharded1(model, classes, mixed=(None, None), **options):
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy(classes), device_id=torch.device("cpu"),
                                    mixed_precision=MixedPrecision(*mixed), **options)


def decoder2(layers=2, tied=False, ends=False, **options):
    model = Decoder(layers, tied)
    return sharded2(model, [model.embed, *model.layers, model.head] if ends else model.layers, **options)


def checkpointed2():
    model = Decoder(2, False)
    for i, layer in enumerate(model.layers):
        model.layers[i] = checkpoint_wrapper(layer)
    return sharded2(model, model.layers)


def listed2():
    """Tied ends as one unit, and a root that is gathered again."""
    model = Decoder(2, True)
    for layer in model.layers:
        fully_shard(layer, mesh=init_device_mesh("cpu", (WORLD,)))
    fully_shard([model.embed, model.norm, model.head], mesh=init_device_mesh("cpu", (WORLD,)))
    return fully_shard(model, mesh=init_device_mesh("cpu", (WORLD,)), reshard_after_forward=True)


def frozen(wrap, model, *parts):
    """Without gradients of the parameters whose names have one of the parts."""
    for name, p in model.named_parameters():
        p.requires_grad = not any(part in name for part in parts)
    return wrap(model)


def autocast(model):
    """With a forward that torch.autocast decorates, as accelerate's."""
    model.forward = types.MethodType(torch.autocast("cpu", torch.bfloat16)(type(model).forward), model)
    return model


def buffered(model):
    """With more buffers: two of one dtype, and one of another."""
    model.layers[1].register_buffer("offset", torch.zeros(5))
    model.register_buffer("places", torch.arange(3))
    return model


CASES = {
    "ddp_unused": lambda: nn.parallel.DistributedDataParallel(buffered(Decoder(2, False)), bucket_cap_mb=0.005,
                                                              find_unused_parameters=True),
    "fsdp2_autocast": lambda: autocast(decoder2()),
    "fsdp2_autocast_tied": lambda: autocast(decoder2(tied=True, mixed=(None, torch.bfloat16))),
    "ddp_autocast": lambda: autocast(nn.parallel.DistributedDataParallel(Encoder(), bucket_cap_mb=0.005)),
    "fsdp2_list": listed2,
    "fsdp2_frozen": lambda: frozen(lambda m: sharded2(m, m.layers), Decoder(2, False), "attention", "embed", "positions"),
    "fsdp1_frozen": lambda: frozen(lambda m: sharded1(m, {Block}, use_orig_params=False), Decoder(2, False), "layers.0."),
    "ddp_frozen": lambda: frozen(lambda m: nn.parallel.DistributedDataParallel(m, bucket_cap_mb=0.001), Encoder(), "layers.0", "into"),
    "fsdp2": lambda: decoder2(ends=True),
    "fsdp2_tied": lambda: decoder2(tied=True),
    "fsdp2_bf16_keep": lambda: decoder2(mixed=BF16, reshard_after_forward=False),
    "fsdp2_checkpointed": checkpointed2,
    "fsdp1": lambda: sharded1(Decoder(2, False), {Block, nn.Embedding}),
    "fsdp1_tied_flat": lambda: sharded1(Decoder(2, True), {Block}, use_orig_params=False),
    "fsdp1_bf16": lambda: sharded1(Decoder(2, False), {Block}, mixed=BF16, backward_prefetch=None),
    "ddp": lambda: nn.parallel.DistributedDataParallel(Encoder(), bucket_cap_mb=0.005),
    "fsdp2_encoder": lambda: sharded2(e := Encoder(), e.encoder.layers),
}


def step(model, optimizer, n):
    torch.manual_seed(100 + n)
    inner = getattr(model, "module", model)
    if isinstance(inner, Encoder):
        loss = model(torch.rand(SEQ, BATCH, 6)).sum()
    else:
        ids = torch.randint(0, VOCABULARY, (BATCH, SEQ))
        loss = F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())
    loss.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    optimizer.step()
    optimizer.zero_grad()
    return gradients


def keep(trace, path):
    """Without what names this machine, the flow arrows and arguments that nothing here reads."""
    with gzip.open(trace) as file:
        recorded = json.load(file)
    recorded = {k: v for k, v in recorded.items() if k not in ("host_name", "traceName", "trace_id")}
    recorded["traceEvents"] = [e for e in recorded["traceEvents"] if e["ph"] not in ("s", "f")]
    for event in recorded["traceEvents"]:
        for key in ("Input Strides", "Concrete Inputs", "Record function id", "Ev Idx", "External id"):
            event.get("args", {}).pop(key, None)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(json.dumps(recorded, separators=(",", ":")).encode())


def same(ours, theirs):
    local = lambda t: t.to_local() if isinstance(t, DTensor) else t
    return all(torch.equal(local(a), local(b)) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


def made(case):
    torch.manual_seed(0)
    model = CASES[case]()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def run_case(rank, rendezvous, case, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, init_method=f"file://{rendezvous}")
    plain, optimizer = made(case)
    expected = [step(plain, optimizer, n) for n in range(STEPS)]
    model, optimizer = made(case)
    about = {"optimizer": optimizer, "micro_batch": BATCH, "seq_len": SEQ}
    with fg.Recorder(folder, steps=[STEPS - 1], model=model) as recorder:
        found = []
        for n in range(STEPS):
            found.append(step(model, optimizer, n))
            recorder.step()
    assert same(found, expected), "other gradients"
    if rank == 0:
        fg.write_workload(os.path.join(folder, f"{case}.toml"), model, **about)
        keep(recorder.files[0], os.path.join(folder, f"{case}.json.gz"))
    dist.barrier()


def child(rank, *args):
    try:
        run_case(rank, *args)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def record(case, folder):
    with tempfile.TemporaryDirectory() as d:
        context = mp.get_context("spawn")
        processes = [context.Process(target=child, args=(r, os.path.join(d, "store"), case, d), daemon=True) for r in range(WORLD)]
        for p in processes:
            p.start()
        for p in processes:
            p.join(300)
        if any(p.exitcode != 0 for p in processes):
            raise RuntimeError(f"{case}: exit codes {[p.exitcode for p in processes]}")
        os.makedirs(folder, exist_ok=True)
        for ending in ("toml", "json.gz"):
            shutil.copy(os.path.join(d, f"{case}.{ending}"), folder)


def main():
    cases, folder = ([sys.argv[1]], sys.argv[2]) if len(sys.argv) > 2 else (list(CASES), os.path.join(HERE, "data", "sidecar"))
    for case in cases:
        record(case, folder)
        print(case, flush=True)


if __name__ == "__main__":
    main()
