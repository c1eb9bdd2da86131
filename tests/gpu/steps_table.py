"""The table of measured steps: `steps_table.py TABLE.csv OUT.json…` of what steps.py wrote; of a case that is
there twice the last one. docs/formats.md names the columns."""

import json
import sys

KEYS = {  # of a case of steps.py: key of a workload, and what llama_8b.toml and llama_1b.toml say
    "layers": ("model.layers", None), "micro_batch": ("train.micro_batch", 1), "seq_len": ("train.seq_len", 8192),
    "world_size": ("parallel.world_size", 8), "checkpointing": ("train.activation_checkpointing", "none"),
    "compile": ("train.compile", False), "compile_loss": ("train.compile_loss", False),
    "float8": ("train.float8", None), "optimizer": ("train.optimizer_impl", "foreach"),
    "repeat_kv": ("train.repeat_kv", True), "complex_rotary": ("train.complex_rotary", True),
    "fused_norm": ("train.fused_rms_norm", True),
    "attention": ("train.attention", "sdpa"), "wrap": ("parallel.wrap", "block"),
}


def settings_of(case):
    texts = []
    for name, (key, usual) in KEYS.items():
        value = case.get(name, usual)
        if value == usual:
            continue
        if name == "wrap" and value == "none":  # the whole model in bf16, on the one GPU
            texts += ["parallel.strategy=single", "parallel.world_size=1", "cluster.gpus_per_node=1",
                      "train.precision=bf16"]
            continue
        if key == "train.compile":
            value = "per-block"
        texts.append(f"{key}={str(value).lower() if isinstance(value, bool) else value}")
        if name == "world_size" and value < 8:
            texts.append(f"cluster.gpus_per_node={value}")
    if case.get("family") == "hf":  # its own norm, and its call computes the loss
        texts += ["train.fused_rms_norm=false", "train.loss_in_call=true"]
    return ";".join(texts)


table, *paths = sys.argv[1:]
steps = {}
for path in paths:
    with open(path) as file:
        steps.update((step["id"], step) for step in json.load(file) if "step_ms" in step)
with open(table, "w") as file:
    file.write("id,workload,settings,step_ms,host_step_ms,peak_allocated_bytes,peak_reserved_bytes\n")
    for name, step in sorted(steps.items()):
        file.write(f"{name},llama_{step['settings']['model']}.toml,{settings_of(step['settings'])},"
                   f"{step['step_ms']:.3f},{step['host_step_ms']:.3f},{step['peak_allocated_bytes']},"
                   f"{step['peak_reserved_bytes']}\n")
