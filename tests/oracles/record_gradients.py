#!/usr/bin/env python3
"""Records which gradients autograd computes of a model of which a part is trained, and how it adds those of a tied weight.

    python3 record_gradients.py > data/gradients.json

The tiny models of tiny_models.py on a fake process group. `products` counts the matrix products (attention is one call of its own)
and `embeddings` the gradients of embeddings in the backward of the second step. `sums` are the sums of tensors of a tied weight's size in
the order in which they come: "new" (aten::add) or "in place" (aten::add_). `loss` holds the sums of the gradients of a linear's weight and bias
whose loss is computed in four checkpointed parts of the tokens, as torch.profiler saw them. Needs torch; a few seconds.
"""

import json
import sys
import warnings

import torch
import torch.nn.functional as functional
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import tiny_models

WORLD, BATCH, SEQ = 2, 2, 16
PRODUCTS = {"mm", "addmm"}


class Backward(TorchDispatchMode):
    """What a backward dispatches."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.products, self.embeddings, self.sums = shape, 0, 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.products += name in PRODUCTS
        self.embeddings += name == "embedding_dense_backward"
        if name in ("add", "add_") and tuple(args[0].shape) == self.shape:
            self.sums.append("new" if name == "add" else "in place")
        return func(*args, **(kwargs or {}))


def wrapped(model, case):
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    if case["strategy"] == "single":
        return model
    if case["strategy"] == "fsdp2":
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)
    policy = ModuleWrapPolicy({type(model).block}) if case["wrap"] == "block" else None
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=True, device_id=torch.device("cpu"))


def record(case):
    config = tiny_models.CONFIGS[case["model"]]
    model = tiny_models.build(config)
    if case["trained"] is not None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(case["trained"] in name)
    vocab = config["vocab_size"]
    shape = (vocab, config.get("hidden_size") or config["n_embd"])
    model = wrapped(model, case)
    ids = torch.zeros(BATCH, SEQ, dtype=torch.long)
    for _ in range(2):
        model.zero_grad()
        loss = functional.cross_entropy(model(ids).float().flatten(0, 1), ids.flatten())
        with Backward(shape) as seen:
            loss.backward()
    return {"products": seen.products, "embeddings": seen.embeddings, "sums": seen.sums}


def sums_of_parts(parts=4, width=8, vocab=20):
    """Of a loss of `parts` parts of the tokens, each checkpointed: the sums of the gradients of its linear."""
    linear = torch.nn.Linear(width, vocab)
    labels = torch.zeros(parts * 3, dtype=torch.long)

    def loss_of(hidden, wanted):
        return functional.cross_entropy(linear(hidden).float(), wanted)

    hidden = torch.randn(parts * 3, width, requires_grad=True) * 1
    loss = sum(checkpoint(loss_of, *each, use_reentrant=False) for each in zip(hidden.chunk(parts), labels.chunk(parts)))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        loss.backward()
    sums = {"weight": [], "bias": []}
    shapes = {"weight": [vocab, width], "bias": [vocab]}
    for event in sorted(profiler.events(), key=lambda event: event.time_range.start):
        for name, shape in shapes.items():
            if event.name in ("aten::add", "aten::add_") and event.input_shapes[0] == shape:
                sums[name].append("new" if event.name == "aten::add" else "in place")
    return {"parts": parts, **sums}


def main():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    cases = [
        {"strategy": "fsdp1", "wrap": wrap, "model": model, "trained": trained}
        for model, names in (("llama", ("q_proj", "lm_head", "norm", "embed_tokens")), ("gpt2_untied", ("c_fc", "lm_head")))
        for trained in names
        for wrap in ("block", "model")
    ]
    cases += [
        {"strategy": strategy, "wrap": "block", "model": model, "trained": None}
        for strategy in ("fsdp1", "fsdp2", "single")
        for model in ("llama_tied", "gpt2")
    ]
    for case in cases:
        case.update(record(case))
    json.dump({"torch": torch.__version__, "python": sys.version.split()[0], "batch": BATCH, "seq_len": SEQ, "world": WORLD, "loss": sums_of_parts(),
               "configs": {name: tiny_models.CONFIGS[name] for name in sorted({case["model"] for case in cases})}, "cases": cases}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
