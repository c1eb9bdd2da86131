"""Writes docs/performance.md: report.py OUT.md FRAMES.txt BENCHMARK.json...

BENCHMARK.json is Google Benchmark's, FRAMES.txt what gui_bench prints. Figures are of one run on one
machine: only their ratios mean anything elsewhere.
"""

import json
import re
import sys


class Benchmarks:
    def __init__(self, paths):
        self.rows = {}
        for path in paths:
            with open(path) as file:
                content = json.load(file)
            self.context = content["context"]
            self.add(content["benchmarks"])

    def add(self, rows):
        for row in rows:
            if row.get("run_type") == "aggregate" or "real_time" not in row:
                continue
            name = re.sub(r"/(real_time|manual_time|process_time)", "", row["name"])
            # Of repetitions the fastest: other programs of the machine only slow it down.
            key = "cpu_time" if name == row["name"] else "real_time"
            known = self.rows.get(name)
            if known is None or "error_message" in known or row[key] < known[key]:
                self.rows[name] = row

    def get(self, name, key):
        """A figure, or None where the benchmark was skipped."""
        row = self.rows.get(name)
        return None if row is None or "error_message" in row else row.get(key)

    def milliseconds(self, name, key="real_time"):
        time = self.get(name, key)
        units = {"ns": 1e-6, "us": 1e-3, "ms": 1}
        return None if time is None else time * units[self.rows[name]["time_unit"]]


def cell(value, form):
    return "–" if value is None else form(value)


def count(value):
    return f"{value:,.0f}"


def ratio(a, b):
    return "–" if not a or not b else f"{a / b:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def engine_spread(b):
    times = [b.get(f"engine/no_contention/{10**n}", "ns_per_op") for n in (5, 6, 7)]
    return "–" if None in times else f"{100 * (max(times) / min(times) - 1):.0f}"


def engine(b):
    def nanoseconds(kind, ops):
        # Google Benchmark prints the inverse of a rate: seconds a billion ops, that is ns an op.
        return b.get(f"{kind}/{ops}", "ns_per_op")

    rows = []
    for ops in (10**n for n in range(3, 8)):
        own = nanoseconds("engine/no_contention", ops)
        shared = nanoseconds("engine/contention", ops)
        heap = nanoseconds("plain_engine<heap_simulation>", ops)
        limit = nanoseconds("plain_engine<list_simulation>", ops)
        rows.append([count(ops)] + [cell(v, lambda v: f"{v:.1f}") for v in (own, shared, heap, limit)]
                    + [ratio(own, heap), ratio(own, limit)])
    return table(["ops", "engine, ns/op", "with contention", "heap of events", "flat arrays",
                  "engine / heap", "engine / limit"], rows)


def one_step(b):
    rows = []
    for name, what in (("build/fsdp2", "lowering"),
                       ("simulate/neither", "simulation without contention and allocator"),
                       ("simulate/contention", "… with contention"),
                       ("simulate/allocator", "… with the allocator"),
                       ("simulate/allocator_and_contention", "… with both"),
                       ("resimulate/no_contention", "simulation of other prices, without contention"),
                       ("resimulate/contention", "… with contention"),
                       ("cold", "all: lowering, prices, simulation"),
                       ("eight_classes/neither", "eight ranks that differ, without contention and allocator"),
                       ("eight_classes/allocator_and_contention", "… with both")):
        rows.append([what, cell(b.get(name, "launches"), count), cell(b.get(name, "steps"), count),
                     cell(b.milliseconds(name), lambda v: f"{v:.2f}"),
                     cell(b.get(name, "ns_per_launch"), lambda v: f"{v:.0f}")])
    return table(["what", "launches of a step", "steps", "ms", "ns a launch"], rows)


def many_batches(b):
    rows = []
    for batches in (2, 8, 64, 512, 1024):
        name = f"scale/{batches}/iterations:1"
        rows.append([count(batches), cell(b.get(name, "launches"), count),
                     cell(b.milliseconds(name), lambda v: f"{v / 1000:.3f}"),
                     cell(b.get(name, "ns_per_launch"), lambda v: f"{v:.0f}"),
                     cell(b.get(name, "peak_rss_MiB"), count)])
    return table(["micro-batches", "launches of a step", "s", "ns a launch", "memory, MiB"], rows)


def allocator(b):
    rows = []

    def row(name, own, plain):
        rows.append([name] + [cell(v, lambda v: f"{v / 1e6:.1f}") for v in (own, plain)] + [ratio(own, plain)])

    def rate(name):
        time = b.get(name, "ns_per_call")
        return None if not time else 1e9 / time

    plain = rate("training_step_plain_std_set")
    row("a sharded transformer's step", rate("training_step/plain"), plain)
    row("… with expandable segments", rate("training_step/expandable"), plain)
    for name in sorted(b.rows):
        found = re.fullmatch(r"AllocatorTrace/plain_std_set/(.*)", name)
        if found:
            trace = found.group(1)
            row(f"recorded: `{trace}`", b.get(f"AllocatorTrace/{trace}", "items_per_second"),
                b.get(name, "items_per_second"))
    return table(["calls", "replica, M/s", "`std::set`, M/s", "replica / `std::set`"], rows)


def readers(b):
    def megabytes(name):
        return cell(b.get(name, "bytes_per_second"), lambda v: f"{v / 1e6:.0f} MB/s")

    def rows_of(name):
        return cell(b.get(name, "items_per_second"), lambda v: f"{v / 1e6:.2f} M rows/s")

    def pair(own, other, key):
        return ratio(b.get(own, key), b.get(other, key))

    size = "bytes_per_second"
    return table(
        ["reader", "speed", "reference", "reader / reference", "limit", "reader / limit"],
        [["torch.profiler, 100 MB of JSON into columns", megabytes("kineto_read"),
          "nlohmann::json, no columns: " + megabytes("nlohmann_parse"),
          pair("kineto_read", "nlohmann_parse", size),
          "simdjson, no columns: " + megabytes("simdjson_parse"), pair("kineto_read", "simdjson_parse", size)],
         ["Nsight Systems, two million rows", rows_of("nsys_read"), "–", "–",
          "each cell by SELECT: " + rows_of("nsys_plain_select"),
          pair("nsys_read", "nsys_plain_select", "items_per_second")],
         ["Chakra, protobuf", megabytes("chakra_decode"), "–", "–",
          "a copy of the bytes: " + megabytes("chakra_copy"), pair("chakra_decode", "chakra_copy", size)]])


def store(b):
    def rate(name):
        return b.get(name, "items_per_second")

    def shown(name):
        return cell(rate(name), count)

    return table(
        ["500,000 ops of 25 columns", "rows/s", "reference, rows/s", "ratio", "SQLite, rows/s", "ratio"],
        [["write", shown("store_write"), "a bound INSERT a row: " + shown("store_plain_inserts"),
          ratio(rate("store_write"), rate("store_plain_inserts")),
          "`.import` of a CSV: " + shown("store_sqlite_import"),
          ratio(rate("store_write"), rate("store_sqlite_import"))],
         ["read into columns", shown("store_read"), "–", "–",
          "each cell by SELECT: " + shown("store_plain_select"),
          ratio(rate("store_read"), rate("store_plain_select"))]])


def sweeps(b):
    alone = b.milliseconds("point_alone", "cpu_time")
    rows = []
    for name, shape in (("lists_1000", "1,000 schedules, one price each"),
                        ("lists_100_prices_10", "100 schedules × 10 prices"),
                        ("lists_10_prices_100", "10 schedules × 100 prices")):
        one, two = (b.milliseconds(f"sweep/{name}/{jobs}") for jobs in (1, 2))
        points = b.get(f"sweep/{name}/1", "points")
        per_point = None if not one or not points else one / points
        rows.append([shape, cell(per_point, lambda v: f"{1000 / v:,.0f}"),
                     cell(None if not two or not points else 1000 * points / two, count),
                     cell(alone, lambda v: f"{1000 / v:,.0f}"), ratio(alone, per_point)])
    return table(["Llama-3.1-70B, FSDP2", "points/s, 1 thread", "2 threads", "`simulate` for each, points/s",
                  "sweep / `simulate`"], rows)


def frames(path):
    rows = []
    events = ""
    with open(path) as file:
        for line in file:
            if found := re.match(r"(\d+) events: laid out in (\d+) ms", line):
                events = count(int(found.group(1)))
            elif found := re.match(r"\s*zoom (\S+)\s+frame\s+([\d.]+), median\s+([\d.]+) ms; processor, with "
                                   r"copying\s+([\d.]+)", line):
                rows.append([events, found.group(1), found.group(2), found.group(3), found.group(4)])
    return table(["events", "zoom", "frame, least ms", "median", "processor, with copying"], rows)


def opening(path):
    best = {}
    with open(path) as file:
        for line in file:
            if found := re.match(r"(\d+) events: read in (\d+) ms, open in (\d+) ms, at most (\d+) MiB", line):
                events, read, opened, mib = (int(text) for text in found.groups())
                best[events] = min(best.get(events, (opened, read, mib)), (opened, read, mib))
    rows = [[count(events), f"{read / 1000:.1f}", f"{(opened - read) / 1000:.1f}", f"{opened / 1000:.1f}", count(mib)]
            for events, (opened, read, mib) in best.items()]
    return table(["events", "read, s", "laid out, s", "in all, s", "memory, MiB"], rows)


PAGE = """# Speed

Written by `./dev bench --report`; the benchmarks are `tests/bench` and `tests/gui/frame_bench.cpp`.

Measured on {cpus} cores of a shared virtual machine at {mhz:.1f} GHz, other work running: each figure is the
best of three, in processor time where that can be told. **Ratios within this run are what counts**, not
the figures: each is beside a reference, what one would write in an afternoon or get from the usual library,
and where there is one beside a limit, what the machine does with the least work that must be done.

## Engine

One rank's step of that many ops on two streams, an event for every eighth; nothing repeats, so nothing is
skipped. `heap of events` is a queue of all events in one binary heap; `flat arrays` is one pass over arrays
with a few numbers a stream, and gives times alone: no reasons, no ranks that meet. All three give the same step
time, or the benchmark fails.

{engine}
Small graphs live in the caches; from 100,000 ops on, the slowest of these sizes takes {spread} % more an op than the
fastest. This is with memory that the process has: results of more than 700,000 ops are above what glibc keeps, and a process that meets their
pages for the first time pays the kernel for each.

## A step of 80 layers

Llama-3.1-70B under FSDP2 on 64 H100: the first step and steady ones until their time repeats. Blocks repeat, and what
goes on as before is skipped. A launch is one of all steps. In wall time: what the allocator does is planned on a
second processor where there is one.

{one_step}
Lowering and simulation, with contention and allocator, of a step of many micro-batches:

{many_batches}
## Allocator

Millions of calls (malloc or free) a second. The reference is one `std::set` of free blocks and one
`std::map` of all blocks: best fit with PyTorch's sizes, but without pools, streams and statistics.

{allocator}
## Readers

{readers}
## Store

Processor time, the children's included. `.import` is SQLite's own way in, but has to parse the CSV, which
our writer has not. A SELECT that is slower than the reader shows how much the machine's other work disturbs.

{store}
## Sweep

Points of one thread and of two, in wall time, so that other work of the machine counts: two threads show
their worth only on a quiet one. Beside them, in processor time, the same points as commands of their own, which
also make a run of it and its figures.

{sweeps}
## Frames

The timeline, 32 lanes at 1920 × 1080, painted by the processor; 60 a second leave 16.7 ms.

{frames}
Opening a run's database of so many ops on 32 streams, in wall time: the best of three, each in a process of its own. Rows
are read by as many threads as there are processors.

{opening}
## Does a change make it slower?

    ./dev bench --instructions

counts the instructions of four commands under callgrind ({instructions}) and compares them with
`tests/bench/instructions.txt`: more than 5 % off, in either direction, fails. Instructions do not depend on
how busy the machine is. They do depend on compiler and libraries (the table is of Debian 12's), and on
functions that choose their code by the processor, which the script pins. A wanted change is written down by
`tests/bench/instructions --update`, in the commit that makes it. It takes half a minute, more where the
machine is busy, so it is no part of `./dev test`.
"""


def main():
    benchmarks = Benchmarks(sys.argv[3:])
    with open(sys.argv[1], "w") as out:
        out.write(PAGE.format(
            cpus=benchmarks.context["num_cpus"], mhz=benchmarks.context["mhz_per_cpu"] / 1000,
            engine=engine(benchmarks), one_step=one_step(benchmarks), many_batches=many_batches(benchmarks), spread=engine_spread(benchmarks), allocator=allocator(benchmarks), readers=readers(benchmarks),
            store=store(benchmarks), sweeps=sweeps(benchmarks), frames=frames(sys.argv[2]),
            opening=opening(sys.argv[2]),
            instructions="`simulate`, `memory`, `import`, `sweep`"))


if __name__ == "__main__":
    main()
