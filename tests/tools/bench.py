#!/usr/bin/env python3
"""ferry-bench on the software driver, quickly: what it writes holds together. No figure of the software driver's is judged.
bench.py PROGRAM"""
import json
import subprocess
import sys

result = subprocess.run([sys.argv[1], "--quick", "--driver", "software", "--json", "-"], check=True, text=True,
                        stdout=subprocess.PIPE)
told = json.loads(result.stdout)
assert told["quick"] and told["machine"]["is_software"], told["machine"]
cases = {case["name"]: case for case in told["cases"]}
for name, case in cases.items():
    assert case["rows"] or case.get("numbers") or case["note"].startswith("skipped"), f"{name} measured nothing"

worst = {"ok": 0, "noise": 1, "lost": 2}


def check_choice(row, is_told=True):
    choice = row["choice"]
    if is_told: assert choice["chosen"] in choice["routes"], "what is chosen can be forced"
    assert "driver" in choice["routes"], "which serves everything"
    medians = [route["ns"]["median"] for route in choice["routes"].values()]
    assert all(median > 0 for median in medians)
    return min(medians)


for row in cases["regret"]["rows"]:
    best_ns, raw_ns = check_choice(row), row["raw_ns"]["median"]
    assert abs(row["choice"]["target"] - best_ns / (1.1 * best_ns + 100)) < 1e-9, row
    assert abs(row["target"] - raw_ns / (1.02 * raw_ns + 100)) < 1e-9, row
    of_raw = ("lost" if row["ratio"]["p75"] < row["target"] else "ok" if row["ratio"]["p25"] >= row["target"] else "noise")
    assert row["verdict"] == max(of_raw, row["choice"]["verdict"], key=worst.get), row

# Every box of both grids but those that are copied many at once, and kernels wherever they can go.
regret = cases["regret"]["rows"]
for grid in ["strided", "volume"]:
    boxes = [row for row in cases[grid]["rows"] if " of " not in row["labels"].get("texels", "")]
    assert len([row for row in regret if row["labels"]["grid"] == grid]) == len(boxes), grid
for row in regret:
    to_array = row["labels"]["copy"][2] == "A"
    if to_array: assert "kernel" not in row["choice"]["routes"], row["labels"]
    if row["labels"]["grid"] == "strided": assert "kernel" in row["choice"]["routes"], row["labels"]

large = [row for row in cases["strided"]["rows"] if row["choice"]]
assert large and len(large) < len(cases["strided"]["rows"])
for row in large:
    check_choice(row)

for row in cases["batch"]["rows"]:
    assert bool(row["choice"]) == (row["labels"]["form"] == "pieces"), row["labels"]
    if row["choice"]:
        check_choice(row, is_told=False)
        assert "kernel" in row["choice"]["routes"], row["labels"]
