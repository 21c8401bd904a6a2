#!/usr/bin/env python3
"""Writes the chart of README.md and the tables of docs/performance.md from one run of each of these programs:

    build/tools/ferry-bench --json bench.json
    python3 tools/bench/python_copies.py build/src/libferry.so --json > python.json
    python3 docs/figures.py bench.json python.json

It rewrites docs/copies.svg and, in docs/performance.md, what stands between `<!-- NAME -->` and `<!-- /NAME -->`. The
same input gives the same bytes. Rows that a run lacks (two devices, for example) are left out and named on stderr."""
import argparse
import json
import sys
from html import escape
from pathlib import Path

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30

# ---- Which rows of ferry-bench appear: (text, case, size in bytes or None, labels that identify the row)


def line(copy, **more):
    return {"copy": copy, "memory": "pinned", "form": "async", **more}


def pageable(copy, what="line", **more):
    return {"what": what, "copy": copy, "ferry's call": "ferry_copy_async", **more}


def strided(copy, width, rows, source, destination):
    return {"copy": copy, "row bytes": str(width), "rows": str(rows), "source pitch": str(source),
            "destination pitch": str(destination)}


def submit(kinds, checks, form="descriptor"):
    return {"copy": "H2D", "form": form, "kinds": kinds, "checks": checks}


Mi = 1 << 20
PAGEABLE_SIZES = [64 * KiB, 128 * KiB, 256 * KiB, 512 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB, GiB, 4 * GiB]
PIECE_SIZES = [(256, "256 B"), (4 * KiB, "4 KiB"), (64 * KiB, "64 KiB")]
DIRECTIONS = [("to the device", "H2D"), ("to the host", "D2H"), ("within the device", "D2D")]


def size_text(size):
    for unit, name in [(GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")]:
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


TABLES = {
    "overhead": [
        ("pinned memory to the device, 1 MiB", "linear", MiB, line("H2D")),
        ("pinned memory to the device, 1 GiB", "linear", GiB, line("H2D")),
        ("device to pinned memory, 1 MiB", "linear", MiB, line("D2H")),
        ("device to pinned memory, 1 GiB", "linear", GiB, line("D2H")),
        ("both at the same time, 1 GiB each", "both-ways", 2 * GiB, {}),
        ("within the device, 1 GiB", "linear", GiB, {"copy": "D2D", "form": "async"}),
        ("pinned memory to a 3D array of 4-byte texels", "volume", None,
         {"copy": "H2A", "array": "3D", "texel bytes": "4", "box": "whole", "pitch": "tight"}),
        ("device to device, no peer access, 1 GiB", "peer", GiB, {"copy": "0 to 1", "access": "off", "box": "1D"}),
        ("device to device, peer access, 1 GiB", "peer", GiB, {"copy": "0 to 1", "access": "on", "box": "1D"}),
        ("issue of a small copy, kinds stated", "submit", 64, submit("HOST", "basic")),
        ("the same, kind `ANY`", "submit", 64, submit("ANY", "basic")),
        ("the same, kind `ANY` and full checks", "submit", 64, submit("ANY", "full")),
    ],
    "kernels": [
        ("4 Mi rows of 4 B, pitch 8 B, from the host, packed", "strided", None, strided("H2D", 4, 4 * Mi, 8, "tight")),
        ("the same, packed at the host, spread on the device", "strided", None,
         strided("H2D", 4, 4 * Mi, "tight", 8)),
        ("16 Mi such rows within the device, packed", "strided", None, strided("D2D", 4, 16 * Mi, 8, "tight")),
        ("the same, spread", "strided", None, strided("D2D", 4, 16 * Mi, "tight", 8)),
        *((f"256 MiB within the device in rows of {name}, pitch twice that", "strided", None,
           strided("D2D", width, 256 * MiB // width, 2 * width, 2 * width))
          for width, name in [(64, "64 B"), (1 << 10, "1 KiB"), (64 << 10, "64 KiB")]),
        ("512³ texels of 4 B out of a ferry array", "volume", 512 * MiB, {"copy": "A2D", "array": "3D, ferry's"}),
        ("1000 boxes of 16³ texels out of such an array", "volume", None, {"texels": "1000 of 16 x 16 x 16", "box": "bricks"}),
        *((f"4096 pieces of {name}, {where}{suffix}", "batch", None,
           {"copy": copy, "pieces": f"4096 x {name}", "form": form})
          for _, name in PIECE_SIZES for where, copy in DIRECTIONS
          for form, suffix in [("pieces", ""), ("prepared", ", prepared")]),
        *((f"pieces of 16 B to 1 MiB, 64 MiB in total, {where}{suffix}, compared with one copy of 64 MiB", "batch",
           64 * MiB,
           {"copy": copy, "form": form})
          for where, copy in [DIRECTIONS[0], DIRECTIONS[2]] for form, suffix in [("pieces", ""), ("prepared", ", prepared")]),
        ("64 KiB to the device, urgent, while 512 MiB are in flight: median", "urgent", None,
         {"copy": "H2D", "of the samples": "median"}),
        ("the same: 99th percentile", "urgent", None, {"copy": "H2D", "of the samples": "p99"}),
        ("checking and planning one piece", "batch", None, {"copy": "H2D", "form": "pieces, check and plan"}),
        ("checking and planning one descriptor of a batch", "batch", None,
         {"copy": "H2D", "form": "descriptors, check and plan"}),
    ],
    "pageable": [
        *((f"{size_text(size)} {where}", "pageable", size, pageable(copy))
          for where, copy in DIRECTIONS[:2] for size in PAGEABLE_SIZES),
        ("1 GiB to new pages", "pageable", GiB, pageable("D2H", "line into untouched pages")),
        *((f"256 MiB in rows of 1 KiB, pitch 2 KiB at both ends, {where}", "pageable", 256 * MiB,
           pageable(copy, "rows of 1 KiB, both 2 KiB apart")) for where, copy in DIRECTIONS[:2]),
        *((f"512³ texels of 4 B {where} a ferry array", "pageable", 512 * MiB,
           pageable(copy, "512 x 512 x 512, ferry's")) for where, copy in [("into", "H2A"), ("out of", "A2H")]),
        *((f"2 GiB by 8 threads on 8 streams, {where}", "pageable", 2 * GiB, pageable(copy, "8 threads, 8 streams"))
          for where, copy in DIRECTIONS[:2]),
    ],
    "returns": [
        (f"{text}, {size_text(size)} {where}", "pageable", size, pageable(copy, f"returns, {what}"))
        for what, text in [("stream idle", "idle stream"), ("stream busy", "after a copy in flight"),
                           ("first call", "first call of an instance"),
                           ("first call, staging at open", "first call of an instance that set up staging at open")]
        for where, copy in DIRECTIONS[:2] for size in [64 * KiB, 16 * MiB, 256 * MiB]
    ],
    "memory": [
        *((f"{size_text(size)} pinned: {does}", "pinned-alloc", size, {"what": what})
          for size in [MiB, 64 * MiB, GiB]
          for what, does in [("allocate", "`cuMemHostAlloc`, `ferry_host_alloc`"), ("free", "freed")]),
        ("1 GiB copied from it", "pinned-alloc", GiB, {"what": "copy H2D"}),
        ("1 GiB copied to it", "pinned-alloc", GiB, {"what": "copy D2H"}),
        ("1 GiB of the program's memory, registered and released", "register", GiB, {"pieces": "one"}),
        ("the same in pieces of 64 MiB", "register", GiB, {"pieces": "of 64 MiB"}),
        ("1 MiB of device memory allocated and freed on a stream", "pool-alloc", MiB, {"pool": "the device's"}),
        *((f"the query of an address in {kind} memory", "address", None, {"memory": kind})
          for kind in ["device", "pinned", "pageable"]),
        ("memory of another process opened and closed", "ipc-open", None, {"what": "memory"}),
        ("the same while it is open", "ipc-open", None, {"what": "memory, again"}),
        ("a pinned block of 64 KiB from a pool and back, on a stream", "pinned-pool", 64 * KiB, {"freed by": "free_async"}),
        ("the same without a stream", "pinned-pool", 64 * KiB, {"freed by": "free"}),
    ],
}
# In these cases raw is no other way of doing the same.
WITHOUT_RAW = {("pinned-pool", None), ("batch", "pieces, check and plan"), ("batch", "descriptors, check and plan")}

# The chart: rows of ferry-bench with the lines of python_copies.py for the same copy.
CHART = [
    ("256 MiB of pageable memory to the GPU", "pageable", 256 * MiB, pageable("H2D"), "line"),
    ("256 MiB from the GPU to pageable memory", "pageable", 256 * MiB, pageable("D2H"), "line"),
    ("4096 scattered pieces of 4 KiB, pinned memory to the GPU", "batch", None,
     {"copy": "H2D", "pieces": "4096 x 4 KiB", "form": "pieces"}, "pieces of 4 KiB"),
    ("every second float of 32 MiB, pinned memory to the GPU", "strided", None,
     strided("H2D", 4, 4 * Mi, 8, "tight"), "rows of 4 B"),
    ("256 MiB in rows of 64 B, 128 B apart, within the GPU", "strided", None,
     strided("D2D", 64, 4 * Mi, 128, 128), "rows of 64 B"),
]
CONTENDERS = [("ferry", "ferry"), ("driver", "driver"), ("torch", "PyTorch"), ("cupy", "CuPy")]


class Run:
    def __init__(self, bench, python):
        self.bench, self.python = bench, python
        self.missing = []
        wrong = [text for is_wrong, text in [
            (not bench["complete"], "the run of ferry-bench is incomplete"),
            (bench["quick"] or python["quick"], "a quick run"),
            (bench["machine"]["is_software"], "the software driver: no hardware figures"),
            (python["versions"].get("ferry") != bench["ferry_version"],
             f"python_copies.py ran with ferry {python['versions'].get('ferry')}, ferry-bench with {bench['ferry_version']}"),
            (python["skipped"], f"python_copies.py skipped {', '.join(python['skipped'])}"),
        ] if is_wrong]
        if wrong:
            sys.exit("; ".join(wrong))

    def row(self, text, case, size, labels):
        """The first row that has all these labels; a label may also be the beginning of the row's."""
        rows = [row for each in self.bench["cases"] if each["name"] == case for row in each["rows"]
                if size in (None, row["bytes"]) and all(
                    row["labels"].get(name) == value or (name == "of the samples" and row["labels"][name].startswith(value))
                    for name, value in labels.items())]
        if not rows:
            self.missing.append(text)
        return rows[0] if rows else None

    def about(self):
        bench, versions = self.bench, self.python["versions"]
        driver = bench["machine"]["driver_version"]
        return (f"ferry {bench['ferry_version']}, {bench['machine']['device_name']}, CUDA "
                f"{driver // 1000}.{driver % 1000 // 10}, PyTorch {versions['torch']}, CuPy {versions['cupy']}, "
                f"{bench['date'][:10]}")

    def speeds(self, size, row, copy, what):
        """GB/s of each contender."""
        python = [each for each in self.python["lines"]
                  if (each["what"], each["copy"], each["bytes"]) == (what, copy, row["bytes"])]
        speeds = {"ferry": row["bytes"] / row["ferry_ns"]["median"], "driver": row["bytes"] / row["raw_ns"]["median"]}
        return {**speeds, **{each["beside"]: each["GB/s"][each["beside"]] for each in python}}


# ---- Markdown

def three_digits(value):
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def time_text(ns):
    for unit, name in [(1e6, "ms"), (1e3, "µs")]:
        if ns >= unit:
            return f"{three_digits(ns / unit)} {name}"
    return f"{three_digits(ns)} ns"


def ratio_text(ratio):
    return f"{ratio:.3f}" if 0.9 <= ratio < 1.1 else three_digits(ratio)


def markdown(head, lines):
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def speed_table(run, name):
    rows = [(text, case, labels, run.row(text, case, size, labels)) for text, case, size, labels in TABLES[name]]
    rows = [each for each in rows if each[3]]
    has_link = any(row["of_link"] for *_, row in rows)
    has_speed = name != "memory" and name != "returns"
    lines = []
    for text, case, labels, row in rows:
        has_raw = (case, labels.get("form")) not in WITHOUT_RAW
        ferry = row["ferry_ns"]["median"]
        cells = [text, time_text(row["raw_ns"]["median"]) if has_raw else "", time_text(ferry),
                 ratio_text(row["ratio"]["median"]) if has_raw else ""]
        if has_speed:
            cells.append(f"{three_digits(row['bytes'] / ferry)} GB/s" if row["ceiling_gb_per_s"] or case == "batch" and has_raw
                         else "")
        if has_link:
            cells.append(ratio_text(row["of_link"]["share"]["median"]) if row["of_link"] else "")
        if name == "pageable":
            cells.append(row["labels"]["route"])
        lines.append(cells)
    head = ["", "raw", "ferry", "raw / ferry"] + ["by ferry"] * has_speed + ["of the link"] * has_link
    return markdown(head + ["route"] * (name == "pageable"), lines)


def verdict_table(run):
    lines = []
    for case in run.bench["cases"]:
        verdicts = [row["verdict"] for row in case["rows"]]
        if verdicts:
            lines.append([f"`{case['name']}`", str(len(verdicts)), str(len(verdicts) - verdicts.count("no target"))] +
                         [str(verdicts.count(verdict)) for verdict in ["met", "within the spread", "missed"]])
    return markdown(["case", "rows", "with a target", "target met", "within the spread", "missed"], lines)


def python_table(run):
    lines = []
    for text, case, size, labels, what in CHART:
        row = run.row(text, case, size, labels)
        if row:
            speeds = run.speeds(size, row, labels["copy"], what)
            lines.append([text] + [f"{three_digits(speeds[name])} GB/s" if name in speeds else "" for name, _ in CONTENDERS])
    return markdown(["", *(title for _, title in CONTENDERS)], lines)


# The functions of ferry's Python package that python_copies.py measures, and the C function that each of them calls.
PYTHON_CALLS = [
    ("`gpu.enqueue` of the same views again", "enqueue, views", ""),
    ("`gpu.enqueue` of addresses (`ferry.memory`)", "enqueue, addresses", ""),
    ("`gpu.enqueue` of arrays", "enqueue, arrays", ""),
    ("`gpu.copy_async` of the same views again", "copy_async, views", " with a ticket"),
    ("`gpu.copy_async` of arrays", "copy_async, arrays", " with a ticket"),
]


def python_calls_table(run):
    found = {each["beside"]: each["us"] for each in run.python["calls"]}
    lines = []
    for text, way, ticket in PYTHON_CALLS:
        if any(way not in us for us in found.values()):
            run.missing.append(text)
            continue
        cells = [text]
        for us in found.values():
            in_c = us["C" + ticket] - us["refused" + ticket]
            cells += [time_text(us[way] * 1e3), time_text((us[way] - in_c) * 1e3)]
        lines.append(cells)
    titles = dict(CONTENDERS)
    lines += [[f"{titles[name]}'s own copy"] + ["", ""] * at + [time_text(us[name] * 1e3), ""] +
              ["", ""] * (len(found) - at - 1) for at, (name, us) in enumerate(found.items())]
    return markdown([""] + [head for name in found for head in (f"call, {titles[name]} arrays", "over C")], lines)


def python_package_table(run):
    """ferry's Python package and each of the other packages, on the same memory and streams."""
    found = {}
    for each in run.python["lines"]:
        found.setdefault((each["what"], each["copy"], each["bytes"]), {})[each["beside"]] = each["GB/s"]
    names = list(dict.fromkeys(each["beside"] for each in run.python["lines"]))
    lines = []
    for (what, way, size), speeds in found.items():
        copied = what.replace("line", "contiguous copy")
        cells = [f"{copied}, {way}" + (f", {size_text(size)}" if what == "line" else "")]
        for name in names:
            both = speeds.get(name, {})
            cells += [three_digits(both[one]) if one in both else "" for one in (name, "ferry")]
        lines.append(cells)
    titles = dict(CONTENDERS)
    return markdown([""] + [head for name in names for head in (titles[name], "ferry")], lines)


def blocks_of(run):
    opening = run.bench["opening_ns"]
    return {
        "run": (f"{run.about()}. The figures of the driver and of ferry are from one run of `ferry-bench`. The figures of "
                f"PyTorch and CuPy are from one run of `python_copies.py`."),
        **{name: speed_table(run, name) for name in TABLES},
        "opening": (f"Opening an instance takes {time_text(opening['open'])} after the driver is initialised. "
                    f"Closing it takes {time_text(opening['close'])}."),
        "python": python_table(run),
        "python-package": python_package_table(run),
        "python-calls": python_calls_table(run),
        "verdicts": verdict_table(run),
    }


def with_blocks(page, blocks):
    for name, text in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            sys.exit(f"docs/performance.md has no block {name}")
        before, rest = page.split(begin)
        page = before + begin + "\n" + text + "\n\n" + end + rest.split(end)[1]
    return page


# ---- The chart

STYLE = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
.title { font-weight: 600 } .note { font-size: 11px; fill: #59636e }
.card { fill: #ffffff; stroke: #d1d9e0 } .bar { fill: #afb8c1 } .ferry { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note { fill: #9198a1 }
.card { fill: #0d1117; stroke: #3d444d } .bar { fill: #6e7681 } .ferry { fill: #4493f8 }
}
"""


def chart(run):
    """One group of bars for each copy. The bars of a group share a scale, groups do not."""
    width, left, longest, pitch = 760, 84, 560, 18
    shapes, y = [], 30
    for text, case, size, labels, what in CHART:
        row = run.row(text, case, size, labels)
        if not row:
            continue
        speeds = run.speeds(size, row, labels["copy"], what)
        shapes.append(f'<text class="title" x="16" y="{y}">{escape(text)}</text>')
        for name, title in CONTENDERS:
            if name not in speeds:
                continue
            y += pitch
            length = max(1, round(longest * speeds[name] / max(speeds.values()), 1))
            shapes += [f'<text x="{left - 8}" y="{y}" text-anchor="end">{title}</text>',
                       f'<rect class="bar{" ferry" if name == "ferry" else ""}" x="{left}" y="{y - 11}" '
                       f'width="{length}" height="13"/>',
                       f'<text x="{left + length + 8}" y="{y}">{three_digits(speeds[name])} GB/s</text>']
        y += 32
    for note in ["Until the bytes have arrived, medians. Longer is better; each copy has its own scale. "
                 "driver: the fastest of CUDA's own calls.", run.about()]:
        shapes.append(f'<text class="note" x="16" y="{y}">{escape(note)}</text>')
        y += 16
    height = y - 2
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img">\n<title>Throughput of copies: ferry, the CUDA driver, PyTorch and CuPy</title>\n'
            f'<style>{STYLE}</style>\n<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
            + "\n".join(shapes) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path, help="what ferry-bench --json has written")
    parser.add_argument("python", type=Path, help="what python_copies.py --json has written")
    parser.add_argument("--docs", type=Path, default=Path(__file__).parent, help="the folder to write to")
    asked = parser.parse_args()
    run = Run(json.loads(asked.bench.read_text()), json.loads(asked.python.read_text()))
    page = asked.docs / "performance.md"
    written = with_blocks(page.read_text(), blocks_of(run))
    (asked.docs / "copies.svg").write_text(chart(run))
    page.write_text(written)
    for text in dict.fromkeys(run.missing):
        print("not in this run:", text, file=sys.stderr)


if __name__ == "__main__":
    main()
