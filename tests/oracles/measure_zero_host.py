#!/usr/bin/env python3
"""Measures the host time that DeepSpeed's ZeRO-3 takes in Python: the source of three figures of core/plan/host_overhead.h.

    DS_ACCELERATOR=cpu python3 measure_zero_host.py [LAYERS]

One process, a process group that does nothing ("fake", 8 ranks), a Llama so small that its arithmetic takes no time. Prints
a forward and a backward without and with DeepSpeed, and how often and how long the coordinator was called; take the least
of several runs on an idle machine. Needs what record_zero.py needs, and transformers.
"""

import os
import sys
import time

os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", RANK="0", LOCAL_RANK="0", WORLD_SIZE="8", LOCAL_SIZE="8",
                  MASTER_ADDR="127.0.0.1", MASTER_PORT="29777")

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.set_num_threads(1)
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)

import deepspeed
import deepspeed.comm.torch
from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from transformers import LlamaConfig, LlamaForCausalLM

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # compiles an extension for one node of CPUs
deepspeed.init_distributed(dist_backend="gloo", verbose=False, dist_init_required=False)

LAYERS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
IDS = torch.randint(0, 160, (1, 8))


def build():
    return LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=4,
                                        num_key_value_heads=2, vocab_size=160))


def fastest(forward, backward, end):
    best = None
    for step in range(6):
        start = time.perf_counter()
        loss = forward()
        middle = time.perf_counter()
        backward(loss)
        times = (middle - start, time.perf_counter() - middle)
        end()
        if step >= 2:
            best = times if best is None else tuple(map(min, best, times))
    return ["%.2f ms" % (1e3 * t) for t in best]


calls = {}


def count(owner, name):
    original = getattr(owner, name)

    def timed(*args, **kwargs):
        start = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            row = calls.setdefault(name, [0, 0.0])
            row[0] += 1
            row[1] += time.perf_counter() - start

    setattr(owner, name, timed)


def main():
    plain = build().bfloat16()
    optimizer = torch.optim.AdamW(plain.parameters())
    print("plain", fastest(lambda: plain(IDS, labels=IDS).loss, lambda loss: loss.backward(),
                           lambda: (optimizer.step(), optimizer.zero_grad())))
    model = build()
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True,
              "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 100, "stage3_max_reuse_distance": 0,
                                    "stage3_prefetch_bucket_size": 10000, "reduce_bucket_size": 50000}}
    engine = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters()), config=config)[0]
    print("ZeRO-3", fastest(lambda: engine(IDS, labels=IDS).loss, engine.backward, engine.step))
    for name in ("fetch_sub_module", "release_sub_module", "_PartitionedParameterCoordinator__all_gather_params"):
        count(PartitionedParameterCoordinator, name)
    count(DeepSpeedZeroOptimizer_Stage3, "reduce_ready_partitions_and_remove_grads")
    for phase in ("forward", "backward"):
        calls.clear()
        if phase == "forward":
            loss = engine(IDS, labels=IDS).loss
        else:
            engine.backward(loss)
        for name, (number, seconds) in calls.items():
            print(phase, name, number, "calls of %.0f µs" % (1e6 * seconds / number))


main()
