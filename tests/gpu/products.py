"""Times of a linear layer's three products in bf16 on the first GPU, by the alignment of its rows:
`products.py OUT.csv`. Median of 15 runs each after 5."""

import csv
import sys

import torch

from attention import median_us


def measure(tokens, width, outputs):
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(outputs, width, device="cuda", dtype=torch.bfloat16)
    gradient = torch.randn(tokens, outputs, device="cuda", dtype=torch.bfloat16)
    return [tokens, width, outputs] + [round(median_us(run), 2) for run in (
        lambda: x @ weight.t(), lambda: gradient @ weight, lambda: gradient.t() @ x)]


if __name__ == "__main__":
    rows = [measure(tokens, width, outputs) for tokens, width in ((8192, 768), (8192, 2048), (8192, 4096))
            for outputs in (50257, 50258, 50260, 50264, 50304)]
    rows += [measure(8192, width, 4096) for width in (4088, 4089, 4090, 4092, 4096)]
    rows += [measure(tokens, 4096, 4096) for tokens in (8184, 8185, 8188)]
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["tokens", "inputs", "outputs", "forward_us", "input_gradient_us", "weight_gradient_us"])
        writer.writerows(rows)
    print(torch.cuda.get_device_name(), torch.__version__)
    for row in rows:
        print(*row)
