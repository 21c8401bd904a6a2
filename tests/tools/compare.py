#!/usr/bin/env python3
"""Runs ferry-bench --compare on made-up results. Usage: compare.py [EMULATOR...] PROGRAM"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from made_up_results import case, results, row

KiB = 1 << 10


def linear(size, ferry_ns, spread=0.02, copy="H2D", **more):
    return row({"copy": copy, "memory": "pinned", "raw call": "cuMemcpyHtoDAsync", **more}, size, 2 * ferry_ns, ferry_ns, spread)


folder = tempfile.TemporaryDirectory()


def path(name):
    return Path(folder.name, name)


def run(*arguments):
    """Names of files mean files in the folder."""
    arguments = [str(path(each)) if each.endswith(".json") else each for each in arguments]
    return subprocess.run([*sys.argv[1:], *arguments], capture_output=True, text=True, encoding="utf-8")


def line_of(printed, *words):
    found = [line for line in printed.splitlines() if all(word in line for word in words)]
    assert len(found) == 1, (words, printed)
    return found[0]


before = results([case("linear", [linear(64 * KiB, 10e3), linear(128 * KiB, 20e3), linear(256 * KiB, 30e3, spread=0.2),
                                  linear(512 * KiB, 1.2e6), linear(KiB, 5e3)]),
                  case("batch", [linear(KiB, 1e3, copy="D2D"), linear(KiB, 3e3, copy="D2D")]), case("empty")])
after = results([case("linear", [linear(64 * KiB, 12e3), linear(128 * KiB, 10e3), linear(256 * KiB, 33e3, spread=0.2),
                                 # Another raw call won: the row is still the same.
                                 linear(512 * KiB, 1.2e6, **{"raw call": "cuMemcpy2DAsync"}), linear(2 * KiB, 5e3)]),
                 case("batch", [linear(KiB, 1e3, copy="D2D"), linear(KiB, 6e3, copy="D2D")])])
path("before.json").write_text(json.dumps(before))
path("after.json").write_text(json.dumps(after))

done = run("--compare", "before.json", "after.json")
assert done.returncode == 0 and not done.stderr, done
printed = done.stdout
assert line_of(printed, "64 KiB").split()[-1] == "slower" and "+20.0 %" in line_of(printed, "64 KiB"), printed
assert "10.0 [9.80..10.2] µs" in line_of(printed, "64 KiB") and "12.0 [11.8..12.2] µs" in line_of(printed, "64 KiB"), printed
assert line_of(printed, "128 KiB").split()[-1] == "faster" and "-50.0 %" in line_of(printed, "128 KiB"), printed
assert "+10.0 %" in line_of(printed, "256 KiB") and line_of(printed, "256 KiB").rstrip().endswith("%"), "within the spread"
assert "+0.0 %" in line_of(printed, "512 KiB") and "1.20 [1.18..1.22] ms" in line_of(printed, "512 KiB"), printed
assert " 2 KiB" not in printed and "linear  H2D, pinned  1 KiB" not in printed, "rows of one file only"
assert "+100.0 %" in line_of(printed, "batch", "slower"), "the second of two rows with equal labels"
assert "6 rows in both: 1 faster, 2 slower, 3 within the spread; only in A: 1, only in B: 1" in printed, printed
assert "machines differ" not in printed and "SOFTWARE" not in printed and "incomplete" not in printed, printed

other = results([case("linear", [linear(64 * KiB, 12e3)])], is_software=True, complete=False)
path("other.json").write_text(json.dumps(other))
printed = run("--compare", "before.json", "other.json").stdout
assert "The machines differ" in printed and "incomplete" in line_of(printed, "other.json:"), printed
assert "SOFTWARE DRIVER" in run("--compare", "other.json", "other.json").stdout

# What is no report is named, in a sentence.
path("text.json").write_text("hello\nworld\n")
path("list.json").write_text("[1, 2]")
path("wrong.json").write_text(json.dumps({**after, "cases": [1]}))
for wrong, why in [("text.json", "is not a report of ferry-bench"), ("list.json", "is not a report of"),
                   ("wrong.json", "lacks what a report of ferry-bench has"), ("absent.json", "cannot read ")]:
    for files in [("before.json", wrong), (wrong, "before.json")]:
        refused = run("--compare", *files)
        assert refused.returncode == 1 and why in refused.stderr and wrong in refused.stderr and not refused.stdout, refused
assert run("--compare", "before.json").returncode != 0, "two files"

# The end may be missing: what ferry-bench has written is cut off at many places.
assert run("--case", "linear", "--case", "submit", "--quick", "--driver", "software", "--json", "whole.json").returncode == 0
whole = path("whole.json").read_bytes()
json.loads(whole)
found = set()
for size in range(len(whole) - 1, 0, -len(whole) // 40):
    path("cut.json").write_bytes(whole[:size])
    if b'"cases"' not in whole[:size]: break
    done = run("--compare", "whole.json", "cut.json")
    assert done.returncode == 0, (size, done)
    found.add(int(done.stdout.split(" rows in both")[0].splitlines()[-1]))
    assert min(found) >= whole[:size].count(b'"verdict"') - 1, (size, found)
rows = whole.count(b'"verdict"')
assert max(found) == rows and min(found) < rows / 10, found

version = run("--version")
assert version.returncode == 0 and version.stdout.startswith("ferry-bench ") and version.stdout.count(".") == 2, version
