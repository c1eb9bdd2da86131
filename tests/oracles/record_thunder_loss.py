"""What LitGPT's pretraining script keeps under lightning-thunder, at the loss above all.

    pip install --no-deps lightning-thunder==VERSION
    pip install torch==2.5.1 lightning litgpt==0.4.0 looseversion opt_einsum optree networkx dill igraph "numpy<2"
    python record_thunder_loss.py OUT.json

extensions/thunder/pretrain.py jits one function of Fabric's module and the loss, as does this script, with nvFuser
as record_thunder_saved.py stands in for it, on one rank and on eight (PyTorch's fake process group; FSDP ZERO3 with
block buckets). The traces that Thunder made are then run on meta tensors, which have no memory but all sizes: the
bytes of storages, as they are made and die, are the allocator's but for rounding and workspaces. Fused regions and
collectives only make their outputs. Arguments (parameters, ids, rotary tables) are not counted; what a gather
makes is. A run adds its version to OUT.json.
"""

import collections
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import weakref

import record_thunder_saved as thunder_on_cpu

import lightning
import litgpt
import thunder
import torch
import torch.distributed as dist
from litgpt.utils import chunked_cross_entropy
from thunder.core.proxies import TensorProxy
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MODEL, BATCH, SEQUENCE, RANKS = "tiny-llama-1.1b", 4, 2048, 8


def forward_and_loss(model, ids, targets):
    return chunked_cross_entropy(model(ids), targets, chunk_size=0)


class Ledger(TorchDispatchMode):
    """Bytes of the storages that ops made and that are still there."""

    def __init__(self, arguments):
        super().__init__()
        self.known = {t.untyped_storage()._cdata for t in arguments}
        self.live, self.at_peak, self.peak, self.op = {}, {}, 0, ""

    def now(self):
        return sum(size for size, _ in self.live.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor, str(func))
        return out

    def add(self, tensor, op):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known:
            return
        self.known.add(key)
        self.live[key] = (storage.nbytes(), f"{str(tensor.dtype)[6:]} {list(tensor.shape)}")
        weakref.finalize(storage, self.gone, key)
        if self.now() > self.peak:
            self.peak, self.at_peak, self.op = self.now(), dict(self.live), op

    def gone(self, key):
        self.known.discard(key)
        self.live.pop(key, None)

    def logits(self, live):
        """Those of the vocabulary's width, without parameters."""
        found = (what for _, what in live.values() if what.endswith(f"{thunder_on_cpu.VOCABULARY}]"))
        return dict(sorted(collections.Counter(what.split()[0] for what in found).items()))


def empty(proxy):
    dtype = thunder.core.dtypes.to_torch_dtype(proxy.dtype)
    return torch.empty([int(n) for n in proxy.shape], dtype=dtype, device="meta")


def over_ranks(tensor, factor):
    return torch.empty((int(tensor.shape[0] * factor), *tensor.shape[1:]), dtype=tensor.dtype, device="meta")


def callable_of(trace):
    """Python of the trace, in which what needs a GPU or other ranks makes its outputs alone."""
    stand_ins = {
        "torch_all_gather_prim_impl": lambda tensor, *_: over_ranks(tensor, RANKS),
        "torch_reduce_scatter_prim_impl": lambda tensor, *_: over_ranks(tensor, 1 / RANKS),
        "torch_wait_prim_impl": lambda tensor: tensor,
    }
    for bound in trace.bound_symbols:
        name = bound.sym.name
        if name.startswith(("nvFusion", "TorchCompile")):
            outs = bound.flat_proxy_outs
            bound._call_ctx = {name: lambda *_, outs=outs: [empty(out) for out in outs]}
        elif name in stand_ins:
            bound._call_ctx = {name: stand_ins[name]}
        elif "pack" in name and name.startswith("torch_"):
            raise NotImplementedError(name)
    return trace.python_callable()


def traces(ranks):
    config = litgpt.Config.from_name(MODEL, padded_vocab_size=thunder_on_cpu.VOCABULARY)
    model = litgpt.GPT(config).to(torch.bfloat16)
    if ranks > 1:
        td = thunder.distributed
        dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
        model = td.fsdp(
            model,
            device=torch.device("cpu"),
            broadcast_from=None,
            sharding_strategy=td.FSDPType.ZERO3,
            bucketing_strategy=td.FSDPBucketingStrategy.BLOCK,
        )
    fabric = lightning.Fabric(accelerator="cpu", devices=1, precision="bf16-true")
    model = fabric.setup(model, move_to_device=False)
    model._register_backward_hook = lambda *_: None  # as the script does
    executors = [
        thunder_on_cpu.sdpaex.sdpa_ex,
        thunder_on_cpu.torch_compile_cat_ex,
        thunder_on_cpu.nvfuserex.nvfuserex,
        thunder.pytorch_executor,
    ]
    jitted = thunder.jit(forward_and_loss, executors=executors)
    ids = torch.randint(0, thunder_on_cpu.VOCABULARY, (BATCH, SEQUENCE))
    try:
        jitted(model, ids, ids)
    except TypeError:  # nvFuser is not there to run
        pass
    return thunder.last_traces(jitted)[-1], thunder.last_backward_traces(jitted)[-1]


def record(ranks):
    forward, backward = traces(ranks)
    arguments = [empty(a) if isinstance(a, TensorProxy) else a for a in forward.args]
    run, run_back = callable_of(forward), callable_of(backward)
    ledger = Ledger([a for a in arguments if isinstance(a, torch.Tensor)])
    with ledger:
        saved, other = run(*arguments)[1]
        between = {"bytes": ledger.now(), "logits": ledger.logits(ledger.live)}
        inputs = [list(saved), list(other)]  # ThunderFunction.backward empties its context so
        del saved, other
        ledger.peak = 0
        run_back(inputs, [torch.empty((), dtype=torch.float32, device="meta")])
    gathers = [sum("all_gather" in bound.sym.name for bound in t.bound_symbols) for t in (forward, backward)]
    return {
        "ranks": ranks,
        "gathers": dict(zip(("forward", "backward"), gathers)),
        "between": between,
        "backward_peak": {"bytes": ledger.peak, "logits": ledger.logits(ledger.at_peak), "at": ledger.op},
    }


def main():
    if len(sys.argv) > 2:  # one process group a process
        thunder_on_cpu.allow_the_cpu()
        print(json.dumps(record(int(sys.argv[2]))))
        return
    out = pathlib.Path(sys.argv[1])
    recorded = json.loads(out.read_text()) if out.exists() else {}
    runs = []
    for ranks in (1, RANKS):
        done = subprocess.run([sys.executable, __file__, out, str(ranks)], check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    versions = {p: importlib.metadata.version(p) for p in ("lightning-thunder", "torch", "litgpt", "lightning")}
    shape = {"model": MODEL, "micro_batch": BATCH, "seq_len": SEQUENCE}
    recorded[versions["lightning-thunder"]] = {"versions": versions, **shape, "runs": runs}
    out.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
