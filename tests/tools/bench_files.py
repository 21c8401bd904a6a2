#!/usr/bin/env python3
"""Checks the files that ferry-bench writes, traces and results, and its progress, in quick runs on the software driver.
Usage: bench_files.py [EMULATOR...] PROGRAM"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any


def read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise AssertionError(f"{error}: {text[max(error.pos - 300, 0):error.pos + 300]!r}") from None


# A trace has each case, its rows and every call to ferry. Work on streams ends after it begins.
with tempfile.TemporaryDirectory() as folder:
    trace, written = os.path.join(folder, "trace.json"), os.path.join(folder, "results.json")
    command = [*sys.argv[1:], "--quick", "--driver", "software", "--case", "batch", "--case", "urgent", "--json", written]
    shown = subprocess.run([*command, "--trace", trace], check=True, text=True, capture_output=True, encoding="utf-8").stdout
    assert "TRACED: " in shown, shown[:500]
    assert "raw/ferry" in shown and "  target" not in shown, "targets of rows that are not judged"
    events, results = read_json(trace), read_json(written)
    assert results["traced"]
    of = {}
    for event in events:
        of.setdefault((event.get("cat"), event["ph"]), []).append(event)
    spans = {event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in of["case", "X"]}
    assert list(spans) == ["batch", "urgent"] and spans["batch"][1] <= spans["urgent"][0], spans
    assert len(of["row", "i"]) == sum(len(case["rows"]) for case in results["cases"]), len(of["row", "i"])
    calls = of["ferry", "X"]
    assert {event["name"].split(": ")[0] for event in calls} >= {"copy", "batch"}, {event["name"] for event in calls}
    assert {event["name"].split(": ")[1] for event in calls} >= {"driver", "kernel"}, {event["name"] for event in calls}
    assert all(event["dur"] > 0 and event["args"]["count"] for event in calls if not event["name"].startswith("prepared"))
    begun, ended = ({event["id"]: event["ts"] for event in of["stream", mark]} for mark in "be")
    assert begun.keys() == ended.keys() and all(ended[each] >= begun[each] for each in begun)
    assert any(event["tid"] == 1 and spans["batch"][0] <= event["ts"] <= spans["batch"][1] for event in calls)
    wrong = subprocess.run([*command, "--trace", os.path.join(folder, "no", "trace.json")], text=True, capture_output=True)
    assert wrong.returncode == 1 and "cannot write the trace to " in wrong.stderr, wrong
    wrong = subprocess.run([*command, "--trace", trace, "--strict"], text=True, capture_output=True)
    assert wrong.returncode != 0 and "--trace excludes --strict" in wrong.stderr, wrong

# Progress is printed on terminals, and on request.
for asked, expected in [([], []), (["--progress"], ["case 1 of 2", "case 2 of 2"])]:
    shown = subprocess.run([*sys.argv[1:], "--quick", "--driver", "software", "--case", "routes", "--case", "address", *asked],
                           check=True, text=True, capture_output=True, encoding="utf-8").stderr.splitlines()
    assert [line.split(",")[0] for line in shown] == expected, shown
    assert all(line.split(", about ")[1].split(" left: ")[1] in ["routes", "address"] for line in shown), shown

# A run that is killed leaves the rows it has measured, including the rows of the interrupted case, in a file that is complete
# after every row.
def reading(path):
    """None while the run is writing."""
    try:
        with open(path) as file: return json.load(file)
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def in_second_case(told):
    return told and len(told["cases"]) == 2 and told["cases"][1]["rows"]


arguments = [*sys.argv[1:], "--quick", "--driver", "software", "--case", "linear", "--case", "regret", "--case", "batch"]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "results.json")
    run = subprocess.Popen([*arguments, "--json", path], stdout=subprocess.DEVNULL)
    try:
        while not in_second_case(reading(path)):
            assert run.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
    finally:
        run.kill()
        run.wait()
    told = reading(path)
    assert told["machine"]["is_software"] and not told["complete"], told
    linear, regret = told["cases"][:2]
    assert linear["name"] == "linear" and linear["rows"] and "seconds" in linear, linear
    assert regret["name"] == "regret" and regret["rows"] and "seconds" not in regret, regret

# Ctrl-C ends a run after the row, says which rows are kept, and completes the JSON. A file has all rows, and so has a pipe.
def is_kept(told, done, out):
    assert done == 130, done
    rows = sum(len(case["rows"]) for case in told["cases"])
    assert rows and not told["complete"] and [case["name"] for case in told["cases"]] == ["linear", "regret"], told["cases"]
    assert "INTERRUPTED" not in told["cases"][0]["note"] and "INTERRUPTED" in told["cases"][1]["note"], told["cases"]
    assert "seconds" in told["cases"][1], told["cases"][1]
    words = " ".join(out.split())
    of_regret = len(told["cases"][1]["rows"])
    kept = f"INTERRUPTED: {rows} rows kept. Complete cases: linear; in part: regret ({of_regret} row"
    assert kept in words and "not measured: batch." in words and "The run took " in words and "expected to take " in words, out
    assert f"Summary: {rows} rows of 2 cases." in words, out


if os.name != "nt":
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        run = subprocess.Popen([*arguments, "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not in_second_case(reading(path)):
            assert run.poll() is None, "it ended before it was interrupted"
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        out, errors = run.communicate(timeout=60)
        assert "Press Ctrl-C again" in errors, errors
        is_kept(reading(path), run.returncode, out)
        assert f"They are in {path}." in " ".join(out.split()), out

    with tempfile.TemporaryFile(mode="w+", encoding="utf-8") as tables:
        run = subprocess.Popen([*arguments, "--json", "-"], stdout=subprocess.PIPE, stderr=tables, text=True)
        begun = ""
        while '"regret"' not in begun or '"verdict"' not in begun.split('"regret"')[1]:
            line = run.stdout.readline()
            assert line, "it ended before it was interrupted"
            begun += line
        run.send_signal(signal.SIGINT)
        told = json.loads(begun + run.stdout.read())
        run.wait(timeout=60)
        tables.seek(0)
        is_kept(told, run.returncode, tables.read())
