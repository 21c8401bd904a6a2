#!/usr/bin/env python3
"""Runs docs/figures.py on a made-up run that has every row it looks for, in a copy of the documents.
Usage: figures.py SCRIPT FOLDER_OF_DOCUMENTS"""
import copy
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

script, documents = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("figures", script)
figures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(figures)


def row(number, size, labels):
    """ferry takes 1000 + number ns, the driver twice that."""
    return {"labels": {"route": "staged", **labels}, "bytes": size or 4096, "raw_ns": {"median": 2.0 * (1000 + number)},
            "ferry_ns": {"median": 1000.0 + number}, "ratio": {"median": 2.0}, "target": 1.5, "max_ns": None,
            "ceiling_gb_per_s": 50, "choice": None, "of_link": None, "verdict": "met"}


cases, python_lines = {}, []
for number, (text, case, size, labels) in enumerate(entry for table in figures.TABLES.values() for entry in table):
    cases.setdefault(case, []).append(row(number, size, labels))
for text, case, size, labels, what in figures.CHART:
    found = row(len(python_lines), size, labels)
    cases[case].insert(0, found)
    for name, speed in [("torch", 1.25), ("cupy", 0.5)]:
        python_lines.append({"beside": name, "what": what, "copy": labels["copy"], "bytes": found["bytes"],
                             "GB/s": {name: speed, "ferry": 3.0}})
bench = {"complete": True, "quick": False, "date": "2026-01-02T03:04:05Z", "ferry_version": "9.8.7",
         "machine": {"device_name": "Made-up <GPU>", "driver_version": 13010, "is_software": False},
         "opening_ns": {"open": 7000.0, "close": 5000.0},
         "cases": [{"name": name, "rows": rows} for name, rows in cases.items()]}
python = {"quick": False, "versions": {"ferry": "9.8.7", "torch": "2.11", "cupy": "14.2"}, "skipped": {},
          "lines": python_lines, "calls": [{"beside": name, "us": {"C": 3.0, "refused": 1.0, "C with a ticket": 6.0,
                                            "refused with a ticket": 2.0, "copy_async, arrays": 11.0, "copy_async, views": 10.0,
                                            "enqueue, arrays": 5.0, "enqueue, addresses": 4.5, "enqueue, views": 4.0,
                                            name: 7.0}} for name in ["torch", "cupy"]]}


def run(folder, bench=bench, python=python):
    Path(folder, "bench.json").write_text(json.dumps(bench))
    Path(folder, "python.json").write_text(json.dumps(python))
    return subprocess.run([sys.executable, script, "bench.json", "python.json", "--docs", "."], cwd=folder,
                          capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    page, chart = Path(folder, "performance.md"), Path(folder, "copies.svg")
    shutil.copy(documents / "performance.md", page)
    before = page.read_text()
    done = run(folder)
    assert done.returncode == 0 and done.stderr == "", done
    first = page.read_text(), chart.read_bytes()
    about = "ferry 9.8.7, Made-up <GPU>, CUDA 13.1, PyTorch 2.11, CuPy 14.2, 2026-01-02"
    assert first[0] != before and about in first[0], first[0]
    for table in figures.TABLES.values():
        for text, *_ in table:
            assert f"| {text} | " in first[0], text
    assert "| 2.00 µs | 1.00 µs | 2.00 |" in first[0], first[0]
    assert "| `gpu.enqueue` of arrays | 5.00 µs | 3.00 µs | 5.00 µs | 3.00 µs |" in first[0], first[0]
    assert "| `gpu.copy_async` of arrays | 11.0 µs | 7.00 µs | 11.0 µs | 7.00 µs |" in first[0], first[0]
    assert "| CuPy's own copy |  |  | 7.00 µs |  |" in first[0], first[0]
    drawn = xml.etree.ElementTree.fromstring(chart.read_text())
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert about in words and words.count("PyTorch") == len(figures.CHART), words
    assert words.count("1.25 GB/s") == words.count("0.50 GB/s") == len(figures.CHART), words
    for bar in drawn.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(bar.get("x")) + float(bar.get("width")) < 760, "within the picture"

    assert run(folder).returncode == 0
    assert (page.read_text(), chart.read_bytes()) == first, "the same input gives the same bytes"

    one_row_less = copy.deepcopy(bench)
    one_row_less["cases"] = [case for case in bench["cases"] if case["name"] != "peer"]
    done = run(folder, one_row_less)
    assert done.returncode == 0 and "not in this run: device to device, peer access" in done.stderr, done
    assert "| device to device, peer access" not in page.read_text()

    for change, why in [({"complete": False}, "incomplete"), ({"quick": True}, "quick"),
                        ({"machine": {**bench["machine"], "is_software": True}}, "software driver"),
                        ({"ferry_version": "9.8.6"}, "python_copies.py ran with ferry 9.8.7")]:
        kept = page.read_text()
        refused = run(folder, {**bench, **change})
        assert refused.returncode != 0 and why in refused.stderr, refused
        assert page.read_text() == kept, "nothing is written"
    refused = run(folder, python={**python, "skipped": {"cupy": "not here"}})
    assert refused.returncode != 0 and "skipped cupy" in refused.stderr, refused
