#!/usr/bin/env python3
"""Records the collectives of DeepSpeed's ZeRO-2 and ZeRO-3, as expected values for Foregather's lowering.

    DS_ACCELERATOR=cpu python3 record_zero.py                 # all cases, into data/zero.json
    DS_ACCELERATOR=cpu python3 record_zero.py --case NAME     # print one case, write nothing

Each case starts 2 or 4 processes on this machine (gloo, loopback) and trains a tiny Llama of tiny_models.py for three
steps under deepspeed.initialize.  Kept are the collectives of rank 0, of the first and of the last step, as
[kind, bytes, phase]: bytes of the gather's output and of the scatter's input, of the tensor otherwise.  Decisions on
what to gather and when do not depend on the accelerator; streams and memory do, and are not recorded.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
import torch.multiprocessing as mp

import tiny_models

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, SEQ, STEPS = 2, 8, 3

# A block of the model has q, k, v, o of 4,096, 2,048, 2,048 and 4,096 elements, three of 10,240 and two norms of 64;
# embedding and head have 10,240.
CASES = {
    "zero3/keep_nothing": {"stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0},
    "zero3/persistent_norms": {"stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0,
                               "stage3_param_persistence_threshold": 64},
    "zero3/reuse": {"stage3_max_reuse_distance": 30000, "stage3_prefetch_bucket_size": 0},
    "zero3/keep_all": {"stage3_prefetch_bucket_size": 0},
    "zero3/prefetch_all": {},
    "zero3/prefetch_limited": {"stage3_prefetch_bucket_size": 12000, "stage3_max_reuse_distance": 0,
                               "stage3_max_live_parameters": 30000},
    "zero3/prefetch_small": {"stage3_prefetch_bucket_size": 1, "stage3_max_reuse_distance": 0,
                             "stage3_param_persistence_threshold": 64},
    "zero3/buckets": {"reduce_bucket_size": 15000},
    "zero3/accumulate": {"reduce_bucket_size": 30000, "gradient_accumulation_steps": 2},
    "zero3/four_ranks": {"world_size": 4, "stage3_prefetch_bucket_size": 20000, "reduce_bucket_size": 30000},
    "zero3/all_reduce": {"reduce_scatter": False, "reduce_bucket_size": 30000},
    "zero2/default": {"stage": 2},
    "zero2/buckets": {"stage": 2, "reduce_bucket_size": 15000},
    "zero2/reduce": {"stage": 2, "reduce_bucket_size": 30000, "use_multi_rank_bucket_allreduce": False},
    "zero2/all_reduce": {"stage": 2, "reduce_bucket_size": 30000, "reduce_scatter": False},
    "zero2/accumulate": {"stage": 2, "reduce_bucket_size": 30000, "gradient_accumulation_steps": 2},
    "zero2/four_ranks": {"stage": 2, "reduce_bucket_size": 30000, "world_size": 4},
}
DEFAULTS = {"stage": 3, "world_size": 2, "gradient_accumulation_steps": 1, "reduce_bucket_size": 100000,
            "stage3_prefetch_bucket_size": 1000000, "stage3_param_persistence_threshold": 0,
            "stage3_max_live_parameters": 1000000000, "stage3_max_reuse_distance": 1000000000,
            "reduce_scatter": True, "use_multi_rank_bucket_allreduce": True}


class Log:
    def __init__(self):
        self.phase, self.rows = "init", []

    def listen(self, backend):
        def wrap(name, kind, tensor):
            original = getattr(backend, name)

            def recorded(*args, **kwargs):
                whole = tensor(args, kwargs)
                self.rows.append([kind, whole.numel() * whole.element_size(), self.phase])
                return original(*args, **kwargs)

            setattr(backend, name, recorded)

        def argument(position, *names):
            def find(args, kwargs):
                for name in names:
                    if name in kwargs:
                        return kwargs[name]
                return args[position]

            return find

        wrap("all_gather_into_tensor", "all_gather", argument(0, "output_tensor"))
        wrap("reduce_scatter_tensor", "reduce_scatter", argument(1, "input_tensor"))
        wrap("all_reduce", "all_reduce", argument(0, "tensor"))
        wrap("reduce", "reduce", argument(0, "tensor"))


def train(rank, settings, port, answer):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(settings["world_size"]),
                      LOCAL_SIZE=str(settings["world_size"]), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        import deepspeed
        import deepspeed.comm.comm as comm
        import deepspeed.comm.torch

        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # compiles an extension for one node of CPUs

        deepspeed.init_distributed(dist_backend="gloo", verbose=False)
        model = tiny_models.build(tiny_models.CONFIGS["llama"])
        keep = {k: v for k, v in settings.items() if k not in ("world_size", "gradient_accumulation_steps")}
        if settings["stage"] == 2:
            keep = {k: v for k, v in keep.items() if not k.startswith("stage3_")}
        config = {"train_micro_batch_size_per_gpu": BATCH, "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True,
                  "gradient_accumulation_steps": settings["gradient_accumulation_steps"], "zero_optimization": keep}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]
        log, steps = Log(), []
        log.listen(comm.cdb)
        ids = torch.randint(0, 160, (BATCH, SEQ))
        for _ in range(STEPS):
            log.rows = []
            for _ in range(settings["gradient_accumulation_steps"]):
                log.phase = "forward"
                logits = engine(ids)
                loss = torch.nn.functional.cross_entropy(logits.float().view(-1, 160), ids.view(-1))
                log.phase = "backward"
                engine.backward(loss)
                log.phase = "optimizer"
                engine.step()
            steps.append(log.rows)
        if rank == 0:
            answer.put({"first_step": steps[0], "steady_step": steps[-1]})
    except Exception:
        traceback.print_exc()
        answer.put(None)
        raise


def record(name, port):
    settings = {**DEFAULTS, **CASES[name]}
    context = mp.get_context("spawn")
    answer = context.Queue()
    ranks = [context.Process(target=train, args=(r, settings, port, answer)) for r in range(settings["world_size"])]
    for process in ranks:
        process.start()
    steps = answer.get(timeout=300)
    for process in ranks:
        process.join(60)
    if steps is None:
        sys.exit(f"{name} failed")
    return {"name": name, "settings": CASES[name], **steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(record(arguments.case, 29600), indent=1))
        return
    import deepspeed

    cases = [record(name, 29600 + i) for i, name in enumerate(CASES)]
    head = {"versions": {"python": platform.python_version(), "torch": torch.__version__, "deepspeed": deepspeed.__version__},
            "model": "llama", "batch": [BATCH, SEQ], "defaults": DEFAULTS}
    lines = [json.dumps(case) for case in cases]
    with open(os.path.join(HERE, "data", "zero.json"), "w") as out:
        out.write(json.dumps(head, indent=1)[:-2] + ',\n "cases": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")


if __name__ == "__main__":
    main()
