#!/usr/bin/env python3
"""The form of the C headers: the first copy is near the top of ferry.h, each header names its subject, comments state
only what differs from the defaults, and every function that returns a status can report its details. ferry.hpp has an
enumerator for each flag.

header_form.py FOLDER_OF_HEADERS DOXYGEN_FILTER

The filter must refuse a comment that repeats a default, has an unknown label, has its labels out of order or has a label
Blocking without a class.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LAST_LINE_OF_FIRST_COPY = 250
folder, filter_program = sys.argv[1:]
sys.path.insert(0, str(Path(filter_program).parent))
import c_headers  # noqa: E402

text = (Path(folder) / "ferry.h").read_text()
headers = c_headers.all_headers(folder)
all_text = c_headers.text_of(c_headers.headers_of_ferry(folder))
problems = []


def says(changed):
    """What the filter says about a header; empty if it accepts the header."""
    with tempfile.NamedTemporaryFile("w", suffix=".h") as file:
        file.write(changed)
        file.flush()
        run = subprocess.run([sys.executable, filter_program, file.name], capture_output=True, text=True, check=False)
    return run.stderr if run.returncode else ""


line = text.count("\n", 0, text.index("FERRY_API int32_t ferry_copy(")) + 1
if line >= LAST_LINE_OF_FIRST_COPY:
    problems.append(f"ferry_copy is declared in line {line}, not before line {LAST_LINE_OF_FIRST_COPY}")
for header in headers:
    if complaint := says(header.read_text()):
        problems.append(f"the filter refuses {header.name}: {complaint}")
    if not re.match(r"/\*\n \* [A-Z][^.]*\.|/\*\n \* ferry: [^.]*\.", header.read_text()):
        problems.append(f"{header.name} does not begin with a sentence that says what it is for")
if c_headers.INCLUDE.search(text):
    problems.append("ferry.h includes another header of ferry")
for label, complaint in [("Blocking:      none.", "repeats its default"),
                         ("Blocking:      never, except for errors.", "begins with no class"),
                         ("Thread-safety: safe.", "repeats its default"),
                         ("Driver:        none.", "unknown label"),
                         ("Locking:       none.", "unknown label")]:
    changed = text.replace(" * Errors:        none.\n", f" * {label}\n", 1)
    if changed == text or complaint not in says(changed):
        problems.append(f"the filter accepts '{label}'")
swapped = re.sub(r"( \* Blocking:  .*\n)( \* Errors:  .*\n)", r"\2\1", text, count=1)
if swapped == text or "in the order" not in says(swapped):
    problems.append("the filter accepts labels out of order")
# Flags are unsigned. Other constants with these prefixes are not.
flags = re.findall(r"^#define (FERRY_(?:COPY|HOST|REGISTER|ARRAY|STREAM|EVENT)_\w+) (?:0x)?[0-9a-f]+u\b", all_text, re.M)
enumerators = re.findall(r"\w = (FERRY_\w+)", (Path(folder) / "ferry.hpp").read_text())
if not flags:
    problems.append("no flags are found")
problems += [f"ferry.hpp has no enumerator for {flag}" for flag in flags if flag not in enumerators]
# Every function that returns a status has a ferry_error_info as its last parameter, and no other function has one.
functions = re.findall(r"^FERRY_API ([^;()]*?)(ferry_\w+)\(([^;]*)\);", all_text, re.M)
if len(functions) != all_text.count("\nFERRY_API "):
    problems.append("not every function is understood")
for returns, name, parameters in functions:
    *others, last = parameters.split(",")
    takes_error = last.split() == ["ferry_error_info", "*error"]
    if takes_error != (returns.strip() == "int32_t" and name != "ferry_version"):
        problems.append(f"{name} {'has a' if takes_error else 'lacks the'} ferry_error_info as its last parameter")
    if any(re.search(r"(?<!const )ferry_error_info \*", one) for one in others):
        problems.append(f"the ferry_error_info of {name} is not its last parameter")
print(f"ferry_copy is declared in line {line}", *problems, sep="\n")
sys.exit(1 if problems else 0)
