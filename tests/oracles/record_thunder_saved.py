"""What lightning-thunder's traces save for the backward of one LitGPT block, with nvFuser's regions.

    pip install --no-deps lightning-thunder==VERSION
    pip install torch==2.5.1 lightning litgpt==0.4.0 looseversion opt_einsum optree networkx dill igraph "numpy<2"
    python record_thunder_saved.py OUT.json

No GPU: Thunder only has to trace, so nvFuser is a module that says it is there, and the checks for devices
are answered with yes. Thunder fuses, cuts each pair of regions (rematerialize_forward_and_backward) and prints;
the first region then fails to run, which is expected. The block's share is what a fourth block adds to three.
Reshapes, permutations and expansions count as what they are views of: a parameter is not saved by the
block. But attention's output lies in memory as the query does (flash_api.cpp: empty_like), by heads after
LitGPT's torch.cat, so that its reshape for the next linear is a copy. A run adds its version to OUT.json.
"""

import collections
import importlib.metadata
import json
import pathlib
import re
import sys
import types


def stand_in_for_nvfuser():
    class Names(type):
        def __getattr__(cls, name):
            return name

    module = types.ModuleType("nvfuser")
    module._C = types.SimpleNamespace(Tensor=type("T", (), {}), Scalar=type("S", (), {}))
    module.DataType = Names("DataType", (), {})
    module.FusionDefinition = type("FusionDefinition", (), {})
    module.version = lambda: "0.2.26"
    for name in (
        "enable_automatic_serialization",
        "disable_automatic_serialization",
        "compute_tensor_descriptor",
        "compute_contiguity",
    ):
        setattr(module, name, lambda *args: None)
    sys.modules["nvfuser"] = module
    triton = types.ModuleType("thunder.executors.triton_crossentropy")
    triton.triton_ex = None
    triton.triton_available = lambda: False
    sys.modules[triton.__name__] = triton


stand_in_for_nvfuser()

import torch

has_gpu = torch.cuda.is_available
torch.cuda.is_available = lambda: True
import thunder
import thunder.executors.nvfuserex as nvfuserex
import thunder.executors.nvfuserex_impl as nvfuser_impl
import thunder.executors.sdpaex as sdpaex
from looseversion import LooseVersion
from thunder.executors.torch_compile import torch_compile_cat_ex

torch.cuda.is_available = has_gpu

from litgpt import GPT, Config

SEQUENCE, BATCH, VOCABULARY = 64, 1, 32000


def allow_the_cpu():
    nvfuser_impl.nvfuser_version = nvfuserex.nvfuser_version = lambda: LooseVersion("0.2.26")
    nvfuser_impl.is_supported_device = lambda device: True
    nvfuser_impl.is_supported_devicetype = lambda device: True

    def is_supported_tensor(a, *, allow_low_precision_floats=True):
        low = a.dtype in nvfuser_impl._low_precision_floats
        return nvfuser_impl.is_supported_dtype(a.dtype) and (allow_low_precision_floats or not low) and a.ndim <= 8

    nvfuser_impl.is_supported_tensor = is_supported_tensor
    proxy = thunder.core.proxies.TensorProxy
    type(nvfuserex.nvfuserex).has_cuda_input_or_output = lambda self, bound: any(
        isinstance(p, proxy) for p in [*bound.flat_proxy_args, *bound.flat_proxy_outs]
    )
    sdpaex._fused_sdp_choice = lambda *args, **kwargs: sdpaex.SpdaBackend.FLASH_ATTENTION
    sdpaex.devices = types.SimpleNamespace(**{**vars(sdpaex.devices), "cpu": object()})


def saved(name, layers):
    """Saved tensors of a model with so many blocks: Counter of "dtype shape"."""
    config = Config.from_name(name, n_layer=layers, padded_vocab_size=VOCABULARY)
    model = GPT(config).to(torch.bfloat16)
    jitted = thunder.jit(model, executors=[sdpaex.sdpa_ex, torch_compile_cat_ex, nvfuserex.nvfuserex])
    ids = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
    try:
        jitted(ids)
    except TypeError:  # nvFuser is not there to run
        pass
    trace = thunder.last_traces(jitted)[-1]
    text = str(trace)
    call = r"(?:torch\.|Tensor\.)?(?:torch_prims_)?(?:reshape|permute|expand|unsqueeze)(?:_impl)?"
    views = dict(re.findall(rf"^  (\w+) = {call}\((\w+),", text, re.M))
    attention = set(re.findall(r"^  \((\w+), .*\) = \w+scaled_dot_product\w+\(", text, re.M))
    copies = [name for name, source in views.items() if views.get(source) in attention]
    for name in copies:
        del views[name]
    tensors = {}
    # Of a view its source may be saved as well: one storage.
    for proxy in trace.bound_symbols[-1].args[1][0]:
        root = proxy.name
        while root in views:
            root = views[root]
        if not root.startswith("t_"):  # parameters
            tensors[root] = f"{str(proxy.dtype).split('.')[-1]} {list(proxy.shape)}"
    return collections.Counter(tensors.values()), config


def block(name):
    fewer, _ = saved(name, 3)
    more, config = saved(name, 4)
    more.subtract(fewer)
    return {
        "model": name,
        "hidden": config.n_embd,
        "intermediate": config.intermediate_size,
        "heads": config.n_head,
        "kv_heads": config.n_query_groups,
        "tokens": BATCH * SEQUENCE,
        "saved": {k: n for k, n in sorted(more.items()) if n},
    }


def main():
    allow_the_cpu()
    out = pathlib.Path(sys.argv[1])
    recorded = json.loads(out.read_text()) if out.exists() else {}
    versions = {p: importlib.metadata.version(p) for p in ("lightning-thunder", "torch", "litgpt")}
    recorded[versions["lightning-thunder"]] = {
        "versions": versions,
        "blocks": [block("tiny-llama-1.1b"), block("Llama-2-7b-hf")],
    }
    out.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
