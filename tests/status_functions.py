#!/usr/bin/env python3
"""Lists the functions of ferry that return a status, as FERRY_STATUS_FUNCTION(name), for a test that calls them all.

status_functions.py DESCRIPTION LIST
"""
import json
import sys
from pathlib import Path

description, written = map(Path, sys.argv[1:])
functions = json.loads(description.read_text())["functions"]
Path(written).write_text("".join(f"FERRY_STATUS_FUNCTION({one['name']})\n" for one in functions if one["returns_status"]))
