#!/usr/bin/env python3
"""Records what PyTorch's own estimator says about FSDP2's memory, and what autograd saves in one block.

    python3 record_memory.py          # writes data/fsdp2_memory.json

Two things, neither of which needs an accelerator:

1. ``FSDPMemTracker`` (torch.distributed._tools) under FakeTensorMode with a fake process group: two training steps with AdamW of
   a GPT-2- and a Llama-shaped model.  The fake device is the CPU (a backward on fake CUDA tensors needs a driver), so sizes are
   exact bytes: the tracker rounds to 512 only on CUDA.  Everything else (what lives when) is FSDP2's own code.
2. ``saved_tensors_hooks`` around the forward of one block: every storage that autograd keeps for backward, apart from parameters, once.

See README.md for the fields.
"""

import contextlib
import json
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

import record_fsdp
import tiny_models

tiny_models.MARK = None  # record_fsdp's recorder must not listen here

BATCH, SEQ = 2, 256
CONFIGS = {
    "gpt2_14m": tiny_models.gpt2_config(hidden=512, layers=4, heads=8, vocab=2048, positions=SEQ),
    "llama_15m": tiny_models.llama_config(hidden=512, layers=4, heads=8, kv=4, inner=1408, vocab=2048, positions=SEQ),
}
SAVED_CONFIGS = {
    "gpt2": tiny_models.gpt2_config(hidden=256, layers=1, heads=4, vocab=512, positions=128),
    "llama": tiny_models.llama_config(hidden=256, layers=1, heads=4, kv=2, inner=704, vocab=512, positions=128),
    "llama_mha": tiny_models.llama_config(hidden=256, layers=1, heads=4, kv=4, inner=704, vocab=512, positions=128),
}
SAVED_BATCH, SAVED_SEQ = 2, 128


def snapshot(tracker, kind):
    """{category: bytes}, zeros left out"""
    out = {}
    for device, row in tracker.get_tracker_snapshot(kind).items():
        for k, v in row.items():
            name = k if isinstance(k, str) and not hasattr(k, "value") else k.value
            if v:
                out[name] = out.get(name, 0) + v
    return out


def restart_peak(tracker):
    tracker._peak_mem_snap = tracker.get_tracker_snapshot("current")
    tracker._peak_mem = {d: row["Total"] for d, row in tracker._peak_mem_snap.items()}


def modules(tracker):
    """For each FSDP module, the total at each state that the tracker notes (one entry a call)."""
    out = {}
    for stats in tracker.memory_tracking.values():
        rows = {}
        for state, snaps in stats.snapshots.items():
            rows[state.value] = [sum(row["Total"] for row in s.values()) for s in snaps]
        out[stats.mod_fqn] = rows
    return out


def run_tracker(config, world, mixed, reshard, wrap="block", attention="sdpa", checkpoint=False):
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("shard",))
        with FakeTensorMode():
            model = tiny_models.build({**config, "_attention": attention})
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if mixed else MixedPrecisionPolicy()
            kwargs = dict(mesh=mesh, mp_policy=policy)
            if reshard is not None:
                kwargs["reshard_after_forward"] = reshard
            if checkpoint:
                record_fsdp.checkpoint_blocks(model)
            if wrap == "block":
                for layer in model.layers:
                    fully_shard(layer, **kwargs)
            fully_shard(model, **kwargs)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
            steps = []
            for _ in range(3):
                ids = torch.randint(0, config["vocab_size"], (BATCH, SEQ))
                tracker = FSDPMemTracker(model, optimizer)
                tracker.track_inputs((ids,))
                with tracker:
                    start = snapshot(tracker, "current")
                    logits = model(ids)
                    loss = F.cross_entropy(logits.float().flatten(0, 1), ids.flatten())
                    del logits
                    forward = snapshot(tracker, "current")
                    loss.backward()
                    del loss
                    backward = snapshot(tracker, "current")
                    peak_before_optimizer = snapshot(tracker, "peak")
                    restart_peak(tracker)
                    optimizer.step()
                    optimizer.zero_grad()
                    end = snapshot(tracker, "current")
                steps.append({
                    "peak_forward_backward": peak_before_optimizer,
                    "peak_optimizer": snapshot(tracker, "peak"),
                    "before": start,
                    "after_forward": forward,
                    "after_backward": backward,
                    "after_optimizer": end,
                    "modules": modules(tracker),
                })
            assert steps[1] == steps[2], "the second and the third step differ"
            return {"first_step": steps[0], "steady_step": steps[1]}
    finally:
        dist.destroy_process_group()


class LastOp(TorchDispatchMode):
    """Knows, for each storage, the operator that produced it."""

    def __init__(self):
        super().__init__()
        self.of = {}
        self.keep = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(t, torch.Tensor):
                key = t.untyped_storage()._cdata
                if key not in self.of:
                    self.of[key] = str(func).replace("aten.", "").removesuffix(".default")
                    self.keep.append(t)  # so that no storage's identity is used twice
        return out


def saved_by(config, dtype, attention, gelu="fused"):
    """Every storage saved for backward by one block, in the order of saving."""
    model = tiny_models.build({**config, "_attention": attention, "_gelu": gelu})
    block = model.layers[0].to(dtype)
    d = config.get("hidden_size") or config["n_embd"]
    x = torch.randn(SAVED_BATCH, SAVED_SEQ, d, dtype=dtype, requires_grad=True)
    parameters = {p.untyped_storage()._cdata for p in block.parameters()}
    rows, seen = [], set()
    ops = LastOp()

    def pack(t):
        st = t.untyped_storage()
        if st._cdata not in parameters and st._cdata not in seen:
            seen.add(st._cdata)
            op = "input" if st._cdata == x.untyped_storage()._cdata else ops.of.get(st._cdata, "?")
            rows.append([op, list(t.shape), record_fsdp.recorder.DTYPES.get(t.dtype, str(t.dtype).removeprefix("torch.")), st.nbytes()])
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), ops:
        y = block(x)
    attention_node = sorted({n for n in grad_nodes(y) if "Attention" in n})
    return {"bytes": sum(r[3] for r in rows), "attention_node": attention_node, "output_bytes": y.untyped_storage().nbytes(),
            "saved": [[op, shape, dt, n] for op, shape, dt, n in rows]}


def grad_nodes(t):
    seen, todo = set(), [t.grad_fn]
    while todo:
        n = todo.pop()
        if n is None or n in seen:
            continue
        seen.add(n)
        todo += [m for m, _ in n.next_functions]
    return [n.name() for n in seen]


def main():
    torch.set_num_threads(1)
    data = os.path.join(record_fsdp.HERE, "data")
    tracked = []
    for model, config in CONFIGS.items():
        for world in (4, 8):
            for mixed in (False, True):
                for reshard in (True, False):
                    for extra in ({},) if world == 8 else ({}, {"attention": "eager"}, {"checkpoint": True}):
                        if extra and not (mixed and reshard):
                            continue
                        # DTensor's first propagation of an operator allocates full-size fake tensors, which the tracker would
                        # count as optimizer state: a first run fills its cache, the second is kept.
                        run_tracker(config, world, mixed, reshard, **extra)
                        r = run_tracker(config, world, mixed, reshard, **extra)
                        r["first_step"].pop("modules")
                        if world == 8 or extra or not mixed:
                            r["steady_step"].pop("modules")
                        settings = {"reshard_after_forward": reshard, "param_dtype": "bf16" if mixed else None,
                                    "reduce_dtype": "f32" if mixed else None, "wrap": "block", **extra}
                        tracked.append({"model": model, "world_size": world, "settings": settings, **r})
                        print(model, world, settings, *(s[p]["Total"] for s in r.values() for p in ("peak_forward_backward", "peak_optimizer")), flush=True)
    saved = []
    for model, config in SAVED_CONFIGS.items():
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            for attention in ("sdpa", "eager"):
                variants = ("fused", "operators") if model == "gpt2" and attention == "sdpa" else ("fused",)
                for gelu in variants:
                    r = saved_by(config, dtype, attention, gelu)
                    case = {"model": model, "dtype": name, "attention": attention}
                    if model == "gpt2":
                        case["gelu"] = gelu
                    saved.append({**case, **r})
                    print(case, r["bytes"], r["attention_node"], flush=True)
    versions = {**record_fsdp.versions(), "backend": "fake", "device": "cpu (fake tensors)"}
    record_fsdp.write(os.path.join(data, "fsdp2_memory.json"), {
        "versions": versions,
        "tracker": {"batch": [BATCH, SEQ], "optimizer": "AdamW(foreach)",
                    "models": {m: {"config": c, "parameters": sum(p.numel() for p in tiny_models.build(c).parameters())} for m, c in CONFIGS.items()},
                    "cases": tracked},
        "saved": {"batch": [SAVED_BATCH, SAVED_SEQ], "models": SAVED_CONFIGS, "cases": saved},
    })


if __name__ == "__main__":
    main()
