"""What a power limit does to the clock where products and copies take turns on the first GPU:
`clock.py OUT.csv`. Each mixture runs eight seconds, of which the last four count; power and clock are
nvidia-smi's every 100 ms. The row of copies alone is `compute.memory_bound_power` of hardware files
(power over limit), that of products alone `compute.sustained_clock` (clock over boost clock)."""

import csv
import statistics
import subprocess
import sys
import time

import torch

MIXTURES = ((1, 0), (8, 1), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (0, 1))  # products to copies
QUERY = ["stdbuf", "-oL", "nvidia-smi", "--query-gpu=power.draw.instant,enforced.power.limit,clocks.sm",
         "--format=csv,noheader,nounits", "-i", "0", "-lms", "100"]


def measure(products, copies):
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(14336, 4096, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(8192, 14336, device="cuda", dtype=torch.bfloat16)
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    product_ms, copy_ms, readings = [], [], None
    begin = time.monotonic()
    with subprocess.Popen(QUERY, stdout=subprocess.PIPE, text=True) as meter:
        while time.monotonic() - begin < 8:
            marks = []
            for _ in range(max(1, 32 // (products + copies))):
                marks.append([torch.cuda.Event(enable_timing=True) for _ in range(3)])
                marks[-1][0].record()
                for _ in range(products):
                    torch.mm(x, weight.t(), out=out)
                marks[-1][1].record()
                for _ in range(copies):
                    target.copy_(source)
                marks[-1][2].record()
            torch.cuda.synchronize()
            if time.monotonic() - begin > 4:
                product_ms += [a.elapsed_time(b) for a, b, _ in marks]
                copy_ms += [b.elapsed_time(c) for _, b, c in marks]
        meter.terminate()
        readings = [[float(part) for part in line.split(",")] for line in meter.stdout.read().splitlines()]
    counted = readings[len(readings) // 2:]
    power, limit, clock = (statistics.mean(column) for column in zip(*counted))
    product, copy = statistics.mean(product_ms), statistics.mean(copy_ms)
    return [products, copies, round(1e3 * product / products, 2) if products else "",
            round(1e3 * copy / copies, 2) if copies else "", round(product / (product + copy), 4),
            round(power, 1), round(limit, 1), round(clock, 1)]


if __name__ == "__main__":
    rows = [measure(*mixture) for mixture in MIXTURES]
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["products", "copies", "product_us", "copy_us", "products_share", "power_w", "limit_w",
                         "clock_mhz"])
        writer.writerows(rows)
    print(torch.cuda.get_device_name(), torch.__version__)
    for row in rows:
        print(*row)
