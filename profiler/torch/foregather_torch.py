"""Foregather's side-car for PyTorch: one file, nothing but torch and the standard library. Copy it next to the training script.

    import foregather_torch as fg

    fg.write_workload("workload.toml", model, optimizer=optimizer, micro_batch=4, seq_len=2048)

    with fg.Recorder("recording", steps=[10, 11], model=model) as recorder:
        for batch in batches:
            train_step(batch)
            recorder.step()

`foregather simulate workload.toml` predicts the step, `foregather import recording/*.json.gz` reads what was recorded. Works with
FSDP1, FSDP2 (fully_shard), DDP and models that are not wrapped, on any device; workload() on the meta device, too. docs/sidecar.md of
Foregather says more. PyTorch 2.6 and later.
"""

import collections
import contextlib
import dataclasses
import gc
import json
import os
import re
import shutil
import socket
import sys
import threading
import warnings

try:
    import torch
except ImportError as error:
    raise ImportError(
        "foregather_torch works on live PyTorch models, but torch cannot be imported here: install it with 'pip install torch'"
    ) from error

import torch.distributed as dist
from torch import nn

__all__ = ["workload", "write_workload", "Scopes", "scope", "Recorder"]

# Modules that other tools put around a module of the user: they are not part of a path.
_WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod", "_forward_module")  # the last one is Lightning Fabric's
_WRAPPER_IN_PATH = re.compile(r"(^|\.)(" + "|".join(_WRAPPERS) + r")(?=\.|$)")
_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_BUFFER_DTYPES = {**_DTYPES, torch.int64: "i64", torch.int32: "i32", torch.bool: "bool"}


def _plain(path):
    """A module's path without wrappers."""
    return _WRAPPER_IN_PATH.sub("", path).lstrip(".")


def _is_fsdp1(module):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return isinstance(module, FullyShardedDataParallel)


def _fsdp2_state(module):
    """The state of a module that fully_shard() was called on, else None."""
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:  # before 2.6
        return None
    return module._get_fsdp_state() if isinstance(module, FSDPModule) else None


def _class_name(module):
    """fully_shard() and replicate() put a class of their own over a module's."""
    return (type(module).__bases__[-1] if _fsdp2_state(module) or _replicate_state(module) else type(module)).__name__


def _groups(state):
    """FSDP2's parameter groups of a module."""
    groups = getattr(state, "_fsdp_param_groups", None)  # a list since torch 2.12 or so
    return list(groups) if groups is not None else [g for g in [state._fsdp_param_group] if g is not None]


def _inner(module):
    """The module itself, and what was found on and around it: "fsdp1", "fsdp2", "checkpoint", "compile"."""
    found = []
    while True:
        if isinstance(module, nn.parallel.DistributedDataParallel):
            module = module.module
            continue
        if _is_fsdp1(module):
            found.append("fsdp1")
        elif _fsdp2_state(module) is not None:
            found.append("fsdp2")
        if getattr(module, "_compiled_call_impl", None) is not None:  # module.compile()
            found.append("compile")
        if getattr(module, "gradient_checkpointing", False) is True:  # Hugging Face
            found.append("checkpoint")
        name = next((n for n in _WRAPPERS if n in module._modules), None)
        if name is None:
            return module, found
        if name == "_checkpoint_wrapped_module":
            found.append("checkpoint")
        if name == "_orig_mod":
            found.append("compile")
        module = module._modules[name]


def _root(model):
    """The module that is a tree's root, and the one that knows how it is wrapped: `model`, but for FSDP1 or DDP on it or around it, of which
    a module does not know, and for a plain module around FSDP's own root, which is not in the tree."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    kinds = (FullyShardedDataParallel, nn.parallel.DistributedDataParallel)
    around = [m for m in gc.get_objects() if issubclass(type(m), kinds) and any(each is model for each in m.modules())]
    around.sort(key=lambda m: sum(1 for _ in m.modules()), reverse=True)
    on_it = next((m for m in around if _inner(m)[0] is _inner(model)[0]), None)
    if on_it is not None:
        return on_it, on_it
    if around:
        return model, around[0]
    sharded = next((m for m in model.modules() if _is_fsdp1(m) or _fsdp2_state(m) is not None), model)
    return sharded if {id(p) for p in sharded.parameters()} == {id(p) for p in model.parameters()} else model, model


# --- the workload -------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Node:
    """A module, parameter or buffer of the tree."""

    name: str
    kind: str = "children"
    value: object = None  # of the kind's key
    keys: dict = dataclasses.field(default_factory=dict)
    children: list = dataclasses.field(default_factory=list)
    raw: list = None  # what it is written as where it does not fit between its neighbours
    takes: object = None  # features of a row that comes in; "ids"; None: any
    gives: object = None  # features of a row that goes out; None: as many as came
    size: int = 0  # elements of its parameters


@dataclasses.dataclass(frozen=True)
class _Parameter:
    shape: tuple
    identity: object  # equal for one storage
    dtype: object
    is_trained: bool = True


def _parameter(p):
    return _Parameter(tuple(p.shape), id(p), p.dtype, p.requires_grad)


class _Tree:
    """Walks a model into nodes."""

    def __init__(self, model, whole, is_sequence, target_len):
        self.is_sequence, self.target_len = is_sequence, target_len
        self.notes, self.uncosted = [], {}
        self.dtypes, self.trained_dtypes = collections.Counter(), collections.Counter()
        self.sharded = _sharded_parameters(whole)
        self.first = {}  # identity -> path of the weight that has it, as `tied` names it
        self.root, around = _inner(model)
        self.found_around("the model", around + _inner(whole)[1])
        self.units = _units_of_lists(model)
        self.is_root_wrapped = "fsdp1" in around or "fsdp2" in around
        self.alone_of = _world(whole)
        uses = {}
        for module in model.modules():
            for p in self.own(module).values():
                uses[p.identity] = uses.get(p.identity, 0) + 1
                self.dtypes[p.dtype] += _count(p.shape)
                if p.is_trained:
                    self.trained_dtypes[p.dtype] += _count(p.shape)
        self.shared = {i for i, n in uses.items() if n > 1}
        self.find_what_is_trained()
        leaf = self.leaf("0", self.root, "0")
        if leaf is not None:
            self.note("the model is one module, called 0 here")
        self.nodes = [leaf] if leaf is not None else self.children_of(self.root, "")
        self.fit()

    def own(self, module):
        """name -> _Parameter of a module's own parameters, in order of registration, whole and as they were before FSDP."""
        registered = {name: _parameter(p) for name, p in module._parameters.items() if p is not None and not hasattr(p, "_param_infos")}
        return {**registered, **self.sharded.get(id(module), {})}

    def find_what_is_trained(self):
        """train.trainable of the workload, if something is frozen."""
        self.trainable, trained, frozen = [], [], []
        for path, module in self.root.named_modules():
            for name, p in self.own(module).items():
                (trained if p.is_trained else frozen).append(_plain(f"{path}.{name}"))
        if not frozen:
            return
        if not trained:
            return self.note("no parameter is trained: all are written as if they were")
        for name in trained:
            if any(_has_part(name, part) for part in self.trainable):
                continue
            parts = name.split(".")
            parts = ["^" + ".".join(parts[:n]) + "." for n in range(1, len(parts))] + parts
            parts = [part for part in parts if not any(_has_part(other, part) for other in frozen)]
            self.trainable.append(max(parts, key=lambda part: sum(_has_part(other, part) for other in trained), default="^" + name))

    # Modules ---------------------------------------------------------------------------------------------------------

    def children_of(self, module, path):
        nodes = [self.parameter(name, p, path, _is_matmul(module, name)) for name, p in self.own(module).items()]
        nodes = [node for node in nodes if node is not None]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                self.buffer(nodes, name, buffer, path)
        seen = set()
        for name, child in module._modules.items():
            if child is None:
                continue
            full = f"{path}.{name}" if path else name
            if child in seen:
                self.note(f"{full} is a module that stands before, too: here it runs once")
                continue
            seen.add(child)
            node = self.module(name, child, full)
            if node is not None:
                nodes.append(node)
        return nodes

    def found_around(self, path, around):
        for what, text in (("checkpoint", "activation checkpointing"), ("compile", "torch.compile")):
            if what in around and not any(n.startswith(text) for n in self.notes):
                self.note(f"{text} (of {path}, …) is not in here: module trees have none")

    def module(self, name, wrapper, path):
        module, around = _inner(wrapper)
        self.found_around(path, around)
        is_wrapped = "fsdp1" in around or "fsdp2" in around
        node = self.leaf(name, module, path)
        if node is None:
            children = self.children_of(module, path)
            if not children:
                if is_wrapped:
                    self.note(f"{path} is wrapped, but has no parameters")
                return None
            node = _Node(name, children=children)
            if not isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Linear)):
                self.uncosted.setdefault(_class_name(module), path)
        if is_wrapped:
            node.keys["wrap"] = self.units.get(id(module), True)
            if "fsdp1" in around and wrapper.process_group.size() == 1 and self.alone_of > 1:
                node.keys["group_size"] = 1
        return node

    def parameter(self, name, p, path, is_matmul):
        full = f"{path}.{name}" if path else name
        if _count(p.shape) == 0:
            return self.note(f"parameter {full} of {p.shape} is left out")
        node = _Node(name, "parameter", list(p.shape) or [1], size=_count(p.shape))
        if is_matmul:
            node.keys["matmul"] = True
        self.tie(node, p, full)
        return node

    def tie(self, node, p, path):
        if p.identity in self.shared:
            first = self.first.setdefault(p.identity, path)
            if first != path:
                node.keys["tied"] = first

    def buffer(self, nodes, name, buffer, path):
        if buffer.dtype not in _BUFFER_DTYPES or buffer.numel() == 0:
            return self.note(f"buffer {path}.{name} of {tuple(buffer.shape)} {buffer.dtype} is left out")
        node = _Node(name, "buffer", list(buffer.shape) or [1])
        if buffer.dtype != torch.float32:
            node.keys["dtype"] = _BUFFER_DTYPES[buffer.dtype]
        nodes.append(node)

    def leaf(self, name, module, path):
        """What the tree has a kind for; None: its parts."""
        own = self.own(module)
        weight = own.get("weight")
        has_own_bias = "bias" not in own or own["bias"].identity not in self.shared
        if isinstance(module, nn.Linear) and set(own) <= {"weight", "bias"} and not module._modules and has_own_bias:
            i, o = module.in_features, module.out_features
            return self.weighted(_Node(name, "linear", [i, o], {} if "bias" in own else {"bias": False}, takes=i, gives=o), module, path)
        if isinstance(module, nn.Embedding) and set(own) == {"weight"}:
            r, w = module.num_embeddings, module.embedding_dim
            return self.weighted(_Node(name, "embedding", [r, w], takes="ids", gives=w), module, path)
        if isinstance(module, nn.TransformerEncoderLayer) and self.is_default_layer(module):
            return self.transformer(name, "encoder_layer", module, module, {})
        if isinstance(module, nn.Transformer) and self.target_len and self.is_default_transformer(module):
            layers = {f"num_{s}_layers": len(getattr(module, s).layers) for s in ("encoder", "decoder")}
            return self.transformer(name, "transformer", module, module.encoder.layers[0], layers)
        if module._modules or any(p.identity in self.shared for p in own.values()):
            return None
        if weight is not None and len(weight.shape) == 1:
            width, kind = weight.shape[0], None
            if isinstance(module, nn.LayerNorm) and set(own) == {"weight", "bias"}:
                kind = "layer_norm"
            elif "RMSNorm" in type(module).__name__ and set(own) == {"weight"} and not module._buffers:
                kind = "rms_norm"
            elif isinstance(module, nn.BatchNorm1d) and set(own) == {"weight", "bias"} and module.track_running_stats and not self.is_sequence:
                kind = "batch_norm"
            if kind:
                node = _Node(name, kind, width, takes=width, gives=width, size=sum(_count(p.shape) for p in own.values()))
                node.raw = self.children_of(module, path)
                return node
        if own or any(b is not None for b in module._buffers.values()):
            return None
        if isinstance(module, (nn.ReLU, nn.GELU)):
            return _Node(name, "relu" if isinstance(module, nn.ReLU) else "gelu", True)
        if isinstance(module, nn.Dropout):
            return _Node(name, "dropout", module.p)
        if not isinstance(module, nn.Identity):
            self.uncosted.setdefault(_class_name(module), path)
        return None

    def weighted(self, node, module, path):
        own = self.own(module)
        node.size = sum(_count(p.shape) for p in own.values())
        node.raw = self.children_of(module, path)
        self.tie(node, own["weight"], f"{path}.weight")
        return node

    def transformer(self, name, kind, module, layer, options):
        d = layer.linear1.in_features
        options = {"d_model": d, "nhead": layer.self_attn.num_heads, "dim_feedforward": layer.linear1.out_features,
                   "dropout": layer.dropout.p, **options}
        return _Node(name, kind, options, takes=d, gives=d, size=sum(_count(p.shape) for m in module.modules() for p in self.own(m).values()))

    def is_default_layer(self, layer):
        """Nothing in it is wrapped or shared, norms are behind (norm_first=False), with biases and relu."""
        parts = list(layer.modules())
        plain = not any(_inner(m)[1] for m in parts[1:])
        shared = any(p.identity in self.shared for m in parts for p in self.own(m).values())
        relu = layer.activation is nn.functional.relu or isinstance(layer.activation, nn.ReLU)
        return plain and not shared and not layer.norm_first and relu and "bias" in self.own(layer.linear1)

    def is_default_transformer(self, module):
        stacks = (module.encoder, module.decoder)
        return all(s.norm is not None and all(self.is_default_layer(layer) for layer in s.layers) and not _inner(s)[1] for s in stacks)

    # What fits together ----------------------------------------------------------------------------------------------

    def leaves(self, nodes):
        for node in nodes:
            if node.kind == "children":
                yield from self.leaves(node.children)
            else:
                yield node

    def fit(self):
        """A tree is a chain: each module takes what the one before it gives. Of all choices of modules that fit, the one with most
        parameters keeps its kinds; the others become their parameters, which every row passes by."""
        best = {None: (0, None)}  # features of a row -> elements so far, choices as a linked list
        leaves = list(self.leaves(self.nodes))
        for node in leaves:
            if node.kind in ("buffer", "parameter"):
                continue
            after = {}

            def offer(width, score, keeps, before):
                if width not in after or after[width][0] < score:
                    after[width] = (score, (keeps, before))

            for width, (score, before) in best.items():
                if node.takes is None:  # relu, dropout: between modules only
                    offer(width, score, width is not None, before)
                    continue
                offer(width, score, False, before)
                if width == node.takes or (width is None and node.kind != "batch_norm"):
                    offer(node.gives, score + node.size, True, before)
            best = after
        width, (_, choices) = max(best.items(), key=lambda item: item[1][0])
        for node in reversed([n for n in leaves if n.kind not in ("buffer", "parameter")]):
            keeps, choices = choices
            if not keeps:
                node.kind, node.value, node.children = "children", None, node.raw or []
                node.keys = {k: v for k, v in node.keys.items() if k in ("wrap", "group_size")}
        self.nodes = self.without_empty(self.nodes)
        self.starts_with_ids = any(n.kind == "embedding" for n in self.leaves(self.nodes))
        if self.starts_with_ids:
            self.put_embedding_first(self.nodes)
        if width is None:
            self.note("no module here says how wide its input is: the tree cannot be simulated as it is")

    def without_empty(self, nodes):
        for node in nodes:
            node.children = self.without_empty(node.children)
        return [n for n in nodes if n.kind != "children" or n.children]

    def put_embedding_first(self, nodes):
        """Parameters registered before the embedding that the tokens go to first run behind it."""
        for i, node in enumerate(nodes):
            if not any(n.kind == "embedding" for n in self.leaves([node])):
                continue
            if any(n.kind == "parameter" for n in self.leaves(nodes[:i])):
                self.note(f"{node.name} stands before parameters that the model registers before it")
                nodes.insert(0, nodes.pop(i))
            return self.put_embedding_first(node.children)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)


def _has_part(name, part):
    """As train.trainable says it."""
    return name.startswith(part[1:]) if part[0] == "^" else part in name


def _is_matmul(module, name):
    """Is each row multiplied by this parameter?"""
    if isinstance(module, nn.MultiheadAttention):
        return name.endswith("proj_weight")
    return isinstance(module, nn.Linear) and name == "weight"


def _count(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def _sharded_parameters(model):
    """id(module) -> name -> _Parameter of what FSDP has taken, be it gathered now or not."""
    sharded = {}
    for module in model.modules():
        for group in _groups(_fsdp2_state(module) or _NoGroups):
            for p in group.fsdp_params:
                info = p._module_info
                for holder, name in zip([info.module, *info.shared_modules], [info.param_name, *info.shared_param_names]):
                    sharded.setdefault(id(holder), {})[name] = _parameter(p.sharded_param)
        handle = getattr(module, "_handle", None) if _is_fsdp1(module) else None
        if handle is None:
            continue
        p = handle.flat_param
        originals = p._params if getattr(p, "_params", None) is not None else [p] * len(p._param_infos)
        whole = {}
        for info, shape, original in zip(p._param_infos, p._shapes, originals):
            identity = (id(p), id(info.module), info.param_name)
            whole[identity] = _Parameter(tuple(shape), identity, handle._orig_param_dtype, original.requires_grad)
            sharded.setdefault(id(info.module), {})[info.param_name] = whole[identity]
        for info in p._shared_param_infos:
            sharded.setdefault(id(info.module), {})[info.param_name] = whole[(id(p), id(info.prim_module), info.prim_param_name)]
    return sharded


def _units_of_lists(model):
    """id(module) -> the unit's name as PyTorch has it, of the modules that one fully_shard([…]) made one unit."""
    members, names = {}, {}
    for path, module in model.named_modules():
        state = _fsdp2_state(module)
        if state is not None:
            members.setdefault(id(state), []).append((_plain(path), module))
    for unit in members.values():
        if len(unit) > 1:
            names.update((id(_inner(module)[0]), ", ".join(path for path, _ in unit)) for _, module in unit)
    return names


def _world(model):
    """Ranks over which a model is sharded and its gradients are reduced."""
    if _is_fsdp1(model):
        size = model.process_group.size()
        return size * (_replicas(model) if size > 1 else 1)  # of one rank FSDP1 makes NO_SHARD, which knows no replicas
    state = _fsdp2_state(model)
    for group in _groups(state) if state else []:
        return group.mesh_info.mesh.size()
    for module in model.modules():
        if module is not model and (_is_fsdp1(module) or _fsdp2_state(module)):
            return _world(module)
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _replicas(fsdp1):
    between = getattr(fsdp1, "_inter_node_pg", None)
    return between.size() if between is not None else 1


def _parallel_fsdp1(model, tree):
    from torch.distributed.fsdp import BackwardPrefetch, ShardingStrategy

    root = next(m for m in model.modules() if _is_fsdp1(m))
    if len({m.sharding_strategy for m in model.modules() if _is_fsdp1(m)}) > 1:
        tree.note("units differ in their sharding strategy: all are written as the first one")
    sharding = {ShardingStrategy.FULL_SHARD: "full_shard", ShardingStrategy.SHARD_GRAD_OP: "shard_grad_op", ShardingStrategy.NO_SHARD: "no_shard",
                ShardingStrategy.HYBRID_SHARD: "hybrid_shard", ShardingStrategy._HYBRID_SHARD_ZERO2: "shard_grad_op"}[root.sharding_strategy]
    prefetch = {BackwardPrefetch.BACKWARD_PRE: "pre", BackwardPrefetch.BACKWARD_POST: "post", None: "none"}[root.backward_prefetch]
    keys = {"strategy": "fsdp1", "world_size": _world(model), "sharding": sharding, "backward_prefetch": prefetch,
            "forward_prefetch": bool(root.forward_prefetch), "limit_all_gathers": bool(root.limit_all_gathers),
            "use_orig_params": bool(root._use_orig_params)}
    if "HYBRID" in root.sharding_strategy.name:
        keys["shard_size"] = root.process_group.size()
    elif _replicas(root) > 1:
        tree.note(f"a shard group is one rank, where FSDP1 reduces no gradients between the {_replicas(root)} replicas: "
                  "each trains alone, and one is written")
    if root.cpu_offload.offload_params:
        keys["offload"] = "all"
    if tree.is_root_wrapped:
        _note_ignored(tree)
    mixed = root.mixed_precision
    _note_policies([m.mixed_precision for m in model.modules() if _is_fsdp1(m)], tree)
    return keys, mixed.param_dtype, mixed.reduce_dtype or mixed.param_dtype


def _parallel_fsdp2(model, tree):
    found = [(m, g) for m in model.modules() for g in _groups(_fsdp2_state(m) or _NoGroups)]
    keys = {"strategy": "fsdp2", "world_size": _world(model)}
    if not found:
        return keys, None, None
    # A root with the default policy keeps its parameters; it says nothing of the others.
    others = [g for _, g in found[1:]] if tree.is_root_wrapped and len(found) > 1 else [g for _, g in found]
    count = collections.Counter(_reshard_size(g) for g in others)
    group = max(others, key=lambda g: count[_reshard_size(g)])
    info, after = group.mesh_info, group.post_forward_mesh_info
    replicas = getattr(info, "replicate_mesh_size", 1)
    if replicas > 1:
        keys["shard_size"] = info.shard_mesh_size
    if len(count) > 1:
        tree.note("modules differ in reshard_after_forward: all are written as most of them are")
    _note_policies({g.fsdp_params[0].mp_policy for _, g in found if g.fsdp_params}, tree)
    if after is None and not (tree.is_root_wrapped and len(found) == 1):
        keys["reshard_after_forward"] = False
    elif after is not None and after.shard_mesh_size != info.shard_mesh_size:
        keys["reshard_after_forward"] = after.shard_mesh_size
    elif after is not None and tree.is_root_wrapped and found[0][1].post_forward_mesh_info is not None:
        if not getattr(_fsdp2_state(found[0][0]), "_auto_reshard_after_forward", True):
            keys["reshard_after_forward"] = True
    _note_fsdp2(found, tree)
    if type(getattr(group, "offload_policy", None)).__name__ == "CPUOffloadPolicy":
        keys["offload"] = "all"
    policy = group.fsdp_params[0].mp_policy
    if policy.param_dtype and not policy.reduce_dtype:
        tree.note("reduce_dtype is not set: written as the parameters' own dtype, which older versions of PyTorch do not take")
    return keys, policy.param_dtype, policy.reduce_dtype


def _reshard_size(group):
    return group.post_forward_mesh_info and group.post_forward_mesh_info.shard_mesh_size


def _note_policies(policies, tree):
    if len({(p.param_dtype, p.reduce_dtype) for p in policies}) > 1:
        tree.note("units differ in mixed precision: all are written as one of them, and bytes of the others are wrong")


class _NoGroups:
    _fsdp_param_groups = ()


def _note_ignored(tree):
    ignored = [_plain(f"{path}.{name}") for path, module in tree.root.named_modules()
               for name in tree.own(module) if name not in tree.sharded.get(id(module), {})]
    if ignored:
        tree.note(f"{ignored[0]}{', …' if len(ignored) > 1 else ''}: FSDP ignores {len(ignored)} parameters, which are written as sharded")


def _note_fsdp2(found, tree):
    """What a workload has no key for."""
    states = [_fsdp2_state(m) for m, _ in found]
    if any(getattr(s, "_states_to_forward_prefetch", ()) or getattr(s, "_states_to_backward_prefetch", ()) for s in states):
        tree.note("what is prefetched is set by hand: written as by itself")
    if any(not getattr(g, "reshard_after_backward", True) for _, g in found):
        tree.note("parameters are kept after the backward: here all are gathered anew in each step")
    if any(getattr(p, "is_dtensor", False) for _, g in found for p in g.fsdp_params):
        tree.note("tensor parallelism is not in here: parameters are written whole, and its collectives are left out")
    if tree.is_root_wrapped:
        _note_ignored(tree)


def _ddp_of(model):
    """The DistributedDataParallel in or around a model, or what replicate() made one; None: none."""
    for module in model.modules():
        if isinstance(module, nn.parallel.DistributedDataParallel):
            return module
        state = _replicate_state(module)
        if state is not None:
            return state
    return None


def _replicate_state(module):
    """That of replicate(), which makes its DistributedDataParallel in the first forward; else None."""
    try:
        from torch.distributed._composable import replicate
    except ImportError:
        return None
    if type(module).__bases__[0].__module__ != "torch.distributed._composable.replicate":
        return None
    state = replicate.state(module)
    return state._ddp_weakref() if state.has_initialized else state


def _parallel_ddp(ddp, tree):
    keys = {"strategy": "ddp"}
    if not isinstance(ddp, nn.parallel.DistributedDataParallel):
        about = getattr(ddp, "_init_kwargs", {})
        keys["world_size"] = dist.get_world_size(about.get("process_group"))
        if about.get("bucket_cap_mb"):
            keys["bucket_bytes"] = int(about["bucket_cap_mb"] * (1 << 20))
        return keys, None, None
    if any(m is ddp for m in tree.root.modules()):
        tree.note("modules outside of DistributedDataParallel are written as if they were in it")
    elif _inner(ddp.module)[0] is not tree.root:
        tree.note("DistributedDataParallel is on more than this, and has it in its buckets")
    if getattr(ddp, "_comm_hooks", None):
        tree.note("a communication hook, which may reduce in another dtype, is not in here")
    for option in ("batched_grad_copy", "bucket_bytes_cap_list", "lazy_bucket_allocation", "mixed_precision"):
        if getattr(ddp, option, None):
            tree.note(f"DistributedDataParallel's {option} is not in here")
    keys |= {"world_size": dist.get_world_size(ddp.process_group), "bucket_bytes": int(ddp.bucket_bytes_cap),
             "gradient_as_bucket_view": bool(ddp.gradient_as_bucket_view)}
    if ddp.find_unused_parameters and not ddp.static_graph:
        keys["find_unused_parameters"] = True
    if not getattr(ddp, "forward_sync_buffers", getattr(ddp, "broadcast_buffers", True)):  # its name since 2.13
        keys["broadcast_buffers"] = False
    return keys, None, None


def _train(optimizer, tree):
    if optimizer is None:
        tree.note("the optimizer was not given")
        return {}
    optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate's wrapper
    if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
        optimizer = optimizer.optim
        tree.note("ZeroRedundancyOptimizer shards states over the ranks and broadcasts parameters after each step: here each rank has "
                  "all states, and nothing is broadcast")
    name = type(optimizer).__name__
    if isinstance(optimizer, torch.optim.SGD):
        keys = {"optimizer": "sgd", "momentum": float(optimizer.defaults["momentum"])}
    else:
        keys = {"optimizer": "adamw"}
        if not isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
            tree.note(f"optimizer {name} is written as adamw")
    if optimizer.defaults.get("fused"):
        keys["optimizer_impl"] = "fused"
    elif optimizer.defaults.get("foreach") is False:
        keys["optimizer_impl"] = "for-loop"
    if optimizer.defaults.get("amsgrad"):
        tree.note("amsgrad=True, a third state, is not in here")
    return keys


def _autocast_of(model):
    """The dtype of a torch.autocast that is on, or that decorates the forward of a module (as accelerate's does); else None."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    for module in model.modules():
        dtype = _autocast_around(module.__dict__.get("forward") or type(module).forward) or _lightning_autocast(module)
        if dtype is not None:
            return dtype
    return None


def _lightning_autocast(module):
    """The dtype of the autocast that Lightning's strategy puts around a module of Fabric or a LightningModule."""
    strategy = getattr(module, "_strategy", None) or getattr(getattr(module, "_trainer", None), "strategy", None)
    precision = getattr(strategy, "precision_plugin", None) or getattr(strategy, "precision", None)
    make = getattr(precision, "autocast_context_manager", None) or getattr(precision, "forward_context", None)
    context = make() if make else None
    return context.fast_dtype if isinstance(context, torch.autocast) else None


def _autocast_around(function, depth=6):
    """The same, in what a function closes over or wraps."""
    function = getattr(function, "__func__", function)
    held = [getattr(function, "__wrapped__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # empty
            continue
    for each in held:
        if isinstance(each, torch.autocast):
            return each.fast_dtype if each._enabled else None
    found = (_autocast_around(each, depth - 1) for each in held if callable(each) and not isinstance(each, nn.Module))
    return next((dtype for dtype in found if dtype is not None), None) if depth else None


def _precision(own, param, reduce, autocast, is_sharded, tree):
    """`own`: dtype of the sharded parameters; `param`, `reduce`: of the mixed precision policy or None."""
    compute = param or own
    if autocast in (torch.bfloat16, torch.float16) and own == compute == torch.float32:
        kept = {"param_dtype": "fp32", "reduce_dtype": _DTYPES.get(reduce or own, "fp32")}
        return {"precision": f"{_DTYPES[autocast]}-mixed"}, kept if is_sharded else {}
    if own not in _DTYPES or compute not in _DTYPES or (own != torch.float32 and own != compute):
        tree.note(f"parameters in {own}, computed in {compute}, are written as bf16-mixed")
        return {"precision": "bf16-mixed"}, {}
    if compute == own and own == torch.float16:
        tree.note("parameters in fp16 are written as fp16-mixed")
    mixed = compute != own or own == torch.float16
    parallel = {"param_dtype": _DTYPES[compute], "reduce_dtype": _DTYPES.get(reduce or own, "fp32")} if param or reduce else {}
    return {"precision": f"{_DTYPES[compute]}-mixed" if mixed else _DTYPES[compute]}, parallel


def workload(model, *, optimizer=None, micro_batch=1, seq_len=None, target_len=None, loss=None, clip_grad_norm=False,
             autocast=None, train=None, parallel=None, cluster=None):
    """A workload for `foregather simulate`, as TOML: the modules of `model` as a tree, with shapes, ties and what is wrapped, and the
    settings of FSDP1, FSDP2 or DDP. Parameters are read, not copied; the meta device will do.

    A tree is a chain in order of registration: what does not fit into it (parallel projections, say) is written as its parameters.
    Comments in the text say what was found and is not simulated.

    micro_batch, seq_len: sequences of a rank's micro-batch, tokens of a sequence. target_len: of a decoder's sequence. loss: "sum",
    "mean" or "cross_entropy". autocast: the dtype of a torch.autocast around the forward; None: of one that is on, or that decorates a
    forward, as accelerate's does. train, parallel, cluster: further keys of these tables, over what was found."""
    root, whole = _root(model)
    tree, ddp = _Tree(root, whole, seq_len is not None, target_len), _ddp_of(whole)
    around = next(_plain(path) for path, m in model.named_modules() if m is root) if model is whole else ""
    if around:
        tree.note(f"FSDP's root is {around}: what is around that is left out")
    is_fsdp2 = any(_fsdp2_state(m) for m in whole.modules())
    if ddp is not None:
        found, param, reduce = _parallel_ddp(ddp, tree)
    elif any(_is_fsdp1(m) for m in whole.modules()):
        found, param, reduce = _parallel_fsdp1(whole, tree)
    elif _world(whole) == 1 and not is_fsdp2:
        found, param, reduce = {"strategy": "single"}, None, None
    else:
        found, param, reduce = _parallel_fsdp2(whole, tree)
    if found["strategy"] == "fsdp2" and not is_fsdp2:
        tree.note("neither FSDP nor DDP is on the model: written as FSDP2 of the whole of it")
    elif found["strategy"] in ("fsdp1", "fsdp2") and not tree.is_root_wrapped:
        tree.note("the root is not wrapped; a tree's always is")
    if len(tree.dtypes) > 1:
        tree.note("parameters are of several dtypes: " + ", ".join(sorted(str(d) for d in tree.dtypes)))
    own = max(tree.dtypes, key=tree.dtypes.get, default=torch.float32)
    trained = max(tree.trained_dtypes, key=tree.trained_dtypes.get, default=own)
    is_sharded = found["strategy"] in ("fsdp1", "fsdp2")
    if trained != own:  # adapters of PEFT, say
        tree.note(f"what is trained is in {trained}{', in which DDP reduces it' if ddp else ''}: written in {own}, as most parameters are")
        reduce = reduce or (trained if is_sharded else None)
    precision, dtypes = _precision(own, param, reduce, autocast or _autocast_of(whole), is_sharded, tree)
    tables = {
        "train": {"micro_batch": micro_batch, **({"seq_len": seq_len} if seq_len else {}), **precision, **_train(optimizer, tree),
                  **({"trainable": tree.trainable} if tree.trainable else {}), "clip_grad_norm": clip_grad_norm, **(train or {})},
        "parallel": {**found, **dtypes, **(parallel or {})},
        "cluster": cluster or {},
    }
    head = {k: v for k, v in {"target_len": target_len, "loss": loss}.items() if v}
    return _written(tree, head, tables)


def _written(tree, head, tables):
    parameters = {p.identity: _count(p.shape) for m in tree.root.modules() for p in tree.own(m).values()}
    text = f"# {_class_name(tree.root)}, {sum(parameters.values())} parameters, written by foregather_torch with PyTorch {torch.__version__}.\n"
    for note in tree.notes:
        text += f"# Note: {note}.\n"
    if tree.uncosted:
        text += "# Not costed: what these do beside calling the modules in them: " + ", ".join(f"{c} ({p})" for c, p in tree.uncosted.items()) + ".\n"
    text += "\n[model]\n" + "".join(f"{k} = {_value(v)}\n" for k, v in head.items()) + "tree = [\n" + _nodes(tree.nodes, "  ") + "]\n"
    for name, keys in tables.items():
        if keys:
            text += f"\n[{name}]\n" + "".join(f"{k} = {_value(v)}\n" for k, v in keys.items())
    return text


def _nodes(nodes, indent):
    text = ""
    for node in nodes:
        keys = "".join(f", {k} = {_value(v)}" for k, v in node.keys.items())
        if node.kind == "children":
            text += f"{indent}{{ name = {_value(node.name)}{keys}, children = [\n{_nodes(node.children, indent + '  ')}{indent}] }},\n"
        else:
            text += f"{indent}{{ name = {_value(node.name)}, {node.kind} = {_value(node.value)}{keys} }},\n"
    return text


def _value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return json.dumps(value)


@contextlib.contextmanager
def _whole_file(path):
    """A name to write to: what is written there appears under `path` complete, or not at all."""
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    unfinished = os.path.join(folder, f".{os.getpid()}.{name}")  # keeps the ending, which decides the format
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)


def write_workload(path, model, **about):
    """workload() into a file."""
    text = workload(model, **about)
    with _whole_file(path) as unfinished:
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(text)


# --- ranges -------------------------------------------------------------------------------------------------------------------------


def scope(path, phase):
    """A range for what no module does: `with scope("-", "optimizer"): clip_grad_norm_(…)`. "-" is the root; phases are forward,
    backward, recompute, optimizer and other."""
    return torch.profiler.record_function(f"{path or '-'}/{phase}")


def _in_backward():
    return torch._C._current_graph_task_id() != -1


def _is_recording():
    return getattr(torch.autograd.profiler, "_is_profiler_enabled", True)


def _tensors(tree):
    from torch.utils._pytree import tree_leaves

    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.requires_grad]


class _Thread(threading.local):
    def __init__(self):
        self.forward = []  # open ranges of modules, outermost first: (path, range)
        self.backward = None  # (path, range) of the module whose backward runs
        self.task = -1  # the backward whose end is awaited


class Scopes:
    """Says in the profiler's recording what each module does: ranges "layers.3.attn/forward", …/backward, …/recompute. Made after the
    model was wrapped; ends with remove() or a with block. Values are not touched. While nothing records it does next to nothing.

    A module's backward begins when the gradient of its output is there and ends when that of its input is: the range of the next module
    ends it. What FSDP1 gathers and reduces lies in ranges of its unit; FSDP2 names its units itself. Not for compiled modules."""

    def __init__(self, model):
        model = _root(model)[0]
        model = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
        self._at, self._undo, seen = _Thread(), [], set()
        for name, module in model.named_modules():
            path = _plain(name)
            if path in seen:  # inside of a wrapper that has the range
                continue
            seen.add(path)
            self._watch(module, path)
        units = {id(m._handle): (m._handle, _plain(n)) for n, m in model.named_modules() if _is_fsdp1(m) and m._handle is not None}
        if units:
            self._watch_fsdp1(units)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for undo in reversed(self._undo):
            undo()
        self._undo = []

    def end_raised(self):
        """Ends what a backward that raised has left open; the next forward does so by itself."""
        if self._at.backward is not None and not _in_backward():
            _end_backward(self._at.__dict__)

    def _watch(self, module, path):
        def before(_module, args, kwargs):
            self.end_raised()
            if not _is_recording():
                return
            phase = "recompute" if _in_backward() else "forward"
            self._at.forward.append((path, _open(path, phase)))
            for tensor in _tensors((args, kwargs)):
                if not tensor.is_leaf:
                    tensor.register_hook(lambda _: self._leave(path))

        def after(_module, _args, _kwargs, output):
            while any(p == path for p, _ in self._at.forward):
                last, opened = self._at.forward.pop()
                _close(opened)
                if last == path:
                    break
            if _is_recording():
                for tensor in _tensors(output):
                    tensor.register_hook(lambda _: self._enter(path))

        for handle in (module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
                       module.register_forward_hook(after, with_kwargs=True, always_call=True)):
            self._undo.append(handle.remove)

    # Backward: one module at a time. A container and its last module share an output, and its first one an input, so
    # that hooks may come in any order: the inner one counts.

    def _enter(self, path):
        now = self._at.backward
        if self._undo and not (now and _is_within(now[0], path)):
            self._switch(path)

    def _leave(self, path):
        now = self._at.backward
        if self._undo and now and path and _is_within(now[0], path):
            self._switch(path.rpartition(".")[0])

    def _switch(self, path):
        at, task = self._at, torch._C._current_graph_task_id()
        if at.backward is not None:
            _close(at.backward[1])
        if at.task != task:  # after a backward that raised, too
            at.task, state = task, at.__dict__  # of this thread, wherever the end is noticed
            torch.autograd.Variable._execution_engine.queue_callback(lambda: _end_backward(state))
        at.backward = (path, _open(path, "backward")) if _is_recording() else None

    def _watch_fsdp1(self, units):
        from torch.distributed.fsdp import _runtime_utils as runtime

        def ranged(function, path_of):
            def call(*args, **kwargs):
                path = path_of(*args)
                if path is None or not _is_recording():
                    return function(*args, **kwargs)
                with scope(path, "backward" if _in_backward() else "forward"):
                    return function(*args, **kwargs)

            return call

        for handle, path in units.values():
            for name in ("pre_unshard", "unshard"):
                setattr(handle, name, ranged(getattr(handle, name), lambda *_, path=path: path))
                self._undo.append(lambda handle=handle, name=name: delattr(handle, name))
        for name in ("_reduce_grad", "_reduce_grad_no_shard"):
            function = getattr(runtime, name, None)
            if function is None:
                warnings.warn(f"foregather_torch: this PyTorch has no {name}: reductions lie in the ranges of the modules around them", stacklevel=3)
                continue
            setattr(runtime, name, ranged(function, lambda _state, handle, *_: units.get(id(handle), (None, None))[1]))
            self._undo.append(lambda name=name, function=function: setattr(runtime, name, function))


def _is_within(path, outer):
    return not outer or path == outer or path.startswith(outer + ".")


def _open(path, phase):
    opened = scope(path, phase)
    opened.__enter__()
    return opened


def _close(opened):
    opened.__exit__(None, None, None)


def _end_backward(state):
    state["task"] = -1
    if state["backward"] is not None:
        _close(state["backward"][1])
        state["backward"] = None


# --- recording ----------------------------------------------------------------------------------------------------------------------


_RECORDING = "FOREGATHER_RECORD_DIR"  # `foregather record` sets it: the folder of its processes' files


def _put_into_recording(path, steps):
    """A memory snapshot beside the file that `foregather record` has of this process, under its name: the run will hold it."""
    folder = os.environ[_RECORDING]
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "host"
    ending = f"{host}_{os.getpid()}.sqlite"
    named = [n for n in os.listdir(folder) if n == ending or re.fullmatch(r"rank\d+_" + re.escape(ending), n)]
    with _whole_file(os.path.join(folder, f"{(named or [ending])[0][:-len('.sqlite')]}.step{steps}.memory.pickle")) as unfinished:
        try:
            os.link(path, unfinished)
        except OSError:  # another file system
            shutil.copyfile(path, unfinished)


class _RecordedSteps:
    """What stands in for torch.profiler under `foregather record`, which records device work itself and is CUPTI's one client: the
    chosen steps as NVTX ranges ProfilerStep#N, and operators and scopes within them."""

    def __init__(self, steps):
        self._steps, self._now = steps, 0
        self._has_nvtx = torch.cuda.is_available()
        self._operators = None
        if not self._has_nvtx:
            print("foregather_torch: no CUDA device here: steps and scopes are not in the recording", file=sys.stderr)

    def start(self):
        self._begin()

    def step(self):
        self._end()
        self._now += 1
        self._begin()

    def stop(self):
        self._end()
        self._end_operators()

    def _begin(self):
        if not self._has_nvtx:
            return
        if self._now not in self._steps:
            return self._end_operators()
        if self._operators is None:
            self._operators = torch.autograd.profiler.emit_nvtx(record_shapes=True)
            self._operators.__enter__()
        torch.cuda.nvtx.range_push(f"ProfilerStep#{self._now}")

    def _end(self):
        if self._has_nvtx and self._now in self._steps:
            torch.cuda.nvtx.range_pop()

    def _end_operators(self):
        if self._operators is not None:
            self._operators.__exit__(None, None, None)
            self._operators = None


class Recorder:
    """Records chosen steps: torch.profiler's trace as FOLDER/rankR_stepN.json.gz (…_stepN-M for steps in a row), and on CUDA the
    allocator's history as ….memory.pickle. Files appear complete or not at all; `files` lists those written.

    In a process that `foregather record` records, torch.profiler is left out: steps, operators and scopes are NVTX ranges of that
    recording, and the history goes into it, too.

        with Recorder("recording", steps=[10, 11], model=model) as recorder:
            for batch in batches:
                …
                recorder.step()  # ends a step; the first one is 0

    A step that step() does not end is warned of: its file holds what there was.
    model: with Scopes while the block lasts. memory: with the allocator's history. options: for torch.profiler.profile."""

    def __init__(self, folder, steps, model=None, memory=True, **options):
        self.folder, self.steps, self.files = folder, sorted(set(steps)), []
        if not self.steps or self.steps[0] < 0:
            raise ValueError("steps: expected numbers of steps to record, the first one is 0")
        self.rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        self._model, self._now, self._first, self._scopes = model, 0, None, None
        self._has_memory, self._in_memory = memory and torch.cuda.is_available(), False
        if memory and not self._has_memory and self.rank == 0:
            print("foregather_torch: no CUDA device here: the allocator's history is not recorded", file=sys.stderr)
        self._is_recorded = bool(os.environ.get(_RECORDING))
        if self._is_recorded:
            self._profiler = _RecordedSteps(self.steps)
            return
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        options = {"activities": activities, "record_shapes": True, "profile_memory": torch.cuda.is_available(), **options}
        self._profiler = torch.profiler.profile(schedule=self._action, on_trace_ready=self._write_trace, **options)

    def _action(self, step):
        action = torch.profiler.ProfilerAction
        if step in self.steps:
            return action.RECORD if step + 1 in self.steps else action.RECORD_AND_SAVE
        return action.WARMUP if step + 1 in self.steps else action.NONE

    def __enter__(self):
        if self._model is not None:
            self._scopes = Scopes(self._model)
        self._profiler.start()
        self._begin_step()
        return self

    def step(self):
        """Ends a step and begins the next one."""
        if self._scopes is not None:
            self._scopes.end_raised()
        self._now += 1
        if self._now not in self.steps:
            self._end_memory()
        self._profiler.step()
        self._begin_step()

    def __exit__(self, *_):
        self._end_memory()
        self._profiler.stop()
        if self._scopes is not None:
            self._scopes.remove()
        missing = [str(step) for step in self.steps if step >= self._now]
        if missing:
            warnings.warn(f"foregather_torch: not ended by step(), so not recorded or not whole: step {', '.join(missing)}", stacklevel=2)

    def _begin_step(self):
        if self._now not in self.steps or self._now - 1 in self.steps:
            return
        self._first = self._now
        if self._has_memory:
            torch.cuda.memory._record_memory_history(max_entries=1_000_000)
            self._in_memory = True

    def _end_memory(self):
        if not self._in_memory:
            return
        self._in_memory = False
        with self._file("memory.pickle") as unfinished:
            torch.cuda.memory._dump_snapshot(unfinished)
        torch.cuda.memory._record_memory_history(enabled=None)
        if self._is_recorded:
            _put_into_recording(self.files[-1], self._step_numbers())

    def _write_trace(self, profiler):
        with self._file("json.gz") as unfinished:
            profiler.export_chrome_trace(unfinished)

    def _step_numbers(self):
        last = self._first
        while last + 1 in self.steps and last + 1 < self._now:
            last += 1
        return f"{self._first}" if last == self._first else f"{self._first}-{last}"

    @contextlib.contextmanager
    def _file(self, ending):
        path = os.path.join(self.folder, f"rank{self.rank}_step{self._step_numbers()}.{ending}")
        with _whole_file(path) as unfinished:
            yield unfinished
        self.files.append(path)
