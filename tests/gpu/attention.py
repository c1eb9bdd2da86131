"""Times of causal attention kernels of PyTorch on the first GPU: `attention.py OUT.csv`.

Median of 15 runs each after 5, over inputs that do not fit the cache; the backward without the forward."""

import csv
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
HEADS = 32


def median_us(run, runs=15):
    times = []
    for i in range(runs + 5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if i >= 5:
            times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[runs // 2]


def measure(backend, size, tokens):
    batch = max(1, 16384 // tokens)
    q, k, v = (torch.randn(batch, HEADS, tokens, size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
               for _ in range(3))
    with sdpa_kernel(BACKENDS[backend]):
        gradient = torch.randn_like(q)
        forward = median_us(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        backward = median_us(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
    return [backend, batch, HEADS, tokens, size, round(forward, 2), round(backward, 2)]


if __name__ == "__main__":
    rows = [measure(backend, size, tokens) for backend in BACKENDS for size in (64, 128)
            for tokens in (512, 1024, 2048, 4096, 8192, 16384)]
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["backend", "batch", "heads", "tokens", "head_size", "forward_us", "backward_us"])
        writer.writerows(rows)
    print(torch.cuda.get_device_name(), torch.__version__, torch.backends.cudnn.version())
    for row in rows:
        print(*row)
