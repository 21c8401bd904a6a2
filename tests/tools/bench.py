#!/usr/bin/env python3
"""Runs ferry-bench quickly on the software driver and checks that its output is consistent. The measured times of the
software driver do not matter. Usage: bench.py [EMULATOR...] PROGRAM"""
import json
import subprocess
import sys

result = subprocess.run([*sys.argv[1:], "--quick", "--driver", "software", "--json", "-"], check=True, text=True,
                        capture_output=True, encoding="utf-8")
told = json.loads(result.stdout)

# The tables: every case has one, no line is longer than 100 characters, and the software driver has no verdicts.
printed = result.stderr.splitlines()
assert max(map(len, printed)) <= 100, [line for line in printed if len(line) > 100]
tables = {name: [line.split() for line in printed[at:]] for at, line in enumerate(printed)
          for name in [case["name"] for case in told["cases"]] if line.startswith(name + ": ")}
assert list(tables) == [case["name"] for case in told["cases"]], tables
for case in told["cases"]:
    names = next((line for line in tables[case["name"]] if line[-1:] == ["raw/ferry"]), None)
    assert names and names[-3:] == ["raw", "ferry", "raw/ferry"] or not case["rows"], case["name"]
assert result.stderr.count("SOFTWARE DRIVER") == 1, "one sentence explains the numbers"
assert "Ceilings" not in result.stderr and "targets:" not in result.stderr
cases = {case["name"]: case for case in told["cases"]}
for name, case in cases.items():
    has_results = case["rows"] or case.get("numbers") or case.get("route_maps")
    assert has_results or case["note"].startswith("skipped"), f"{name} measured nothing"
    assert all(row["verdict"] == "not judged" for row in case["rows"]), f"{name} judges the software driver"
    assert case["seconds"] > 0 and case["summary"], case["name"]


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

# Every box of both grids, except boxes that are copied in groups. A kernel is measured wherever one can run.
regret = cases["regret"]["rows"]
for grid in ["strided", "volume"]:
    boxes = [row for row in cases[grid]["rows"] if " of " not in row["labels"].get("texels", "")]
    assert len([row for row in regret if row["labels"]["grid"] == grid]) == len(boxes), grid
for row in regret:
    to_array = row["labels"]["copy"][2] == "A"
    if to_array: assert "kernel" not in row["choice"]["routes"], row["labels"]
    if row["labels"]["grid"] == "strided": assert "kernel" in row["choice"]["routes"], row["labels"]

# The planned routes. The software driver copies rows of pinned memory faster than a kernel, however narrow they are.
maps = cases["routes"]["route_maps"]
assert len(maps) == 15 and len({(each["copy"], each["memory"], each["gaps"]) for each in maps}) == 15, maps
for each in maps:
    assert each["row_bytes"] == each["rows"] == [4**power for power in range(11)], each
    assert len(each["routes"]) == 11 and all(len(line) == 11 for line in each["routes"]), each
    assert each["routes"][0][0] == "driver" and each["routes"][10][10] is None, each
    if (each["copy"], each["memory"]) == ("H2D", "pinned"): assert each["routes"][10][0] == "driver", each

large = [row for row in cases["strided"]["rows"] if row["choice"]]
assert large and len(large) < len(cases["strided"]["rows"])
for row in large:
    check_choice(row)

for row in cases["batch"]["rows"]:
    assert bool(row["choice"]) == (row["labels"]["form"] == "pieces"), row["labels"]
    if row["choice"]:
        check_choice(row, is_told=False)
        assert "kernel" in row["choice"]["routes"], row["labels"]


# Between devices without access: every kind of box, and long lines on streams of both devices.
relay = cases["relay"]["rows"]
assert {row["labels"]["box"] for row in relay} == {"1D", "2D", "3D"}
assert {row["labels"]["stream of"] for row in relay} == {"device 0", "device 1"}
for row in relay:
    assert row["target"] == (0.99 if row["raw_ns"]["median"] >= 40e3 else None), row

# The software driver has two devices: too few for the larger targets.
broadcast = cases["broadcast"]["rows"]
sources = [(row["labels"]["source"], row["labels"]["destinations"]) for row in broadcast]
assert sources == 5 * [("pinned", "2")] + [("pageable", "2"), ("device 0", "1")], sources
assert all(row["target"] == 0.99 for row in broadcast), broadcast

# Each copy over several links is compared with what the links carry, and with one link.
multilink = cases["multilink"]
found = [(*(row["labels"][name] for name in ["copy", "memory", "raw"]), row["target"]) for row in multilink["rows"]]
pinned = [(copy, "pinned", *raw) for copy in ["H2D", "D2H"]
          for raw in [("separate copies", 0.95), ("one link", None)]]
assert found == [*pinned, ("H2D", "pageable", "ferry, one link", None)], found
assert {row["labels"]["helpers"] for row in multilink["rows"]} == {"1"}, "the software driver has two devices"
assert "numbers" not in multilink, "a kernel that the software driver cannot run"

# Copies between layouts: every ordered pair of six layouts within the device and over the link, and blocks of each size.
nests = cases["nests"]["rows"]
pairs = [row for row in nests if " to " in row["labels"]["nest"] and "WHTKBL" not in row["labels"]["nest"]]
for copy in ["D2D", "H2D", "D2H"]:
    names = [row["labels"]["nest"] for row in pairs if row["labels"]["copy"] == copy]
    assert len(names) == len(set(names)) == 30, (copy, names)
for row in pairs:
    is_short = row["labels"]["run"] == "16 B"
    assert is_short == ("LKBHwTw" in row["labels"]["nest"]), row
    if row["labels"]["copy"] == "D2D": assert row["target"] == (0.6 if is_short else 0.8), row
    else: assert row["max_ns"] is None and row["of_link"]["share"]["median"] > 0, row  # the run is quick
blocks = [row for row in nests if "cuMem" in row["labels"]["beside"]]
assert len(blocks) == 2 * 2 * 5 * 2, blocks
for row in blocks:
    assert row["max_ns"] is None, row
    assert row["reference_ns"]["median"] > 0 and row["of_link"]["target"] is None, row
issues = [(row["labels"]["nest"].split(", ")[1], row["max_ns"]) for row in nests if row["labels"]["beside"] == "issue of pieces"]
assert issues == 2 * [("host indices", 20e3), ("device indices", None), ("prepared", 5e3)], issues
permuted = [(row["labels"]["run"], row["target"]) for row in nests
            if row["labels"]["nest"].startswith("transpose") or "WHTKBL" in row["labels"]["nest"]]
assert permuted == [("1 B", 0.6), ("2 B", 0.8), ("4 B", 0.8), ("8 B", 0.8), ("2 B", 0.6)], permuted

# Random nests: each copy is measured with the kernel and as boxes, and the run is the same every time.
def nests_of(told):
    return [{name: text for name, text in row["labels"].items() if name != "raw call"} for row in told]


random_nests = cases["nests-regret"]["rows"]
assert len(random_nests) == 40 and {row["labels"]["copy"] for row in random_nests} == {"D2D", "H2D", "D2H"}, random_nests
for row in random_nests:
    assert set(row["choice"]["routes"]) == {"driver", "kernel"}, row
    best_ns = check_choice(row)
    assert abs(row["choice"]["target"] - best_ns / (1.1 * best_ns + 1000)) < 1e-9 and row["target"] is None, row
    assert row["raw_ns"]["median"] == best_ns, row
    assert row["labels"]["raw call"] in ["kernel", "boxes"] and int(row["labels"]["boxes"]) >= 1, row
axes = {row["labels"]["counts"].count("x") + 1 for row in random_nests}
assert min(axes) == 2 and max(axes) == 5 and {row["labels"]["gaps"] for row in random_nests} == {"yes", "no"}, axes
again = subprocess.run([*sys.argv[1:], "--quick", "--driver", "software", "--case", "nests-regret", "--json", "-"], check=True,
                       text=True, capture_output=True, encoding="utf-8")
assert nests_of(json.loads(again.stdout)["cases"][0]["rows"]) == nests_of(random_nests), "the same nests"

# Files: a cold file is compared with plain reads too, and has a target beside the fastest. A RAM disk keeps its files cached.
plain = ["pread, 8 threads", "pread, 16 threads", "O_DIRECT, 8 threads", "O_DIRECT, 16 threads"]
colds = [row for row in cases["file"]["rows"] if row["labels"]["cache"] != "warm"]
beside = [row["labels"]["raw"] for row in colds]
assert not colds or beside in [["16 threads", *plain], ["16 threads", *plain[:2]]], beside
is_cold = {row["labels"]["cache"] == "cold" or row["labels"]["cache"][:10] + row["labels"]["cache"][-8:] for row in colds}
assert is_cold <= {True, "not cold: % cached"} and len(is_cold) < 2, is_cold
for row in colds:
    is_fastest = row["raw_ns"]["median"] == min(each["raw_ns"]["median"] for each in colds[1:])
    is_judged = True in is_cold and is_fastest and row["labels"]["raw"] in plain
    assert row["target"] == (0.95 if is_judged else None), row

# Pageable memory: every kind of row appears in both directions.
pageable = cases["pageable"]
kinds = {}
for row in pageable["rows"]:
    labels = row["labels"]
    kinds.setdefault(labels["what"].split(",")[0], []).append(row)
    assert labels["route"] in ["driver", "buffered", "kernel", "staged"], labels
    of_link = row["of_link"]
    if of_link:
        pinned_ns, ferry_ns = row["reference_ns"], row["ferry_ns"]
        assert pinned_ns["median"] > 0
        share = of_link["share"]["median"] # a ratio of medians, each within its samples
        if of_link["target"] == 0.92: # of the same copy from or to cached memory, whose times are not in the row
            assert 0.2 < share < 5, row
        else:
            assert pinned_ns["least"] / ferry_ns["p99"] / 2 < share < 2 * pinned_ns["p99"] / ferry_ns["least"], row
for what, rows in kinds.items():
    ways = {row["labels"]["copy"] for row in rows}
    has_one_way = what in ["line into untouched pages", "64 textures in a batch"]
    assert has_one_way or ways in [{"H2D", "D2H"}, {"H2A", "A2H"}], (what, ways)
assert {"line", "8 threads", "line into untouched pages", "rows of 1 KiB", "returns"} <= set(kinds), set(kinds)
assert {row["labels"]["ferry's call"] for row in kinds["line"]} == {"ferry_copy", "ferry_copy_async"}
for row in kinds["line"]:
    wanted = 0.98 if row["bytes"] < 1 << 20 else 1
    # The target of a small copy may be lowered by a limit that the run has measured.
    assert row["target"] == wanted or row["bytes"] < 1 << 20 and 0.1 < row["target"] < wanted, row
    has_share = row["bytes"] >= 1 << 20 and sys.platform == "linux"
    assert row["of_link"]["target"] == (0.92 if has_share else None), row
assert any(row["bytes"] == 64 << 20 for row in kinds["line"]), "which has both targets"
assert {row["labels"]["what"] for row in kinds["returns"]} == {f"returns, {when}" for when in
                                                               ["stream idle", "stream busy", "first call",
                                                                "first call, staging at open"]}
most_ns = {"stream idle": 20e3, "stream busy": 20e3, "first call": 800e3, "first call, staging at open": 30e3}
for row in kinds["returns"]:
    wanted = most_ns[row["labels"]["what"].removeprefix("returns, ")]
    if row["labels"]["route"] == "driver":
        wanted = max(wanted, 1.05 * row["raw_ns"]["median"])
    assert abs(row["max_ns"] / wanted - 1) < 1e-9, row
for way in ["H2D", "D2H"]:
    lines = [line for line in pageable["numbers"] if line["labels"]["copy"] == way]
    for size in {line["labels"]["size"] for line in lines}:
        ways = [line["labels"]["options"] for line in lines if line["labels"]["size"] == size]
        assert ways == ["-", "default", "4 threads"], ways
for line in pageable["numbers"]:
    assert line["GB/s"] > 0 and line["CPU ms per GB"] > 0, line
    is_ferrys = line["labels"]["call"] == "ferry_copy_async"
    assert is_ferrys == (line["labels"]["options"] != "-"), line
    # On an idle stream, the software driver makes large copies itself. bench_staged.py checks staged copies.
    if line["threads"]: assert is_ferrys and line["ring MiB"] > 0, line
    assert "compute slower by %" not in line, "a kernel that the software driver cannot run"

# A wide table has the other numbers of a row, too.
wide = subprocess.run([*sys.argv[1:], "--quick", "--driver", "software", "--case", "strided", "--wide"], check=True, text=True,
                      capture_output=True, encoding="utf-8").stdout
names = next(line for line in wide.splitlines() if line.startswith("copy  row bytes"))
for column in ["raw call", "raw GB/s", "ferry GB/s", "route", "by driver", "by kernel", "best/ferry", "  n"]:
    assert column in names, (column, names)
for column in ["target", "ceiling"]:
    assert column not in names, (column, names)
