"""What record_fsdp.py records: models, world sizes and settings, by family."""

import tiny_models

FSDP1 = {  # the defaults of the settings; a case names what differs
    "wrap": "block",  # block | whole | size:N (size_based_auto_wrap_policy, min_num_params=N)
    "sharding_strategy": "FULL_SHARD",
    "backward_prefetch": "pre",  # none | pre | post
    "forward_prefetch": False,
    "limit_all_gathers": True,
    "use_orig_params": False,
    "param_dtype": None,
    "reduce_dtype": None,
    "activation_checkpointing": "none",  # none | block (checkpoint_wrapper inside the unit) | around (reentrant, around it)
    "grad_accum": 1,
    "no_sync": False,  # with grad_accum: all micro-batches but the last run inside no_sync()
    "clip_grad_norm": False,
    "shard_size": None,  # hybrid sharding: ranks per shard group
}
FSDP2 = {
    "wrap": "block",  # block | block+ends | block+ends3 | whole | block+tied
    "reshard_after_forward": None,  # None = the default (True, but False for the root) | True | False | int
    "forward_prefetch": 0,  # set_modules_to_forward_prefetch to the next N layers
    "backward_prefetch": 0,  # set_modules_to_backward_prefetch to the previous N layers; 0 = implicit
    "param_dtype": None,
    "reduce_dtype": None,
    "activation_checkpointing": "none",
    "grad_accum": 1,
    "gradient_sync": "always",  # always | last: set_requires_gradient_sync(False) but for the last micro-batch
    "reshard_after_backward": "always",  # always | last: set_reshard_after_backward(False) but for the last micro-batch
    "is_last_backward": "unset",  # unset | last: set_is_last_backward(False) but for the last micro-batch
    "clip_grad_norm": False,
    "shard_size": None,  # 2-D mesh: replicate x shard
    "reduce_scatter_max_input_buffers": 1,
    "separate_reduce_scatter_group": False,
    "unshard_in_backward_ends": True,  # False: set_unshard_in_backward(False) on the embedding group
}
DDP = {"bucket_cap_mb": None, "gradient_as_bucket_view": False, "static_graph": False, "grad_accum": 1, "no_sync": False}

BF16 = {"param_dtype": "bf16", "reduce_dtype": "f32"}


def fsdp1_cases():
    both, c = ("gpt2", "llama"), []
    add = lambda name, models=both, world=4, **s: c.extend((name, m, world, s) for m in models)
    add("default")
    add("default", world=2)
    add("prefetch_none", backward_prefetch="none")
    add("prefetch_post", backward_prefetch="post")
    add("forward_prefetch", forward_prefetch=True)
    add("forward_prefetch_no_backward_prefetch", ("llama",), forward_prefetch=True, backward_prefetch="none")
    add("no_limit", ("llama",), limit_all_gathers=False)
    add("grad_op", sharding_strategy="SHARD_GRAD_OP")
    add("grad_op_prefetch_none", ("llama",), sharding_strategy="SHARD_GRAD_OP", backward_prefetch="none")
    add("no_shard", sharding_strategy="NO_SHARD")
    add("no_shard_bf16", ("llama",), sharding_strategy="NO_SHARD", **BF16)
    add("orig_params", use_orig_params=True)
    add("orig_params", ("gpt2_odd", "llama_odd"), use_orig_params=True)
    add("orig_params_bf16", ("gpt2_odd", "llama_odd"), use_orig_params=True, **BF16)
    add("flat_params", ("gpt2_odd", "llama_odd"))
    add("flat_params", ("gpt2_odd",), world=2)
    add("whole", wrap="whole")
    add("whole_orig_params_bf16", ("llama",), wrap="whole", use_orig_params=True, **BF16)
    add("size_based", ("gpt2_untied", "llama"), wrap="size:20000")
    add("size_based_fine", ("llama",), wrap="size:4000")
    add("bf16_f32", **BF16)
    add("bf16_bf16", ("llama",), param_dtype="bf16")
    add("f32_bf16", ("llama",), reduce_dtype="bf16")
    add("bf16_f32_prefetch_post", ("llama",), backward_prefetch="post", **BF16)
    add("untied", ("gpt2_untied",))
    add("tied", ("llama_tied",))
    add("accum", ("llama",), grad_accum=2)
    add("accum_no_sync", grad_accum=2, no_sync=True)
    add("accum_no_sync_grad_op", ("llama",), grad_accum=2, no_sync=True, sharding_strategy="SHARD_GRAD_OP")
    add("accum_grad_op", ("llama",), grad_accum=2, sharding_strategy="SHARD_GRAD_OP")
    add("accum_no_sync_orig_params_bf16", ("llama",), grad_accum=2, no_sync=True, use_orig_params=True, **BF16)
    add("checkpoint", activation_checkpointing="block", use_orig_params=True)
    add("checkpoint_prefetch_none", ("llama",), activation_checkpointing="block", use_orig_params=True, backward_prefetch="none")
    add("checkpoint_around", activation_checkpointing="around")
    add("checkpoint_around_bf16", ("llama",), activation_checkpointing="around", **BF16)
    add("clip", ("llama",), clip_grad_norm=True)
    add("hybrid", ("llama",), sharding_strategy="HYBRID_SHARD", shard_size=2)
    add("hybrid_zero2", ("llama",), sharding_strategy="_HYBRID_SHARD_ZERO2", shard_size=2)
    add("forward_prefetch_checkpoint", ("llama",), forward_prefetch=True, activation_checkpointing="block", use_orig_params=True)
    return c


def fsdp2_cases():
    both, c = ("gpt2", "llama"), []
    add = lambda name, models=both, world=4, **s: c.extend((name, m, world, s) for m in models)
    add("block")
    add("block", world=2)
    add("block", ("gpt2_odd", "llama_odd"))
    add("block_bf16", ("gpt2_odd", "llama_odd"), **BF16)
    add("reshard_true", reshard_after_forward=True)
    add("reshard_false", reshard_after_forward=False)
    add("reshard_to_2", reshard_after_forward=2)
    add("reshard_to_2_bf16", ("llama_odd",), reshard_after_forward=2, **BF16)
    add("whole", wrap="whole")
    add("whole_reshard_true", ("llama",), wrap="whole", reshard_after_forward=True)
    add("ends", ("gpt2_untied", "llama"), wrap="block+ends")
    add("ends_reshard_true", ("llama",), wrap="block+ends", reshard_after_forward=True)
    add("ends_reshard_false", ("llama",), wrap="block+ends", reshard_after_forward=False)
    add("ends_separate", ("gpt2_untied", "llama"), wrap="block+ends3")
    add("ends_no_unshard_in_backward", ("llama",), wrap="block+ends", unshard_in_backward_ends=False)
    add("tied_together", ("gpt2", "llama_tied"), wrap="block+tied")
    add("tied", ("llama_tied",))
    add("untied", ("gpt2_untied",))
    add("forward_prefetch_1", forward_prefetch=1)
    add("forward_prefetch_2", ("llama",), forward_prefetch=2)
    add("backward_prefetch_1", backward_prefetch=1)
    add("backward_prefetch_2", backward_prefetch=2)
    add("both_prefetch_2", ("llama",), forward_prefetch=2, backward_prefetch=2)
    add("ends_both_prefetch_1", ("llama",), wrap="block+ends", forward_prefetch=1, backward_prefetch=1)
    add("bf16_f32", **BF16)
    add("bf16_bf16", ("llama",), param_dtype="bf16")
    add("f32_bf16", ("llama",), reduce_dtype="bf16")
    add("accum", ("llama",), grad_accum=2)
    add("accum_sync_last", grad_accum=2, gradient_sync="last")
    add("accum_sync_last_bf16", ("llama",), grad_accum=2, gradient_sync="last", **BF16)
    add("accum_sync_last_keep", ("llama",), grad_accum=2, gradient_sync="last", reshard_after_backward="last")
    add("accum_sync_last_backward_flag", ("llama",), grad_accum=2, gradient_sync="last", is_last_backward="last")
    add("accum_sync_last_reshard_false", ("llama",), grad_accum=2, gradient_sync="last", reshard_after_forward=False)
    add("checkpoint", activation_checkpointing="block")
    add("rs_buffers_2", ("llama",), reduce_scatter_max_input_buffers=2)
    add("rs_group", ("llama",), separate_reduce_scatter_group=True)
    add("clip", ("llama",), clip_grad_norm=True)
    add("hybrid", ("llama",), shard_size=2)
    add("hybrid_bf16", ("llama",), shard_size=2, **BF16)
    return c


DDP_CONFIGS = {
    "gpt2_19m": tiny_models.gpt2_config(hidden=512, layers=6, heads=8, vocab=2048, positions=64),
    "llama_15m": tiny_models.llama_config(hidden=512, layers=4, heads=8, kv=4, inner=1408, vocab=2048),
}


def ddp_cases():
    both, c = tuple(DDP_CONFIGS), []
    add = lambda name, models=both, world=2, **s: c.extend((name, m, world, s) for m in models)
    add("default")
    add("default", ("gpt2", "llama"))
    add("default", ("llama_15m",), world=4)
    add("cap_1", bucket_cap_mb=1)
    add("cap_4", bucket_cap_mb=4)
    add("cap_100", bucket_cap_mb=100)
    add("cap_small", ("gpt2", "llama"), bucket_cap_mb=0.1)
    add("bucket_view", ("gpt2_19m",), gradient_as_bucket_view=True)
    add("static_graph", ("gpt2_19m",), static_graph=True)
    add("accum", ("gpt2_19m",), grad_accum=2)
    add("accum_no_sync", ("gpt2_19m",), grad_accum=2, no_sync=True)
    return c


CASES = {"fsdp1": (fsdp1_cases, FSDP1), "fsdp2": (fsdp2_cases, FSDP2), "ddp": (ddp_cases, DDP)}
# The few cases whose stream operations are kept too, in streams.json.
STREAM_CASES = [
    ("fsdp1", "default", "llama", 4, {}),
    ("fsdp1", "bf16_f32_prefetch_post", "llama", 4, dict(backward_prefetch="post", **BF16)),
    ("fsdp1", "hybrid", "llama", 4, dict(sharding_strategy="HYBRID_SHARD", shard_size=2)),
    ("fsdp2", "block", "llama", 4, {}),
    ("fsdp2", "bf16_f32", "llama", 4, dict(BF16)),
    ("fsdp2", "hybrid_bf16", "llama", 4, dict(shard_size=2, **BF16)),
    ("fsdp2", "forward_prefetch_1", "llama", 4, dict(forward_prefetch=1)),
    ("fsdp2", "reshard_to_2", "llama", 4, dict(reshard_after_forward=2)),
]
