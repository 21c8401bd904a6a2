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
assert max(map(len, printed.splitlines())) <= 100, printed
assert "+20.0 %" in line_of(printed, "64 KiB") and "10.0 [9.80..10.2] µs" in line_of(printed, "64 KiB"), printed
assert "12.0 [11.8..12.2] µs" in line_of(printed, "64 KiB") and "-50.0 %" in line_of(printed, "128 KiB"), printed
assert "256 KiB" not in printed and "512 KiB" not in printed, "rows within the spread"
assert " 2 KiB" not in printed and "linear  H2D, pinned  1 KiB" not in printed, "rows of one file only"
# The greatest change is the first. Of two rows with equal labels, the second has changed.
lines = [line.split("  ")[0].strip() or line for line in printed.splitlines()]
assert lines[lines.index("Slower, 2 rows:") + 2:][:2] == ["batch", "linear"], printed
assert lines[lines.index("Faster, 1 row:") + 2] == "linear", printed
assert "+100.0 %" in line_of(printed, "batch", "D2D"), printed
assert line_of(printed, "linear  ", "4       1       1").split() == ["linear", "4", "1", "1", "2"], printed
assert "6 rows in both: 1 faster, 2 slower, 3 within the spread; only in A: 1, only in B: 1" in printed, printed
assert "machines differ" not in printed and "SOFTWARE" not in printed and "incomplete" not in printed, printed

printed = run("--compare", "before.json", "after.json", "--wide").stdout
assert "Within the spread, 3 rows:" in printed and "+10.0 %" in line_of(printed, "256 KiB"), printed
assert "+0.0 %" in line_of(printed, "512 KiB") and "1.20 [1.18..1.22] ms" in line_of(printed, "512 KiB"), printed
printed = run("--compare", "before.json", "after.json", "--case", "batch").stdout
assert "2 rows in both: 0 faster, 1 slower, 1 within the spread; only in A: 0, only in B: 0" in printed, printed

other = results([case("linear", [linear(64 * KiB, 12e3)])], is_software=True, complete=False, quick=True)
path("other.json").write_text(json.dumps(other))
printed = run("--compare", "before.json", "other.json").stdout
assert "The machines differ" in printed and "incomplete" in line_of(printed, "other.json:"), printed
assert "Only one of the runs is quick" in printed, printed
printed = run("--compare", "other.json", "other.json").stdout
assert "SOFTWARE DRIVER" in printed and "Only one" not in printed and "Slower" not in printed, printed

# What is no report is named, in a sentence.
path("text.json").write_text("hello\nworld\n")
path("list.json").write_text("[1, 2]")
path("wrong.json").write_text(json.dumps({**after, "cases": [1]}))
for wrong, why in [("text.json", "is not a report of ferry-bench"), ("list.json", "is not a report of"),
                   ("wrong.json", "lacks what a report of ferry-bench has"), ("absent.json", "cannot read ")]:
    for files in [("before.json", wrong), (wrong, "before.json")]:
        refused = run("--compare", *files)
        assert refused.returncode == 1 and why in refused.stderr and wrong in refused.stderr and not refused.stdout, refused
    refused = run("--compare", wrong, "--case", "routes", "--driver", "software")
    assert refused.returncode == 1 and why in refused.stderr and not refused.stdout, refused
assert run("--compare").returncode != 0 and run("--compare", *3 * ["before.json"]).returncode != 0, "one file or two"

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

# One file is compared with the run, even if the run replaces the file. Cases that the run does not measure do not count.
whole = json.loads(whole)
linear_rows = next(case["rows"] for case in whole["cases"] if case["name"] == "linear")
for row in linear_rows:
    for value in row["ferry_ns"]: row["ferry_ns"][value] *= 100
path("old.json").write_text(json.dumps(whole))
for more in [[], ["--json", "-"], ["--json", "old.json"]]:
    done = run("--compare", "old.json", "--case", "linear", "--quick", "--driver", "software", *more)
    assert done.returncode == 0, done
    printed = done.stderr if "-" in more else done.stdout
    count = len(linear_rows)
    assert f"Faster, {count} rows:" in printed and "B  this run: ferry " in printed, printed
    assert f"{count} rows in both: {count} faster, 0 slower, 0 within the spread; only in A: 0, only in B: 0" in printed, printed
