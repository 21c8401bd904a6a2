#!/usr/bin/env python3
"""Runs the pageable case of ferry-bench on the software driver and checks that its copies are staged. The test loads a
profile in which the driver copies pageable memory very slowly. Usage: bench_staged.py PROGRAM"""
import json
import subprocess
import sys

result = subprocess.run([*sys.argv[1:], "--quick", "--driver", "software", "--case", "pageable", "--json", "-"], check=True,
                        text=True, stdout=subprocess.PIPE)
told = json.loads(result.stdout)
assert told["complete"] and [case["name"] for case in told["cases"]] == ["pageable"], told["cases"]
pageable = told["cases"][0]

lines = [row for row in pageable["rows"] if row["labels"]["what"] == "line"]
assert {row["labels"]["copy"] for row in lines} == {"H2D", "D2H"}, lines
for row in lines:
    assert row["labels"]["route"] == "staged", row["labels"]

# The driver's own copies need no threads. A staged copy has at least one, or as many as the options say.
assert {line["labels"]["options"] for line in pageable["numbers"]} == {"-", "default", "4 threads"}, pageable["numbers"]
for line in pageable["numbers"]:
    options = line["labels"]["options"]
    is_staged = options != "-"
    assert (line["threads"] >= 1) == is_staged and (line["ring MiB"] > 0) == is_staged, line
    if options == "4 threads": assert line["threads"] == 4, line
