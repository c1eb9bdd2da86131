#!/usr/bin/env python3
"""Records what PyTorch's FSDP1, FSDP2 and DDP really do, as the expected values of Foregather's lowering tests.

    python3 record_fsdp.py            # all families, into data/fsdp1.json, fsdp2.json, ddp.json, streams.json
    python3 record_fsdp.py fsdp2      # one family
    python3 record_fsdp.py --case fsdp2/block/gpt2/4   # print one case, write nothing

Each case starts 2 or 4 processes on this machine (gloo, loopback), shards a tiny model (tiny_models.py), trains eight steps and
keeps what rank 0 did.  From the second step on the
collectives must stay the same, and the last steps must be alike in everything, or the script stops.
No accelerator is needed.  See README.md for the versions that produced the files and for the meaning of each field.
"""

import argparse
import difflib
import functools
import json
import os
import platform
import tempfile
import threading
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
import torch._dynamo  # the forked processes would each import these
import torch.distributed as dist
import torch.distributed.algorithms._checkpoint.checkpoint_wrapper
import torch.distributed.fsdp.wrap
import torch.distributed.tensor
import torch.multiprocessing as mp
import torch.testing._internal.distributed.fake_pg
import torch.nn.functional as F

import recorder
import tiny_models
from fsdp_cases import CASES, DDP_CONFIGS, STREAM_CASES
from recorder import REC

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPE = {"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16, None: None}
STEPS, BATCH, SEQ = 8, 2, 8

# --- wrapping ---------------------------------------------------------------------------------------------------------


def checkpoint_blocks(model, kind="NO_REENTRANT"):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper

    for i, layer in enumerate(model.layers):
        model.layers[i] = checkpoint_wrapper(layer, checkpoint_impl=CheckpointImpl[kind])


def wrap_fsdp1(model, s, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy

    wrapped = type(model).block
    if s["activation_checkpointing"] == "block":
        checkpoint_blocks(model)
        wrapped = type(model.layers[0])
    policy = None
    if s["wrap"] == "block":
        policy = ModuleWrapPolicy({wrapped})
    elif s["wrap"].startswith("size:"):
        policy = functools.partial(size_based_auto_wrap_policy, min_num_params=int(s["wrap"][5:]))
    mixed = None
    if s["param_dtype"] or s["reduce_dtype"]:
        mixed = MixedPrecision(param_dtype=DTYPE[s["param_dtype"]], reduce_dtype=DTYPE[s["reduce_dtype"]])
    mesh = None
    if s["shard_size"]:
        mesh = init_device_mesh("cpu", (world // s["shard_size"], s["shard_size"]), mesh_dim_names=("replicate", "shard"))
        REC.group_names = {mesh.get_group("shard"): "shard", mesh.get_group("replicate"): "replicate"}
    prefetch = {"none": None, "pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST}
    whole = FullyShardedDataParallel(
        model,
        sharding_strategy=ShardingStrategy[s["sharding_strategy"]],
        auto_wrap_policy=policy,
        backward_prefetch=prefetch[s["backward_prefetch"]],
        forward_prefetch=s["forward_prefetch"],
        limit_all_gathers=s["limit_all_gathers"],
        use_orig_params=s["use_orig_params"],
        mixed_precision=mixed,
        device_id=torch.device("cpu"),
        device_mesh=mesh,
    )
    if s["activation_checkpointing"] == "around":
        checkpoint_blocks(model, "REENTRANT")
    return whole


def wrap_fsdp2(model, s, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if s["activation_checkpointing"] == "block":
        checkpoint_blocks(model)
    if s["shard_size"]:
        mesh = init_device_mesh("cpu", (world // s["shard_size"], s["shard_size"]), mesh_dim_names=("replicate", "shard"))
        REC.group_names = {mesh.get_group("shard"): "shard", mesh.get_group("replicate"): "replicate"}
    else:
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("shard",))
    policy = MixedPrecisionPolicy(param_dtype=DTYPE[s["param_dtype"]], reduce_dtype=DTYPE[s["reduce_dtype"]])
    shard = functools.partial(fully_shard, mesh=mesh, mp_policy=policy)
    if s["reshard_after_forward"] is not None:
        shard = functools.partial(shard, reshard_after_forward=s["reshard_after_forward"])
    first, last = model.ends()
    layers, order = list(model.layers), list(model.layers)
    if s["wrap"] == "block+ends":  # one group before the layers, one after them
        head = first[0] if len(first) == 1 else first
        shard(head)
        shard(last)
        order = [first[0], *layers, last[0]]
    elif s["wrap"] == "block+ends3":  # a group for each of the outer modules
        for m in (*first, *last):
            shard(m)
        order = [*first, *layers, *last]
    elif s["wrap"] == "block+tied":  # all outer modules in one group, because the embedding and the head share a weight
        shard([*first, *last])
    if s["wrap"] != "whole":
        for layer in layers:
            shard(layer)
    shard(model)
    if not s["unshard_in_backward_ends"]:
        first[0].set_unshard_in_backward(False)
    for i, m in enumerate(order):
        if s["forward_prefetch"] and order[i + 1 : i + 1 + s["forward_prefetch"]]:
            m.set_modules_to_forward_prefetch(order[i + 1 : i + 1 + s["forward_prefetch"]])
        if s["backward_prefetch"] and order[max(0, i - s["backward_prefetch"]) : i]:
            m.set_modules_to_backward_prefetch(order[max(0, i - s["backward_prefetch"]) : i][::-1])
    if s["reduce_scatter_max_input_buffers"] != 1:
        model.set_reduce_scatter_max_input_buffers(s["reduce_scatter_max_input_buffers"])
    if s["separate_reduce_scatter_group"]:
        model.set_separate_reduce_scatter_group(True)
        info = model._get_fsdp_state()._fsdp_param_group.mesh_info
        REC.group_names = {info.shard_process_group: "shard", info.reduce_scatter_process_group: "reduce_scatter"}
    return model


def wrap_ddp(model, s, world):
    from torch.nn.parallel import DistributedDataParallel

    kwargs = {} if s["bucket_cap_mb"] is None else {"bucket_cap_mb": s["bucket_cap_mb"]}
    return DistributedDataParallel(model, gradient_as_bucket_view=s["gradient_as_bucket_view"], static_graph=s["static_graph"], **kwargs)


# --- one case ---------------------------------------------------------------------------------------------------------


def train_step(model, optimizer, family, s, vocab):
    import contextlib

    n = s["grad_accum"]
    for i in range(n):
        last = i == n - 1
        ids = torch.randint(0, vocab, (BATCH, SEQ))
        hold = contextlib.nullcontext()
        if family in ("fsdp1", "ddp") and s["no_sync"] and not last:
            hold = model.no_sync()
        if family == "fsdp2" and n > 1:
            if s["gradient_sync"] == "last":
                model.set_requires_gradient_sync(last)
            if s["reshard_after_backward"] == "last":
                model.set_reshard_after_backward(last)
            if s["is_last_backward"] == "last":
                model.set_is_last_backward(last)
        with hold:
            REC.enter("forward", i)
            logits = model(ids)
            loss = F.cross_entropy(logits.float().flatten(0, 1), ids.flatten()) / n
            del logits
            REC.enter("backward", i)
            loss.backward()
            del loss
    REC.enter("optimizer", n - 1)
    if s.get("clip_grad_norm"):
        if family == "fsdp1":
            model.clip_grad_norm_(1.0)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
    optimizer.step()
    optimizer.zero_grad()


def run_case(rank, world, rendezvous, backend, family, model_name, settings, with_streams, result_path):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    else:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", rank=rank, world_size=world, init_method=f"file://{rendezvous}")
    recorder.install_collectives()
    log = recorder.install_stream_log() if with_streams else None
    config = tiny_models.CONFIGS.get(model_name) or DDP_CONFIGS[model_name]
    model = tiny_models.build(config)
    out = {}
    if family == "fsdp1":
        recorder.install_fsdp1()
        model = wrap_fsdp1(model, settings, world)
        out["units"] = recorder.name_fsdp1_units(model)
    elif family == "fsdp2":
        recorder.install_fsdp2()
        model = wrap_fsdp2(model, settings, world)
        out["units"] = recorder.name_fsdp2_units(model)
    else:
        model = wrap_ddp(model, settings, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps, streams = [], []
    mode = recorder.C10dLog() if family == "ddp" or settings.get("clip_grad_norm") else None
    for step in range(STEPS):
        REC.start()
        REC.on = True
        if log:
            log.rows, log.count = [], 0
        if mode:
            with mode:
                train_step(model, optimizer, family, settings, config["vocab_size"])
        else:
            train_step(model, optimizer, family, settings, config["vocab_size"])
        REC.on = False
        if log:
            recorder.name_streams(log, model, family)
            streams.append(log.rows)
        steps.append(REC.take())
    steady_from = max((i + 1 for i in range(STEPS - 1) if steps[i] != steps[-1]), default=0)
    if steady_from > STEPS - 2:
        changed = difflib.unified_diff(steps[-2]["events"], steps[-1]["events"], n=1, lineterm="")
        raise RuntimeError("no steady state; the last two steps differ:\n" + "\n".join(changed))
    if family != "ddp":
        assert all(x["collectives"] == steps[-1]["collectives"] for x in steps[1:]), "the collectives change after the second step"
    out["steady_from"] = steady_from
    out["first_step"] = None if steps[0] == steps[-1] else steps[0]
    if family == "ddp":
        steps[-1]["events"] = [e for e in steps[-1]["events"] if not e.startswith("fwd")]
        out["second_step"] = None if steps[1] == steps[-1] else {"collectives": steps[1]["collectives"]}
        out["first_step"] = {"collectives": steps[0]["collectives"]}
    out["steady_step"] = steps[-1]
    if log:
        out["streams"] = streams[-1]
    if rank == 0:
        with open(result_path, "w") as f:
            json.dump(out, f)


def child(rank, all_done, *args):
    try:
        run_case(rank, *args)
        all_done.wait(120)  # a process that leaves early would reset the connections of a slower one
        os._exit(0)
    except BaseException as e:
        if not isinstance(e, threading.BrokenBarrierError):
            traceback.print_exc()
        all_done.abort()
        os._exit(1)


def record(family, model_name, world, settings, with_streams=False, backend="gloo"):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "result.json")
        args = (world, os.path.join(d, "store"), backend, family, model_name, settings, with_streams, path)
        context = mp.get_context("fork")
        ranks = 1 if backend == "fake" else world
        all_done = context.Barrier(ranks)
        procs = [context.Process(target=child, args=(r, all_done, *args), daemon=True) for r in range(ranks)]
        for p in procs:
            p.start()
        for p in procs:
            p.join(300)
        for p in procs:
            if p.is_alive():
                p.kill()
        if any(p.exitcode != 0 for p in procs):
            raise RuntimeError(f"exit codes {[p.exitcode for p in procs]}")
        with open(path) as f:
            return json.load(f)


# --- writing ----------------------------------------------------------------------------------------------------------


def dump(value, indent=0, width=150):
    """JSON with short containers on one line, and lists of scalars or short rows filled up to `width` columns."""
    flat = json.dumps(value, separators=(",", ":") if isinstance(value, list) else None)
    pad = " " * indent
    if not isinstance(value, (dict, list)) or len(flat) + indent <= width:
        return flat
    if isinstance(value, dict):
        body = [f'{pad} {json.dumps(k)}: {dump(v, indent + 1, width)}' for k, v in value.items()]
        return "{\n" + ",\n".join(body) + f"\n{pad}}}"
    if any(isinstance(v, dict) for v in value):
        return "[\n" + ",\n".join(f"{pad} {dump(v, indent + 1, width)}" for v in value) + f"\n{pad}]"
    lines, line = [], ""
    for v in value:
        item = json.dumps(v, separators=(",", ":"))
        if line and len(line) + len(item) + 2 + indent > width:
            lines.append(line)
            line = ""
        line += ("," if line else "") + item
    lines.append(line)
    return "[\n" + ",\n".join(f"{pad} {x}" for x in lines) + f"\n{pad}]"


def versions():
    return {"python": platform.python_version(), "torch": torch.__version__, "device": "cpu", "backend": "gloo"}


def settings_of(defaults, changes):
    unknown = set(changes) - set(defaults)
    assert not unknown, unknown
    return {**defaults, **changes}


def record_case(family, name, model, world, changes, with_streams=False):
    settings = settings_of(CASES[family][1], changes)
    try:
        result, backend = record(family, model, world, settings, with_streams), "gloo"
    except RuntimeError:
        result, backend = record(family, model, world, settings, with_streams, "fake"), "fake"
    case = {"name": f"{family}/{name}/{model}/{world}", "model": model, "world_size": world, "backend": backend, "settings": changes}
    case.update(result)
    return case


def share(cases):
    """Shortens the cases in place: a list that an earlier case already has is replaced by a reference to it."""
    keep_first = ("default", "prefetch_none", "prefetch_post")
    seen = {}
    for c in cases:
        units = c.pop("units", None)
        if units is not None:
            c["units"] = {n: [u["numel"], u["shard_numel"]] for n, u in units.items()}
            if c["settings"].get("wrap", "").startswith("size:"):
                c["unit_parameters"] = {n: u["parameters"] for n, u in units.items()}
        first, steady = c["first_step"], c["steady_step"]
        calm = lambda events: [e for e in events if not e.startswith("host_wait")]
        if first and "events" in first and first["collectives"] == steady["collectives"] and calm(first["events"]) == calm(steady["events"]):
            if c["name"].split("/")[1] not in keep_first:
                c["first_step"] = "steady_step but for host_wait"
        for key in ("steady_step", "first_step", "second_step"):
            if not isinstance(c.get(key), dict):
                continue
            for part in c[key]:
                text = part + json.dumps(c[key][part])
                if text in seen:
                    c[key][part] = seen[text]
                else:
                    seen[text] = f"{c['name']}#{key}"
    return cases


def write(path, value):
    with open(path, "w") as f:
        f.write(dump(value) + "\n")
    print(f"{os.path.relpath(path, HERE)}: {os.path.getsize(path)} bytes")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("family", nargs="*", help="fsdp1, fsdp2, ddp, streams (default: all)")
    ap.add_argument("--case", help="print one case, by name")
    a = ap.parse_args()
    data = os.path.join(HERE, "data")
    os.makedirs(data, exist_ok=True)
    if a.case:
        family, name, model, world = a.case.split("/")
        for n, m, w, s in CASES[family][0]():
            if (n, m, str(w)) == (name, model, world):
                print(dump(record_case(family, n, m, w, s)))
        return
    wanted = a.family or ["fsdp1", "fsdp2", "ddp", "streams"]
    for family in ("fsdp1", "fsdp2", "ddp"):
        if family not in wanted:
            continue
        cases, names = [], []
        for name, model, world, changes in CASES[family][0]():
            try:
                case = record_case(family, name, model, world, changes)
            except RuntimeError as e:
                print(f"FAILED {family}/{name}/{model}/{world}: {e}", flush=True)
                continue
            cases.append(case)
            names.append(model)
            print(case["name"], case["backend"], len(case["steady_step"]["collectives"]), flush=True)
        configs = {m: tiny_models.CONFIGS.get(m) or DDP_CONFIGS[m] for m in dict.fromkeys(names)}
        models = {m: tiny_models.model_block(c) for m, c in configs.items()}
        write(os.path.join(data, f"{family}.json"),
              {"versions": versions(), "batch": [BATCH, SEQ], "defaults": CASES[family][1], "models": models, "cases": share(cases)})
    if "streams" in wanted:
        cases = []
        for family, name, model, world, changes in STREAM_CASES:
            c = record_case(family, name, model, world, changes, with_streams=True)
            cases.append({"name": c["name"], "backend": c["backend"], "settings": changes, "streams": c["streams"]})
            print("streams", c["name"], flush=True)
        write(os.path.join(data, "streams.json"), {"versions": versions(), "cases": cases})
    for name in ("gpt2", "llama"):
        with open(os.path.join(data, f"tiny_{name}.json"), "w") as f:
            json.dump(tiny_models.CONFIGS[name], f, indent=2)
            f.write("\n")


if __name__ == "__main__":
    main()
