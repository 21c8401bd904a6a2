#!/usr/bin/env python3
"""Generates the reference of the public headers with Doxygen and checks that it is complete: reference.py OUTPUT_FOLDER

It is whole if Doxygen reports no problem and every function of the C interface has its sections. The filter fills
in the sections that the headers leave to the defaults in the Conventions of ferry.h. It runs first by itself, because
Doxygen ignores a filter's failure.
"""
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import c_headers
from labels import LABELS

root = Path(__file__).resolve().parent.parent
output = Path(sys.argv[1]).resolve()

if any([subprocess.run([sys.executable, "docs/doxygen-filter.py", header], stdout=subprocess.DEVNULL, cwd=root,
                       check=False).returncode for header in sorted((root / "include" / "ferry").glob("*.h*"))]):
    sys.exit("the header's comments break its conventions")
if not shutil.which("doxygen"):
    print("skipped: doxygen is not installed")
    sys.exit(77)
output.mkdir(parents=True, exist_ok=True)
settings = (root / "docs" / "Doxyfile").read_text() + f"OUTPUT_DIRECTORY = {output}\n"
if subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=root, check=False).returncode:
    sys.exit("Doxygen printed warnings")

found = {}
for page in (output / "xml").glob("*_8h.xml"):
    for member in ElementTree.parse(page).iter("memberdef"):
        titles = member.iterfind("./detaileddescription//simplesect/title")
        found[member.findtext("name")] = [title.text for title in titles]


def declared_in(headers):
    return re.findall(r"^FERRY_API\b[^(]*?(\w+)\(", c_headers.text_of(headers), flags=re.M)


declared = declared_in(c_headers.all_headers())
problems = [f"{name}: the reference has the sections {found.get(name)}"
            for name in declared if found.get(name) != LABELS]
linked = set(re.findall(r">(ferry_\w+)</a>", (output / "html" / "driver-calls.html").read_text()))
problems += [f"{name}: the page of driver calls has no link to it" for name in declared_in(c_headers.headers_of_ferry()) if name not in linked]
print(*problems, f"{len(declared)} functions in {output}/html/index.html, {len(problems)} problems", sep="\n")
sys.exit(1 if problems or not declared else 0)
