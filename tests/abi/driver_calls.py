#!/usr/bin/env python3
"""Checks that docs/driver-calls.txt has one entry for each function of ferry, and names only driver functions that
ferry knows: driver_calls.py DOCS FOLDER_OF_HEADERS SYMBOLS

The script also checks itself: it alters the file, and must find each problem.
"""
import re
import sys
from pathlib import Path

docs, folder, symbols = sys.argv[1:]
sys.path.insert(0, docs)
import c_headers  # noqa: E402
import driver_calls  # noqa: E402

text = driver_calls.FILE.read_text(encoding="utf-8")
functions = re.findall(r"^FERRY_API\b[^(]*?(\w+)\(", c_headers.text_of(c_headers.headers_of_ferry(folder)), flags=re.M)
entry_points = set(re.findall(r"\bcu[A-Z]\w+", Path(symbols).read_text(encoding="utf-8")))


def problems_of(changed):
    return driver_calls.problems_of(changed, functions, entry_points)


# What is wrong: what replaces what in the file, and a part of the problem that must be found.
WRONG = [
    ("an entry is missing", r"^ferry_event_query: .*\n", "", "lacks ferry_event_query"),
    ("an entry has no calls", r"^(ferry_event_query): .*\n", r"\1:\n", "no entry"),
    ("an entry is twice", r"^ferry_event_query: .*\n", r"\g<0>\g<0>", "second"),
    ("a function does not exist", r"^(ferry_version: .*\n)", r"\1ferry_gone: none.\n", "has ferry_gone"),
    ("two entries are out of order", r"^(ferry_event_synchronize: .*\n)(ferry_event_query: .*\n)", r"\2\1", "order"),
    ("a driver function does not exist", r"\bcuEventQuery\b", "cuEventQuerry", "cuEventQuerry"),
    ("a reference leads nowhere", r"\bas ferry_copy\b", "as ferry_coppy", "ferry_coppy"),
    ("nothing is stated", r"^(ferry_event_query): .*\n", r"\1: some calls.\n", "neither"),
]
problems = problems_of(text)
for what, pattern, replacement, problem in WRONG:
    changed, count = re.subn(pattern, replacement, text, count=1, flags=re.M)
    found = problems_of(changed)
    if count == 0 or not any(problem in one for one in found):
        problems.append(f"{what}, and the check finds {found or 'nothing'}")
print(*problems, f"{len(functions)} functions, {len(problems)} problems", sep="\n")
sys.exit(1 if problems or not functions else 0)
