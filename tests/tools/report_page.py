#!/usr/bin/env python3
"""Makes the page of made-up results and reads it again, then one by ferry-bench --report on the software driver.
Usage: report_page.py SCRIPT [EMULATOR...] PROGRAM"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

from made_up_results import case, results, row

KiB, MiB = 1 << 10, 1 << 20
script, *program = sys.argv[1:]
try:
    import plotly
except ImportError:
    assert not os.environ.get("CI"), "CI installs plotly"
    print("skipped: python has no plotly")
    sys.exit(77)


class Page(HTMLParser):
    """Tags with their attributes, and texts by the tag around them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br"): self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def visible(self):
        return " ".join(text for tag, texts in self.texts.items() if tag not in ("script", "style") for text in texts)

    def charts(self):
        """The traces of each chart."""
        decode = json.JSONDecoder().raw_decode
        return [decode(text[text.index("[", text.index("Plotly.newPlot(")):])[0]
                for text in self.texts["script"] if "Plotly.newPlot(" in text and len(text) < MiB]


folder = tempfile.TemporaryDirectory()


def path(name):
    return Path(folder.name, name)


def run(text, *python):
    path("results.json").write_text(text)
    path("page.html").unlink(missing_ok=True)
    return subprocess.run([sys.executable, *python, script, path("results.json"), path("page.html")], capture_output=True,
                          text=True, encoding="utf-8")


def page_of(report):
    done = run(report if isinstance(report, str) else json.dumps(report))
    assert done.returncode == 0 and not done.stdout + done.stderr, done
    page = Page(path("page.html").read_text(encoding="utf-8"))
    assert not page.open, page.open
    return page


# ---- One row and more of each kind that has a chart

SIZES = [64 * KiB, MiB, 16 * MiB, 256 * MiB]
linear = [row({"copy": "H2D", "memory": "pinned", "form": "async"}, size, 8e3 + size / 55.4, 8.2e3 + size / 55.4,
              ceiling_gb_per_s=55.4, target=0.99, verdict="met") for size in SIZES]
pageable = [row({"what": "line", "copy": "D2H", "ferry's call": "ferry_copy_async", "route": route, "raw call": "a <call>"},
                size, size / 15.2, size / 49.5, ceiling_gb_per_s=55.3, verdict="missed")
            for size, route in zip(SIZES, ["driver", "driver", "staged", "staged"])]
submit = [row({"copy": "H2D", "form": "descriptor", "kinds": "HOST", "checks": "basic"}, 64, 1390.0, 1640.0, max_ns=2e3)]
strided = [row({"copy": "D2D", "row bytes": str(width), "rows": "4096", "source pitch": str(2 * width),
                "destination pitch": "tight"}, 4096 * width, 300e3, 100e3, ceiling_gb_per_s=2098.0) for width in [4, 64, 1024]]
batch = [row({"copy": "H2D", "pieces": f"4096 x {size} B", "form": "pieces"}, 4096 * size, 6e6, 4e5) for size in [256, 512, 768]]
devices = [row({"devices": str(count), "copy": "H2D"}, count * 256 * MiB, 4e7, 6e6, ceiling_gb_per_s=55.4 * count)
           for count in [1, 2, 4]]
route_map = {"copy": "H2D", "memory": "pinned", "gaps": "source", "row_bytes": [1, 2], "rows": [1, 2],
             "routes": [["driver", "driver"], ["kernel", None]]}
whole = results([case("linear", linear), case("pageable", pageable), case("submit", submit), case("strided", strided),
                 case("batch", batch), case("routes", route_maps=[route_map]),
                 case("pageable-devices", devices, numbers=[{"labels": {"threads": str(count)}, "GB/s": 11.0 * count}
                                                            for count in [1, 2, 4]])])
page = page_of(whole)

# Nothing refers to anything outside the file, and the page forbids the browser to load anything.
for tag, attributes in page.tags:
    assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form"), tag
    assert "src" not in attributes and attributes.get("href", "#").startswith("#"), (tag, attributes)
assert not re.search(r"url\(|@import", "".join(page.texts["style"])), "the style sheet loads something"
policy = [each["content"] for tag, each in page.tags if each.get("http-equiv") == "Content-Security-Policy"]
assert len(policy) == 1 and policy[0].startswith("default-src 'none'") and "http" not in policy[0], policy
assert any("plotly.js v" in text for text in page.texts["script"]), "the library is in the page"
assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
assert "prefers-color-scheme: dark" in "".join(page.texts["style"])

# The machine and the numbers.
visible = page.visible()
for words in ["Copies on NVIDIA H200", "A Processor <of 2026>, 16 processors", "CUDA 13.0", "141.0 GiB, 132 SMs, 3 copy engines",
              "PCIe, 16 lanes at 32 GT/s: 63.0 GB/s", "9.8.7, opened in 59.8 µs", "2026-01-02 03:04:05 UTC",
              "18 measured, 4 meet their target, 4 miss it", "a <call>", "1.39 µs", "1.64 µs", "at most 2.00 µs", "49.5", "0.990",
              "met", "missed", "no target", "a note", "made up linear"]:
    assert words in visible, (words, visible[:3000])
assert "software driver" not in visible and "not complete" not in visible and "quick" not in visible
headings = ["Throughput by size", "Throughput by width of rows", "Many pieces in one call", "Routes", "Latency",
            "Threads and GPUs", "Targets", "All rows"]
assert page.texts["h2"] == headings, page.texts["h2"]

# The charts show the numbers: both ways of copying, in GB/s.
charts = page.charts()
ferry, driver = "#2f81f7", "#8b949e"
for rows, xs in [(linear, SIZES), (pageable, SIZES), (strided, [4, 64, 1024]), (batch, [256, 512, 768]), (devices, [1, 2, 4])]:
    for colour, side in [(driver, "raw_ns"), (ferry, "ferry_ns")]:
        shown = [trace["y"] for chart in charts for trace in chart if trace.get("x") == xs and trace["line"]["color"] == colour]
        assert [each["bytes"] / each[side]["median"] for each in rows] in shown, (xs, side, shown)
boxes = [trace for chart in charts for trace in chart if trace["type"] == "box" and trace["median"] == [1640.0]]
assert len(boxes) == 1 and boxes[0]["q1"] == [submit[0]["ferry_ns"]["p25"]], boxes
assert [trace["z"] for chart in charts for trace in chart if trace["type"] == "heatmap"] == [[[0, 0], [1, None]]]
assert any(trace["y"] == [11.0, 22.0, 44.0] for chart in charts for trace in chart if trace["type"] == "scatter"), "memcpy"

# What must not be taken for figures of hardware, or for all of them, says so.
software = page_of({**whole, "machine": {**whole["machine"], "is_software": True}, "quick": True}).visible()
assert "These are results of the software driver" in software and "This was a quick run" in software
assert "Best pinned copies" in visible and "Best pinned copies" not in software, "the software driver has no ceilings"
cut_off = "{\n" + "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in whole.items()
                          if name not in ("cases", "complete"))
cut_off += '"cases": [\n{"name": "linear", "rows": [\n' + ",\n".join(map(json.dumps, linear)) + ',\n{"labels": {"co'
interrupted = page_of(cut_off)
assert "The run was not complete" in interrupted.visible() and "4 measured" in interrupted.visible()
assert interrupted.texts["h2"] == ["Throughput by size", "Targets", "All rows"], interrupted.texts["h2"]
empty = page_of({**whole, "cases": []})
assert empty.texts["h2"] == ["All rows"], empty.texts["h2"]

for wrong, why in [("hello", "is not a report of ferry-bench"), ("[]", "is not a report of ferry-bench"),
                   (json.dumps({**whole, "cases": [{"name": "linear", "rows": [{}]}]}), "lacks what a report of ferry-bench has")]:
    done = run(wrong)
    assert done.returncode == 1 and why in done.stderr and "Traceback" not in done.stderr, done
    assert not path("page.html").exists(), wrong
done = run(json.dumps(whole), "-I", "-S")
assert done.returncode == 1 and "python3 -m pip install plotly" in done.stderr and "Traceback" not in done.stderr, done

# ferry-bench makes a page. An emulator's program does not find this Python.
if len(program) == 1 and not program[0].endswith(".exe"):
    python = path("bin/python3")
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)

    def bench(paths, *arguments):
        return subprocess.run([*program, "--driver", "software", "--quick", "--case", "routes", *arguments], text=True,
                              capture_output=True, encoding="utf-8", env={**os.environ, "PATH": paths})

    usual = f"{python.parent}:{os.environ['PATH']}"
    done = bench(usual, "--report", path("made.html"))
    assert done.returncode == 0 and "made.html: the page" in done.stdout, done
    made = Page(path("made.html").read_text(encoding="utf-8"))
    assert made.texts["h2"] == ["Routes", "All rows"] and len(made.charts()) == 15, made.texts["h2"]
    assert "These are results of the software driver" in made.visible()
    assert json.loads(path("made.json").read_text())["complete"], "the results are kept beside the page"
    done = bench(usual, "--report", path("other.html"), "--json", path("named.json"))
    assert done.returncode == 0 and path("named.json").exists() and not path("other.json").exists(), done
    refused = bench(usual, "--report", path("third.html"), "--json", "-")
    assert refused.returncode == 1 and "--report makes the page from a file" in refused.stderr, refused

    # After Ctrl-C, the page has the rows that were measured.
    interrupted = subprocess.Popen([*program, "--driver", "software", "--quick", "--case", "regret", "--report",
                                    path("interrupted.html")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   encoding="utf-8", env={**os.environ, "PATH": usual})
    kept = path("interrupted.json")
    while not kept.exists() or kept.read_bytes().count(b'"verdict"') < 3:
        assert interrupted.poll() is None, "it ended before it was interrupted"
        time.sleep(0.01)
    interrupted.send_signal(signal.SIGINT)
    printed = interrupted.communicate(timeout=60)[0]
    assert interrupted.returncode == 130 and "interrupted.html: the page" in printed, printed
    rows = json.loads(kept.read_text())["cases"][0]["rows"]
    visible = Page(path("interrupted.html").read_text(encoding="utf-8")).visible()
    assert "The run was not complete" in visible and f"{len(rows)} measured" in visible, visible[:2000]

    done = bench("/nowhere", "--report", path("fourth.html"))
    assert done.returncode == 1 and "there is no python3" in done.stderr and "fourth.json" in done.stderr, done
    assert json.loads(path("fourth.json").read_text())["complete"], "the results are kept without a page"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    done = bench(usual, "--report", path("fifth.html"))
    assert done.returncode == 1 and "pip install plotly" in done.stderr and "The results are in" in done.stderr, done
