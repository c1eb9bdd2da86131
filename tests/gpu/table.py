"""Adds a row to gpu-check's table: `table.py TABLE NAME PREFIX` reads PREFIX.{run,simulate}.json."""

import json
import sys

table, name, prefix = sys.argv[1:]
run = json.load(open(prefix + ".run.json"))
predicted = json.load(open(prefix + ".simulate.json"))


def milliseconds(ns):
    return "–" if ns is None else f"{ns / 1e6:.3f} ms"


def mebibytes(size):
    return f"{size / 2**20:.1f} MiB"


measured, expected = run["step_time_ns"], predicted["step_time_ns"]
error = "–" if not measured or not expected else f"{100 * (expected - measured) / measured:+.1f} %"
peak = max((each["steady_step"]["peak_allocated_bytes"] for each in run["ranks"]), default=0)
numbers = "{collectives} collectives, {casts} casts".format(**run["checked"])
row = (name, run["world_size"], milliseconds(expected), milliseconds(measured), error,
       mebibytes(predicted["peak_allocated_bytes"]), mebibytes(peak), numbers)
with open(table, "a") as file:
    file.write("| " + " | ".join(map(str, row)) + " |\n")
print(f"result: {milliseconds(expected)} predicted, {milliseconds(measured)} measured ({error})")
