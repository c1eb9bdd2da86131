#!/usr/bin/env python3
"""Lists the kernels that Inductor made and float8 products, with the shapes of what each reads and writes.

usage: fused_kernels.py OUT.csv CASE=TRACE.json.gz...

The traces are torch.profiler's of one step: steps.py OUT.json --trace DIR CASE.
"""
import csv
import gzip
import json
import sys


def shapes(event):
    args = event["args"]
    pairs = zip(args.get("Input Dims", []), args.get("Input type", []))
    return ";".join(
        "x".join(map(str, dims)) + " " + kind.removeprefix("c10::")
        for dims, kind in pairs
        if kind != "Scalar"
    )


def kernels(path):
    with gzip.open(path) as trace:
        events = json.load(trace)["traceEvents"]
    calls = {
        e["args"].get("External id"): shapes(e)
        for e in events
        if e.get("cat") == "cpu_op" and (e["name"].startswith("triton_") or e["name"] == "aten::_scaled_mm")
    }
    found = {}
    for event in sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"]):
        call = event["args"].get("External id")
        if not event["name"].startswith("triton_") and call not in calls:
            continue
        key = event["name"], calls.get(call, "")
        found.setdefault(key, []).append(event["dur"])
    return found


def main():
    if len(sys.argv) < 3 or any("=" not in each for each in sys.argv[2:]):
        sys.exit(__doc__)
    with open(sys.argv[1], "w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["case", "kernel", "launches", "mean_us", "arguments"])
        for each in sys.argv[2:]:
            case, path = each.split("=", 1)
            for (name, arguments), times in kernels(path).items():
                mean = round(sum(times) / len(times), 1)
                table.writerow([case, name, len(times), mean, arguments])


main()
