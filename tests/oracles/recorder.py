"""Listens to FSDP1, FSDP2 and DDP while they train, and writes down what they do, in the order the host does it.

Nothing here changes a decision of PyTorch: each wrapper notes a fact and calls the original.  What is wrapped:

* ``torch.distributed.all_gather*``, ``reduce_scatter*``, ``all_reduce``, ``broadcast`` (both FSDPs call them by these names);
* FSDP1: ``FlatParamHandle._alloc_padded_unsharded_flat_param``, ``_all_gather_flat_param``, ``_free_unsharded_flat_param``,
  ``_runtime_utils._reshard``, ``_reduce_grad``, ``_reduce_grad_no_shard`` and the rate limiter's queue;
* FSDP2: ``FSDPParamGroup.unshard``, ``post_backward``, ``_to_unsharded``, ``_to_sharded``, ``_to_sharded_post_forward``,
  and the lifetime (weak reference) of each all-gather output and reduce-scatter input;
* DDP, whose all-reduces are issued in C++: a dispatch mode that sees the ``c10d`` operators;
* with ``stream_log``: ``torch.cpu``'s streams and events, which are empty stand-ins on a CPU, are replaced by equally empty ones
  that note which stream is current, what is recorded and what waits for what.
"""

import contextlib
import weakref

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

import tiny_models

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.uint8: "u8", torch.int64: "i64", torch.int32: "i32"}
SHORT = {"all_gather": "ag", "reduce_scatter": "rs", "all_reduce": "ar", "broadcast": "bc"}


class Recorder:
    """One per rank.  ``start()`` before a step, ``take()`` after it."""

    def __init__(self):
        self.on = False
        self.units = {}  # id(FlatParamHandle or FSDPParamGroup) -> unit name
        self.group_names = {}  # process group -> name, when there is more than one
        self.unit_stack = []
        self.depth = 0
        self.lifetimes = False  # note when a collective's buffer dies (FSDP2 holds some back; FSDP1 does not)
        self.streams = None  # a StreamLog, or None
        self.start()

    def start(self):
        self.collectives, self.events = [], []
        self.phase, self.micro_batch = "forward", 0

    def take(self):
        return {"collectives": self.collectives, "events": self.events}

    def note(self, text):
        if self.on:
            self.events.append(text)

    def enter(self, phase, micro_batch):
        self.phase, self.micro_batch = phase, micro_batch
        self.note(f"== {phase} {micro_batch}")

    def name(self, owner):
        return self.units[id(owner)]

    @contextlib.contextmanager
    def unit(self, owner):
        self.unit_stack.append(self.name(owner))
        try:
            yield
        finally:
            self.unit_stack.pop()

    def collective(self, kind, nbytes, dtype, group):
        if not self.on:
            return
        unit = self.unit_stack[-1] if self.unit_stack else None
        row = [kind, unit, nbytes, DTYPES[dtype], self.phase, self.micro_batch, dist.get_world_size(group)]
        if len(self.group_names) > 0:
            row.append(self.group_names.get(group, "world"))
        self.collectives.append(row)
        self.note(f"{SHORT[kind]} {unit}" if unit is not None else SHORT[kind])
        if self.streams:
            self.streams.row(f"{SHORT[kind]} {unit} on {self.streams.current_name()}")


REC = Recorder()
tiny_models.MARK = lambda token, piece: REC.note(f"{token} {piece}")


# --- collectives ------------------------------------------------------------------------------------------------------


def _bytes(t):
    return t.numel() * t.element_size()


def _alias(args, kwargs):
    """The same call on aliases, so that a backend thread that still holds its arguments does not prolong their lives."""

    def alias(x):
        return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.detach()) if isinstance(x, torch.Tensor) else x

    with torch.no_grad():
        return [alias(a) for a in args], {k: alias(v) for k, v in kwargs.items()}


def _wrap_collective(name, kind, describe):
    original = getattr(dist, name, None)
    if original is None:
        return

    def wrapper(*args, **kwargs):
        if REC.depth == 0:
            big, group = describe(args, kwargs)
            REC.collective(kind, sum(_bytes(t) for t in big), big[0].dtype, group)
            if kind in ("all_gather", "reduce_scatter") and REC.lifetimes and REC.unit_stack and REC.on:
                unit = REC.unit_stack[-1]
                token = "agfree" if kind == "all_gather" else "rsfree"
                weakref.finalize(big[0], lambda: REC.note(f"{token} {unit}")).atexit = False
                args, kwargs = _alias(args, kwargs)
        REC.depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            REC.depth -= 1

    wrapper.__name__ = name
    setattr(dist, name, wrapper)


def _arg(args, kwargs, i, *names):
    if len(args) > i:
        return args[i]
    for n in names:
        if n in kwargs:
            return kwargs[n]
    return None


def install_collectives():
    for n in ("all_gather_single", "all_gather_into_tensor", "_all_gather_base"):
        _wrap_collective(n, "all_gather", lambda a, k: ([_arg(a, k, 0, "output_tensor", "output")], _arg(a, k, 2, "group")))
    _wrap_collective("all_gather", "all_gather", lambda a, k: (_arg(a, k, 0, "tensor_list"), _arg(a, k, 2, "group")))
    for n in ("reduce_scatter_single", "reduce_scatter_tensor", "_reduce_scatter_base"):
        _wrap_collective(n, "reduce_scatter", lambda a, k: ([_arg(a, k, 1, "input")], _arg(a, k, 3, "group")))
    _wrap_collective("all_reduce", "all_reduce", lambda a, k: ([_arg(a, k, 0, "tensor")], _arg(a, k, 2, "group")))
    _wrap_collective("broadcast", "broadcast", lambda a, k: ([_arg(a, k, 0, "tensor")], _arg(a, k, 2, "group")))


class C10dLog(TorchDispatchMode):
    """Notes every collective that reaches the dispatcher (DDP's reducer, functional collectives)."""

    KINDS = {"allreduce_": "all_reduce", "broadcast_": "broadcast", "allgather_": "all_gather", "_allgather_base_": "all_gather",
             "_reduce_scatter_base_": "reduce_scatter", "all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather"}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(t is DTensor for t in types):
            return NotImplemented  # let the sharded tensor issue its local operators first
        if func.namespace in ("c10d", "_c10d_functional"):
            kind = self.KINDS.get(func._opname)
            if kind is not None and REC.depth == 0:
                tensors = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
                REC.collective(kind, sum(_bytes(t) for t in tensors), tensors[0].dtype, None)
        return func(*args, **(kwargs or {}))


# --- FSDP1 ------------------------------------------------------------------------------------------------------------


def _patch(owner, name, make):
    original = getattr(owner, name)
    setattr(owner, name, make(original))


def install_fsdp1():
    from torch.distributed.fsdp import _flat_param, _limiter_utils, _runtime_utils

    handle = _flat_param.FlatParamHandle

    def alloc(original):
        def f(self):
            REC.note(f"unshard {REC.name(self)}")
            return original(self)
        return f

    def gather(original):
        def f(self, out):
            with REC.unit(self):
                return original(self, out)
        return f

    def free(original):
        def f(self):
            if self._get_padded_unsharded_flat_param().untyped_storage().size() > 0:
                REC.note(f"reshard {REC.name(self)}")
            return original(self)
        return f

    def reduce(original):
        def f(state, h):
            with REC.unit(h):
                return original(state, h)
        return f

    _patch(handle, "_alloc_padded_unsharded_flat_param", alloc)
    _patch(handle, "_all_gather_flat_param", gather)
    _patch(handle, "_free_unsharded_flat_param", free)
    _patch(_runtime_utils, "_reduce_grad", reduce)
    _patch(_runtime_utils, "_reduce_grad_no_shard", reduce)

    # The rate limiter: which unit's free does the host wait for, before gathering which unit?
    freeing, freed_by = [], {}

    def reshard(original):
        def f(state, h, free_flag):
            freeing.append(REC.name(h))
            try:
                return original(state, h, free_flag)
            finally:
                freeing.pop()
        return f

    def enqueue(original):
        def f(self, event):
            freed_by[id(event)] = (event, freeing[-1])
            return original(self, event)
        return f

    def dequeue(original):
        def f(self):
            event = original(self)
            if event is not None:
                REC.note(f"host_wait {freed_by.pop(id(event))[1]}")
            return event
        return f

    _patch(_runtime_utils, "_reshard", reshard)
    _patch(_limiter_utils._FreeEventQueue, "enqueue", enqueue)
    _patch(_limiter_utils._FreeEventQueue, "dequeue_if_needed", dequeue)

    def record_stream(original):
        def f(tensor, stream):
            if REC.streams:
                REC.streams.row(f"record_stream {_bytes(tensor)} bytes on {REC.streams.name(stream)}")
            return original(tensor, stream)
        return f

    _patch(_runtime_utils, "_no_dispatch_record_stream", record_stream)
    _flat_param._no_dispatch_record_stream = _runtime_utils._no_dispatch_record_stream


def name_fsdp1_units(model):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    out = {}
    for fqn, m in model.named_modules():
        if isinstance(m, FSDP) and m._handle is not None:
            name = fqn.replace("_fsdp_wrapped_module.", "").replace("_fsdp_wrapped_module", "").replace("_checkpoint_wrapped_module", "").strip(".")
            h = m._handle
            REC.units[id(h)] = name
            fp = h.flat_param
            out[name] = {
                "parameters": [x.replace("_checkpoint_wrapped_module.", "") for x in fp._fqns],
                "numel": sum(fp._numels),
                "shard_numel": fp.numel() if not h.uses_sharded_strategy else fp._local_shard.numel() if hasattr(fp, "_local_shard") else fp.numel(),
                "world": h.world_size,
            }
    return out


# --- FSDP2 ------------------------------------------------------------------------------------------------------------


def install_fsdp2():
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group

    group = _fsdp_param_group.FSDPParamGroup
    REC.lifetimes = True

    def in_unit(original):
        def f(self, *a, **k):
            with REC.unit(self):
                return original(self, *a, **k)
        return f

    def changes(text, test):
        def make(original):
            def f(self):
                if test(self):
                    REC.note(text(self))
                return original(self)
            return f
        return make

    _patch(group, "unshard", in_unit)
    _patch(group, "post_backward", in_unit)
    _patch(group, "_to_unsharded", changes(lambda g: f"unshard {REC.name(g)}", lambda g: not g.is_unsharded))
    _patch(group, "_to_sharded", changes(lambda g: f"reshard {REC.name(g)}", lambda g: not g.is_sharded))
    _patch(group, "_to_sharded_post_forward",
           changes(lambda g: f"reshard_to_{g.post_forward_mesh_info.shard_mesh_size} {REC.name(g)}", lambda g: not g.is_sharded_post_forward))


def name_fsdp2_units(model):
    out, names = {}, {}
    for fqn, m in model.named_modules():
        state = m._get_fsdp_state() if hasattr(m, "_get_fsdp_state") else None
        if state is None:
            continue
        groups = getattr(state, "_fsdp_param_groups", None)  # a list since torch 2.12 or so
        for g in groups if groups is not None else filter(None, [state._fsdp_param_group]):
            names.setdefault(id(g), (g, []))[1].append(fqn.replace("_checkpoint_wrapped_module", "").strip("."))
    for key, (g, fqns) in names.items():
        name = "+".join(fqns)
        REC.units[key] = name
        padded = [p.padded_sharded_param_size.numel() for p in g.fsdp_params]
        fqn_of = {id(p): n for n, p in model.named_parameters()}
        out[name] = {
            "parameters": [fqn_of[id(p.sharded_param)].replace("_checkpoint_wrapped_module.", "") for p in g.fsdp_params],
            "numel": sum(p._orig_size.numel() for p in g.fsdp_params),
            "shard_numel": sum(padded),
            "world": g.mesh_info.shard_mesh_size,
        }
    return out


# --- streams ----------------------------------------------------------------------------------------------------------


class StreamLog:
    """The stream operations of a step, as rows of text."""

    def __init__(self):
        self.rows, self.names, self.events, self.count = [], {}, {}, 0

    def row(self, text):
        if REC.on:
            self.rows.append(text)

    def name(self, stream):
        return self.names.get(id(stream), f"stream{getattr(stream, 'number', '?')}")

    def current_name(self):
        return self.name(torch.cpu.current_stream())


def install_stream_log():
    log = StreamLog()
    REC.streams = log
    numbers = iter(range(1, 1000))

    class Event:
        def __init__(self, *a, **k):
            self.label = None

        def record(self, stream=None):
            log.count += 1
            self.label = f"e{log.count}"
            log.row(f"record {self.label} on {log.name(stream) if stream is not None else log.current_name()}")
            return self

        def query(self):
            return True

        def synchronize(self):
            log.row(f"host waits {self.label}")

        def wait(self, stream=None):
            log.row(f"{log.name(stream) if stream is not None else log.current_name()} waits {self.label}")

    class Stream:
        def __init__(self, priority=0, **k):
            self.number, self.priority = next(numbers), priority

        def wait_stream(self, other):
            log.row(f"{log.name(self)} waits {log.name(other)}")

        def record_event(self, event=None):
            return (event or Event()).record(self)

        def wait_event(self, event):
            if event is not None:
                log.row(f"{log.name(self)} waits {event.label}")

        def synchronize(self):
            log.row(f"host waits {log.name(self)}")

    default = Stream()
    log.names[id(default)] = "default"
    current = [default]

    @contextlib.contextmanager
    def stream(s):
        current.append(s)
        try:
            yield
        finally:
            current.pop()

    torch.cpu.Stream, torch.cpu.Event = Stream, Event
    torch.cpu.stream, torch.cpu.current_stream = stream, lambda device=None: current[-1]

    note = REC.note
    shown = ("unshard", "reshard", "==", "agfree", "rsfree", "host_wait")

    def note_both(text):
        note(text)
        if text.startswith(shown):
            log.row(text)

    REC.note = note_both
    tiny_models.MARK = lambda token, piece: (note(f"{token} {piece}"), log.row(f"{token} {piece}"))
    return log


def name_streams(log, model, family):
    """After lazy initialisation (the first forward) the streams have names."""
    if family == "fsdp1":
        for n in ("_unshard_stream", "_pre_unshard_stream", "_post_backward_stream", "_all_reduce_stream"):
            s = getattr(model, n)
            log.names.setdefault(id(s), n.strip("_").removesuffix("_stream"))
    else:
        ctx = model._get_fsdp_state()._comm_ctx
        for n in ("all_gather_copy_in_stream", "all_gather_stream", "reduce_scatter_stream", "all_reduce_stream"):
            log.names.setdefault(id(getattr(ctx, n)), n.removesuffix("_stream"))
