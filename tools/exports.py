#!/usr/bin/env python3
"""Writes the functions of a version script as a module definition for Windows. exports.py MAP DEF"""
import re
import sys
from pathlib import Path

version_script, definition = map(Path, sys.argv[1:])
names = re.findall(r"^\s*(ferry_\w+);", version_script.read_text(), flags=re.M)
definition.write_text("EXPORTS\n" + "".join(f"    {name}\n" for name in names))
