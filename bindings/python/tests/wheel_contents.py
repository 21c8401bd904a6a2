#!/usr/bin/env python3
"""Checks what is inside a wheel: wheel_contents.py WHEEL."""
import re
import sys
import zipfile
from pathlib import Path

file = Path(sys.argv[1])
wheel = zipfile.ZipFile(file)
names = {name for name in wheel.namelist() if not name.endswith("/")}
source = Path(__file__).resolve().parent.parent
version = re.search(r"^ *version: '(.*)',$", (source.parent.parent / "meson.build").read_text(), re.M).group(1)
infos = f"libferry-{version}.dist-info/"
expected = {f"ferry/{path.name}" for path in (source / "src/ferry").glob("*.py")}
expected |= {"ferry/native.py", "ferry/py.typed", "ferry/lib/libferry.so.0.7", "ferry/lib/libferry-software.so.0.7"}
expected |= {infos + name for name in ("METADATA", "RECORD", "WHEEL", "top_level.txt", "licenses/LICENSE",
                                       "licenses/LICENSE.third-party")}
tools = {"ferry/bin/ferry-run", "ferry/bin/libferry-run.so"}
problems = [f"unexpected: {name}" for name in sorted(names - expected - tools)]
problems += [f"missing: {name}" for name in sorted(expected - names)]
if names & tools:
    problems += [f"missing: {name}" for name in sorted(tools - names)]
    if not wheel.getinfo("ferry/bin/ferry-run").external_attr >> 16 & 0o111:
        problems.append("ferry/bin/ferry-run is not executable")

tag = "-".join(file.stem.split("-")[2:])
for needed in "Root-Is-Purelib: false", f"Tag: {tag}":
    if needed not in wheel.read(infos + "WHEEL").decode().splitlines():
        problems.append(f"WHEEL lacks {needed}")
metadata = wheel.read(infos + "METADATA").decode()
for needed in (f"Version: {version}", "License-Expression: MIT AND BSD-3-Clause", "License-File: LICENSE",
               "Requires-Python: >=3.9", "Description-Content-Type: text/markdown"):
    if needed not in metadata.splitlines():
        problems.append(f"METADATA lacks {needed}")
# Such links lead nowhere outside of the repository.
problems += [f"METADATA links to {link}" for link in re.findall(r"\]\((\.\./.*?)\)", metadata)]
print(*problems, sep="\n", end="\n" * bool(problems))
sys.exit(1 if problems else 0)
