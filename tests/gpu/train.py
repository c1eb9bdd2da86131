"""A training loop for gpu-check: `train.py FOLDER` trains a small transformer for some steps on the
first GPU, and leaves a memory snapshot of the last ones and what PyTorch itself counts."""

import json
import os
import sys

import torch

folder = sys.argv[1]
torch.manual_seed(1)
torch.cuda.memory._record_memory_history(max_entries=1_000_000)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(16, 256, 512, device="cuda")
for step in range(12):
    torch.cuda.nvtx.range_push(f"ProfilerStep#{step}")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.nvtx.range_pop()
torch.cuda.synchronize()
torch.cuda.memory._dump_snapshot(os.path.join(folder, "snapshot.pickle"))
stats = torch.cuda.memory_stats()
with open(os.path.join(folder, "stats.json"), "w") as file:
    json.dump({"peak_allocated_bytes": stats["allocated_bytes.all.peak"],
               "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
               "loss": float(loss)}, file)
