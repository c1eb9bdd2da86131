#!/usr/bin/env python3
"""Records what FSDP1 and FSDP2 do with nested modules: the test models of PyTorch PR 70235 (torch/testing/_internal/common_fsdp.py).

    python3 record_trees.py            # all cases, into data/trees.json
    python3 record_trees.py --case fsdp1/default/nested/2

A wrapped module may hold wrapped modules; it then shards what they do not. One expert has a process group of one rank.
Each case trains eight steps on 2 or 4 processes (gloo, loopback) and keeps what rank 0 did in the last; the last two must be alike.
"""

import argparse
import json
import os
import tempfile
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed.fsdp.wrap
import torch.distributed.tensor
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

import recorder
from record_fsdp import dump, versions, write
from recorder import REC

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 8
# L(in, out): a linear; W(x): x is wrapped; E(x): wrapped with a group of one rank; a list: nn.Sequential.
L, W, E = (lambda a, b: ("linear", a, b)), (lambda x: ("wrap", x)), (lambda x: ("alone", x))
MODELS = {
    "nested": [L(8, 4), W([W(L(4, 16)), L(16, 16)]), W(L(16, 4)), L(4, 8)],
    "wrap_everything": [W(L(8, 4)), W(L(4, 16)), W(L(16, 4)), W(L(4, 8))],
    "moe": [L(8, 12), W(L(12, 23)), E(L(23, 12)), L(12, 8)],
    # What the above do not have: a wrapped module that begins with its own parameters, one that ends in a wrapped one, three levels.
    "deep": [W([L(8, 6), W([W(L(6, 10)), L(10, 6)]), W(L(6, 4))]), L(4, 8)],
    "inner_last": [L(8, 4), W([L(4, 16), W(L(16, 8))])],
}
FSDP1 = {"backward_prefetch": "pre", "forward_prefetch": False, "limit_all_gathers": True, "use_orig_params": False,
         "sharding_strategy": "FULL_SHARD"}
FSDP2 = {}


def cases():
    rows = []
    add = lambda family, name, models, world=2, **s: rows.extend((family, name, m, world, s) for m in models)
    every = tuple(MODELS)
    add("fsdp1", "default", (*every, "transformer"))
    add("fsdp1", "default", ("nested", "moe", "transformer"), world=4)
    add("fsdp1", "prefetch_none", every, backward_prefetch="none")
    add("fsdp1", "prefetch_post", every, backward_prefetch="post")
    add("fsdp1", "forward_prefetch", ("nested", "deep", "inner_last"), forward_prefetch=True)
    add("fsdp1", "forward_prefetch_post", ("wrap_everything", "nested"), forward_prefetch=True, backward_prefetch="post")
    add("fsdp1", "no_limit", ("nested",), limit_all_gathers=False)
    add("fsdp1", "orig_params", ("nested", "moe", "transformer"), use_orig_params=True)
    add("fsdp1", "grad_op", ("nested", "moe"), sharding_strategy="SHARD_GRAD_OP")
    add("fsdp2", "default", ("nested", "wrap_everything", "deep", "inner_last", "transformer"))
    return rows


class SharedParams(nn.Module):
    """TransformerWithSharedParams(add_bn=True)."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(23, 16)
        self.transformer = nn.Transformer(d_model=16, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=8, dropout=0.1)
        self.output_proj = nn.Linear(16, 23)
        self.output_proj.weight = self.embed_tokens.weight
        self.register_buffer("vocab_bias", torch.ones(16))
        self.register_buffer("long_buffer", torch.zeros(16, dtype=torch.long))
        self.bn = nn.BatchNorm1d(2)

    def forward(self, src, tgt):
        src = self.embed_tokens(src)
        src = src + self.vocab_bias + self.long_buffer.type_as(src)
        return self.output_proj(self.transformer(src, self.bn(self.embed_tokens(tgt))))


def build(spec, wrap):
    if isinstance(spec, list):
        return nn.Sequential(*(build(s, wrap) for s in spec))
    if spec[0] == "linear":
        return nn.Linear(*spec[1:])
    return wrap(build(spec[1], wrap), spec[0] == "alone")


def wrapper(family, s, rank, world):
    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, ShardingStrategy, fully_shard

    if family == "fsdp2":
        return lambda m, alone: fully_shard(m)
    prefetch = {"none": None, "pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST}
    groups = [dist.new_group([r]) for r in range(world)]
    return lambda m, alone: FullyShardedDataParallel(
        m,
        groups[rank] if alone else None,
        sharding_strategy=ShardingStrategy[s["sharding_strategy"]],
        backward_prefetch=prefetch[s["backward_prefetch"]],
        forward_prefetch=s["forward_prefetch"],
        limit_all_gathers=s["limit_all_gathers"],
        use_orig_params=s["use_orig_params"],
        device_id=torch.device("cpu"),
    )


def train_step(model, optimizer, name):
    REC.enter("forward", 0)
    if name == "transformer":
        src, tgt = torch.arange(12).view(6, 2), torch.arange(8).view(4, 2)
        output = model(src, tgt)
        loss = F.cross_entropy(output.view(-1, output.size(-1)), tgt.view(-1), reduction="sum")
    else:
        loss = model(torch.rand(4, 8)).sum()
    REC.enter("backward", 0)
    loss.backward()
    REC.enter("optimizer", 0)
    optimizer.step()
    optimizer.zero_grad()


def run_case(rank, world, rendezvous, family, name, settings, result_path):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", rank=rank, world_size=world, init_method=f"file://{rendezvous}")
    recorder.install_collectives()
    (recorder.install_fsdp1 if family == "fsdp1" else recorder.install_fsdp2)()
    wrap = wrapper(family, settings, rank, world)
    model = SharedParams() if name == "transformer" else build(MODELS[name], wrap)
    out = {"parameters": sum(p.numel() for p in model.parameters()) if name == "transformer" else None}
    model = wrap(model, False)
    out["units"] = (recorder.name_fsdp1_units if family == "fsdp1" else recorder.name_fsdp2_units)(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    steps = []
    for _ in range(STEPS):
        REC.start()
        REC.on = True
        train_step(model, optimizer, name)
        REC.on = False
        steps.append(REC.take())
    assert steps[-1] == steps[-2], "no steady state"
    out["first_step"] = None if steps[0] == steps[-1] else steps[0]
    out["steady_step"] = steps[-1]
    if rank == 0:
        with open(result_path, "w") as f:
            json.dump(out, f)


def child(rank, all_done, *args):
    try:
        run_case(rank, *args)
        all_done.wait(120)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        all_done.abort()
        os._exit(1)


def record(family, name, model, world, changes):
    defaults = FSDP1 if family == "fsdp1" else FSDP2
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "result.json")
        context = mp.get_context("fork")
        all_done = context.Barrier(world)
        args = (world, os.path.join(d, "store"), family, model, {**defaults, **changes}, path)
        processes = [context.Process(target=child, args=(r, all_done, *args), daemon=True) for r in range(world)]
        for p in processes:
            p.start()
        for p in processes:
            p.join(300)
        if any(p.exitcode != 0 for p in processes):
            raise RuntimeError(f"exit codes {[p.exitcode for p in processes]}")
        with open(path) as f:
            result = json.load(f)
    result["units"] = {n: [u["numel"], u["shard_numel"]] for n, u in result["units"].items()}
    if result["parameters"] is None:
        del result["parameters"]
    return {"name": f"{family}/{name}/{model}/{world}", "settings": changes, **result}


def saved_bytes():
    """What autograd saves, each storage once, parameters left out: bytes of inputs, of other values, of statistics (one value a row,
    a feature or a query)."""
    torch.manual_seed(0)
    source, target = torch.randn(6, 4, 16), torch.randn(5, 4, 16)
    modules = {
        "linear": (nn.Linear(16, 24), (source,)),
        "relu": (nn.ReLU(), (source,)),
        "layer_norm": (nn.LayerNorm(16), (source,)),
        "batch_norm": (nn.BatchNorm1d(4), (source,)),
        "encoder_layer": (nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0), (source,)),
        "transformer": (nn.Transformer(16, 2, 2, 1, 24, dropout=0.0), (source, target)),
    }
    rows = {}
    for name, (module, given) in modules.items():
        inputs = [x.clone().requires_grad_() for x in given]
        own = {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers())}
        seen = {}

        def pack(t):
            if t.untyped_storage().data_ptr() not in own:
                seen[t.untyped_storage().data_ptr()] = t
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            output = module(*inputs)
        bytes_of = [0, 0, 0]
        for key, t in seen.items():
            is_input = any(key == x.untyped_storage().data_ptr() for x in inputs)
            is_statistic = t.untyped_storage().nbytes() < 768
            bytes_of[0 if is_input else 2 if is_statistic else 1] += t.untyped_storage().nbytes()
        rows[name] = bytes_of
        del output
    return rows


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--case", help="print one case, by name")
    a = ap.parse_args()
    found = []
    for family, name, model, world, changes in cases():
        title = f"{family}/{name}/{model}/{world}"
        if a.case in (None, title):
            found.append(record(family, name, model, world, changes))
            print(dump(found[-1]) if a.case else title, flush=True)
    if not a.case:
        write(os.path.join(HERE, "data", "trees.json"), {"versions": versions(), "saved": saved_bytes(), "cases": found})


if __name__ == "__main__":
    main()
