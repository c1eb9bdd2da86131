"""Prints real traces of lightning-thunder: DDP and FSDP of a small MLP, forward and backward.

    pip install torch==2.8.0 lightning-thunder==VERSION
    python record_thunder.py OUT_FOLDER

One process, two ranks by PyTorch's fake process group: nothing is sent, and what Thunder prints does not
depend on it. Until 0.2.3 Thunder splits the forward from the backward before it sorts communication: ZeRO-3
gathers again in the backward, and buckets are packed. From 0.2.4 on one joint trace is sorted and split, and
neither is done. Traces are printed as they are, but for times and folders; a first line says where they come from. VERSION_estimates.json
holds what Thunder's own estimator says of them.
"""

import importlib.metadata
import json
import pathlib
import re
import sys

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

import thunder
import thunder.distributed as td
from thunder.distributed import FSDPBucketingStrategy, FSDPType
from thunder.examine.memory_calculation import get_alloc_memory

RANKS = 2


class Block(torch.nn.Module):
    """Two linears with biases, of widths that the ranks divide."""

    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(16, 32)
        self.fc2 = torch.nn.Linear(32, 8)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Mlp(torch.nn.Module):
    """One block: a bucket for it, or one for each of its layers."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block())

    def forward(self, x):
        return self.blocks(x)


def cases():
    for size in (25.0, 0.0):
        name = "ddp" if size else "ddp_no_bucket"
        yield name, lambda model, size=size: td.ddp(model, broadcast_from=None, bucket_size_in_mb=size)
    for sharding in (FSDPType.ZERO2, FSDPType.ZERO3):
        for bucketing in FSDPBucketingStrategy:
            name = f"{sharding.name}_{bucketing.name}".lower()
            yield name, lambda model, s=sharding, b=bucketing: td.fsdp(
                model, device=torch.device("cpu"), broadcast_from=None, sharding_strategy=s, bucketing_strategy=b
            )


def text_of(trace):
    """As printed, without what differs from one recording to the next."""
    text = re.sub(r"\(took \d+ milliseconds\)", "(took 0 milliseconds)", str(trace))
    return re.sub(r"# /\S*/([^/\s]+\.py):", r"# \1:", text)


def record(wrap):
    torch.manual_seed(0)
    model = wrap(thunder.jit(Mlp()))
    out = model(torch.randn(4, 16))
    try:
        out.sum().backward()
    except RuntimeError as error:  # the fake group fills no buffers; the trace is made before it runs
        print(f"backward: {error}", file=sys.stderr)
    return thunder.last_traces(model)[-1], thunder.last_backward_traces(model)[-1]


def main(folder):
    version = importlib.metadata.version("lightning-thunder")
    head = f"# recorded with lightning-thunder {version}, torch {torch.__version__}, {RANKS} ranks, case "
    dist.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    estimates = {}
    for name, wrap in cases():
        for part, trace in zip(("forward", "backward"), record(wrap)):
            file = f"{version}_{name}_{part}.txt"
            (folder / file).write_text(f"{head}{name}\n{text_of(trace)}\n")
            peak, events = get_alloc_memory(trace)
            estimates[file] = {"peak": peak, "final": sum(events.values())}
    (folder / f"{version}_estimates.json").write_text(json.dumps(estimates, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
