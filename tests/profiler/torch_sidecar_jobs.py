#!/usr/bin/env python3
"""torch_sidecar_jobs.py SIDECAR FOLDER: two processes (gloo, loopback) describe small jobs with the side-car; of each, rank 0 writes
FOLDER/JOB, the workload or the traceback. Exits with 77 where there is no PyTorch 2.15 or later: in older ones jobs cannot run that
the side-car describes (2.6: FSDP2 on CPUs, units of two dtypes). torch_sidecar_test.py says what is expected."""

import functools
import importlib.util
import json
import os
import re
import sys
import tempfile
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
warnings.filterwarnings("ignore")
sys.dont_write_bytecode = True

try:
    import torch
except ImportError:
    sys.exit(77)
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15):
    sys.exit(77)

import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, lambda_auto_wrap_policy
from torch.distributed.optim import ZeroRedundancyOptimizer

SEQ, VOCABULARY, WIDTH = 4, 32, 8
JOBS = {}


def job(function):
    """Of a function that takes the side-car and returns a text."""
    JOBS[function.__name__] = function
    return function


class Block(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(WIDTH, WIDTH), nn.ReLU())


def decoder():
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), Block(), Block(), nn.Linear(WIDTH, VOCABULARY))


def tokens():
    return torch.randint(0, VOCABULARY, (2, SEQ))


def sharded2(model, **options):
    """fully_shard() of blocks and of the root."""
    for module in [*model[1:-1], model]:
        fully_shard(module, mesh=init_device_mesh("cpu", (dist.get_world_size(),)), **options)
    return model


# FSDP2 while parameters are gathered ---------------------------------------------------------------------------------------------


def mixed2():
    model = decoder()
    model[3].weight = model[0].weight
    return sharded2(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))


@job
def fsdp2_sharded(fg):
    return fg.workload(mixed2(), seq_len=SEQ)


@job
def fsdp2_after_evaluation(fg):
    model = mixed2()
    with torch.no_grad():
        model(tokens())
    return fg.workload(model, seq_len=SEQ)


@job
def fsdp2_in_a_step(fg):
    model, texts = mixed2(), []
    model[2].register_forward_hook(lambda *_: texts.append(fg.workload(model, seq_len=SEQ)))
    model(tokens())
    return texts[0]


@job
def fsdp2_ignores(fg):
    model = decoder()
    sharded2(model, ignored_params={model[0].weight, model[1][0].bias})
    with torch.no_grad():
        model(tokens())
    return fg.workload(model, seq_len=SEQ)


# FSDP1's replicas ----------------------------------------------------------------------------------------------------------------


def sharded1(model, **options):
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"), **options)


def hybrid1(strategy, *mesh):
    return sharded1(decoder(), sharding_strategy=strategy, device_mesh=init_device_mesh("cpu", mesh))


@job
def fsdp1_replicas_of_one_rank(fg):
    model = hybrid1(ShardingStrategy.HYBRID_SHARD, 2, 1)
    torch.manual_seed(dist.get_rank())
    model(tokens()).sum().backward()
    gradients = [None, None]
    dist.all_gather_object(gradients, [p.grad for p in model.parameters()])
    assert not all(torch.equal(*pair) for pair in zip(*gradients)), "PyTorch reduces them"
    return fg.workload(model, seq_len=SEQ)


@job
def fsdp1_replicas_zero2(fg):
    return fg.workload(hybrid1(ShardingStrategy._HYBRID_SHARD_ZERO2, 1, 2), seq_len=SEQ)


# Modules in what FSDP1 and DDP are on ----------------------------------------------------------------------------------------------


class Around(nn.Module):
    """A plain module around a net, as Lightning's are."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


def around1(**options):
    return sharded1(Around(decoder()), **options)


@job
def fsdp1(fg):
    return fg.workload(sharded1(decoder()), seq_len=SEQ)


@job
def fsdp1_from_within(fg):
    model = sharded1(decoder())
    return fg.workload(model.module, seq_len=SEQ)


@job
def fsdp1_original_from_within(fg):
    model = sharded1(decoder(), use_orig_params=True)
    return fg.workload(model.module, seq_len=SEQ)


@job
def fsdp1_part(fg):
    model = around1()
    return fg.workload(model.module.net, seq_len=SEQ)


@job
def fsdp1_original_part(fg):
    model = around1(use_orig_params=True)
    return fg.workload(model.module.net, seq_len=SEQ)


@job
def fsdp1_unit(fg):
    model = sharded1(decoder())
    return fg.workload(model.module[1], seq_len=SEQ) + fg.workload(model.module[1].module, seq_len=SEQ)


@job
def ddp(fg):
    return fg.workload(nn.parallel.DistributedDataParallel(decoder(), bucket_cap_mb=1), seq_len=SEQ)


@job
def ddp_from_within(fg):
    model = nn.parallel.DistributedDataParallel(decoder(), bucket_cap_mb=1)
    return fg.workload(model.module, seq_len=SEQ)


@job
def ddp_part(fg):
    model = nn.parallel.DistributedDataParallel(decoder(), bucket_cap_mb=1)
    return fg.workload(model.module[1], seq_len=SEQ)


@job
def ddp_options(fg):
    options = {"find_unused_parameters": True, "forward_sync_buffers": False, "batched_grad_copy": True}
    return fg.workload(nn.parallel.DistributedDataParallel(decoder(), **options), seq_len=SEQ)


@job
def ddp_of_a_static_graph(fg):
    options = {"find_unused_parameters": True, "static_graph": True}
    return fg.workload(nn.parallel.DistributedDataParallel(decoder(), **options), seq_len=SEQ)


@job
def no_ddp_any_more(fg):
    model = decoder()
    nn.parallel.DistributedDataParallel(model)
    return fg.workload(model, seq_len=SEQ)


# FSDP's root in a plain module ----------------------------------------------------------------------------------------------------


def after_a_step(fg, model):
    """The workload, and the names of ranges."""
    with fg.Scopes(model), torch.profiler.profile() as profiler:
        model(tokens()).sum().backward()
    ranges = sorted({e.name for e in profiler.events() if re.fullmatch(r"\S+/(forward|backward)", e.name)})
    return fg.workload(model, seq_len=SEQ) + " ".join(ranges) + "\n"


@job
def fsdp2(fg):
    return after_a_step(fg, sharded2(decoder()))


@job
def fsdp2_in_a_plain_module(fg):
    return after_a_step(fg, Around(sharded2(decoder())))


@job
def fsdp2_of_one_block_in_a_plain_module(fg):
    model = decoder()
    del model[2]
    return after_a_step(fg, Around(sharded2(model)))


@job
def fsdp2_compiled(fg):
    return fg.workload(torch.compile(sharded2(decoder())), seq_len=SEQ)


@job
def fsdp2_beside_parameters(fg):
    return fg.workload(nn.Sequential(sharded2(decoder()), nn.Linear(VOCABULARY, 2)), seq_len=SEQ)


@job
def fsdp1_after_a_step(fg):
    return after_a_step(fg, sharded1(decoder()))


@job
def fsdp1_in_a_plain_module(fg):
    return after_a_step(fg, Around(sharded1(decoder())))


# Adapters of fp32 on a base of bf16, as PEFT has them ----------------------------------------------------------------------------


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.a, self.b = base, nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x.float())).to(x.dtype)


def adapted():
    model = decoder().to(torch.bfloat16)
    model.requires_grad_(False)
    for block in model[1:-1]:
        block[0] = Adapted(block[0])
    return model


def reduced_in(model):
    """A line that says which dtype a step of `model` reduces its gradients in."""
    with torch.profiler.profile(record_shapes=True) as profiler:
        model(tokens()).sum().backward()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    return f"reduced in {', '.join({e['args']['Input type'][0] for e in events if e['name'] == 'c10d::_reduce_scatter_base_'})}\n"


@job
def fsdp2_adapted(fg):
    model = sharded2(adapted())
    return fg.workload(model, seq_len=SEQ) + reduced_in(model)


@job
def fsdp2_adapted_mixed(fg):
    return fg.workload(sharded2(adapted(), mp_policy=MixedPrecisionPolicy(torch.bfloat16)), seq_len=SEQ)


@job
def fsdp2_adapted_reduced_in_bf16(fg):
    return fg.workload(sharded2(adapted(), mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)), seq_len=SEQ)


@job
def fsdp1_adapted(fg):
    is_unit = functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Linear) and m.weight.requires_grad)
    model = FullyShardedDataParallel(adapted(), auto_wrap_policy=is_unit, device_id=torch.device("cpu"))
    return fg.workload(model, seq_len=SEQ) + reduced_in(model)


@job
def ddp_adapted(fg):
    return fg.workload(nn.parallel.DistributedDataParallel(adapted()), seq_len=SEQ)


# Optimizers ----------------------------------------------------------------------------------------------------------------------


@job
def optimizer_that_loops(fg):
    model = decoder()
    return fg.workload(model, optimizer=torch.optim.AdamW(model.parameters(), foreach=False, fused=False), seq_len=SEQ)


@job
def zero_redundancy(fg):
    model = nn.parallel.DistributedDataParallel(decoder())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.5)
    return fg.workload(model, optimizer=optimizer, seq_len=SEQ)


# --- running them -----------------------------------------------------------------------------------------------------------------


def run(rank, sidecar, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{os.path.abspath(folder)}/store")
    spec = importlib.util.spec_from_file_location("foregather_torch", sidecar)
    fg = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fg)
    for name, function in JOBS.items():
        torch.manual_seed(0)
        try:
            text = function(fg)
        except Exception:
            text = traceback.format_exc()
        if rank == 0:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    mp.start_processes(run, sys.argv[1:], nprocs=2, start_method="fork")
