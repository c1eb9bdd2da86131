"""Does HolisticTraceAnalysis read our Chrome export, and does it see what we see?

    python -m venv VENV && VENV/bin/pip install HolisticTraceAnalysis
    VENV/bin/python tests/oracles/hta/compare_hta.py FOREGATHER DATA

FOREGATHER is the program, DATA the shared test data. Recorded traces are imported into a database
and exported; samples are predicted and exported. HTA's get_comm_comp_overlap and
get_temporal_breakdown of the export stand beside those of the original trace, beside what
`foregather import --json` says of the export, and beside the ops of the run's CSV, added up here.
Writes figures.json beside this file; exits with 1 where two differ by more than 1 us or 0.01 %.
"""

import contextlib
import csv
import importlib.metadata
import io
import json
import logging
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # else times are rounded to microseconds
from hta.trace_analysis import TraceAnalysis  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
RECORDED = [
    "megatron_tp8/kineto_0.json.gz",
    "megatron_tp8/kineto_3.json.gz",
    "hta/data__timeline_analysis__sampled_rank-0.json.gz",
    "hta/data__nccl_parser_config__nccl_data.json.gz",
]
PREDICTED = ["tiny_fsdp2", "roberta_1gb_slow_network", "openvla_zero3", "gpt2_ddp"]
TIMES = ["kernel_time_us", "idle_time_us", "compute_time_us", "non_compute_time_us"]


def hta(path):
    with contextlib.redirect_stdout(io.StringIO()):
        analysis = TraceAnalysis(
            trace_files={0: str(path)}, trace_dir="/", include_last_profiler_step=True
        )
        overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]
        times = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    figures = {"overlap_pct": float(overlap["comp_comm_overlap_pctg"])}
    for key in TIMES:
        figures[key] = round(float(times[key.replace("_us", "(us)")]), 3)
    return figures


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ours(foregather, export):
    imported = json.loads(run(foregather, "import", str(export), "--json"))
    busy, compute = imported["gpu_busy_union_us"], imported["compute_union_us"]
    return {
        "overlap_pct": round(imported["overlap_pct"], 2),
        "kernel_time_us": imported["gpu_span_us"],
        "idle_time_us": round(imported["gpu_span_us"] - busy, 3),
        "compute_time_us": compute,
        "non_compute_time_us": round(busy - compute, 3),
    }


def union(intervals):
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif begin < end:
            merged.append([begin, end])
    return sum(end - begin for begin, end in merged)


def by_ops(table):
    """The same figures from the CSV of a run's ops."""
    ops = {"comm": [], "compute": [], "copy": []}
    for row in csv.DictReader(table.open(newline="")):
        is_copy = row["kind"] in ("host_to_device", "device_to_host")
        is_copy = is_copy or row["source"].startswith(("Memcpy ", "Memset "))
        part = "comm" if row["communicator"] else "copy" if is_copy else "compute"
        ops[part].append((int(row["start_ns"]), int(row["end_ns"])))
    everything = sum(ops.values(), [])
    span = max(end for _, end in everything) - min(begin for begin, _ in everything)
    comm, compute, busy = union(ops["comm"]), union(ops["compute"]), union(everything)
    overlap = comm + compute - union(ops["comm"] + ops["compute"])
    return {
        "overlap_pct": round(100 * overlap / comm, 2),
        "kernel_time_us": span / 1000,
        "idle_time_us": (span - busy) / 1000,
        "compute_time_us": compute / 1000,
        "non_compute_time_us": (busy - compute) / 1000,
    }


def differences(case):
    """Of each pair of readings, what is further apart than HTA rounds."""
    found = []
    for key in ["overlap_pct"] + TIMES:
        values = [reading[key] for reading in case.values()]
        if max(values) - min(values) > (0.0101 if key == "overlap_pct" else 1):
            found.append(key)
    return found


def main():
    foregather, data = sys.argv[1], pathlib.Path(sys.argv[2]) / "kineto"
    logging.disable(logging.CRITICAL)
    cases = {}
    with tempfile.TemporaryDirectory() as name:
        database, export = os.path.join(name, "run.db"), pathlib.Path(name, "export.json")
        table = pathlib.Path(name, "ops.csv")
        for source in RECORDED + PREDICTED:
            if source in RECORDED:
                run(foregather, "import", str(data / source), "-o", database)
            else:
                workload = ROOT / "traces" / "samples" / (source + ".toml")
                run(foregather, "simulate", str(workload), "-o", database)
            run(foregather, "export", database, "--format", "chrome", "-o", str(export))
            run(foregather, "export", database, "--format", "csv", "-o", str(table))
            case = {"hta_original": hta(data / source)} if source in RECORDED else {}
            case["hta_export"] = hta(export)
            case["foregather_import"] = ours(foregather, export)
            case["csv"] = by_ops(table)
            cases[source] = case
    failed = False
    for name, case in cases.items():
        found = differences(case)
        failed = failed or bool(found)
        print(name, "differ: " + ", ".join(found) if found else "agree")
    versions = {"python": platform.python_version(), "foregather": run(foregather, "--version").strip()}
    for package in ("HolisticTraceAnalysis", "pandas", "numpy"):
        versions[package] = importlib.metadata.version(package)
    (HERE / "figures.json").write_text(
        json.dumps({"versions": versions, "cases": cases}, indent=1) + "\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
