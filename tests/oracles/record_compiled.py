#!/usr/bin/env python3
"""Records what a compiled model's backward holds when its gradients are added to those of the micro-batch before.

    python3 record_compiled.py [BEFORE.json] > data/compiled.json

A chain of linears between an embedding and a head, in bf16, compiled as a whole by Inductor for the CPU; the loss is computed outside.
Of the second of two micro-batches, by the profiler's memory events (each kind of tensor has a size of its own): how many gradients of
parameters there are when the first is added, whether the table's is summed in a tensor of fp32 (`sums_table_in_fp32`), and whether the
logits' gradient is still there then (`keeps_output_gradient`: to PyTorch 2.11, not in 2.15). Appends to the rows of BEFORE.json: one a
version of PyTorch. Needs torch and a C++ compiler; half a minute.
"""

import json
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

VOCABULARY, WIDTH, LAYERS, TOKENS = 5003, 128, 3, 64


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden))
        return self.head(hidden)


def record():
    model = Chain().to(torch.bfloat16)
    compiled = torch.compile(model)
    ids = torch.zeros(TOKENS, dtype=torch.long)

    def micro_batch():
        functional.cross_entropy(compiled(ids), ids).backward()

    micro_batch()
    model.zero_grad(set_to_none=True)
    micro_batch()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        micro_batch()
    sizes = {2 * VOCABULARY * WIDTH: "gradient", 2 * WIDTH * WIDTH: "gradient", 2 * TOKENS * VOCABULARY: "logits", 4 * VOCABULARY * WIDTH: "sum"}
    live, at_sum, is_backward = {"gradient": 0, "logits": 0, "sum": 0}, None, False
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "CompiledFunctionBackward":
            is_backward = True
            live["gradient"] = 0
        if is_backward and event.name() == "torch::autograd::AccumulateGrad":
            break
        kind = sizes.get(abs(event.nbytes())) if event.name() == "[memory]" else None
        if kind:
            live[kind] += 1 if event.nbytes() > 0 else -1
            if kind == "sum" and event.nbytes() > 0:
                at_sum = dict(live)
    return {
        "torch": torch.__version__,
        "parameters": len(list(model.parameters())),
        "gradients_at_first_sum": live["gradient"],
        "sums_table_in_fp32": at_sum is not None,
        "keeps_output_gradient": at_sum is not None and at_sum["logits"] > 0,
    }


def main():
    torch.set_num_threads(1)
    rows = json.loads(pathlib.Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else []
    json.dump(rows + [record()], sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
