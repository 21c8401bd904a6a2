#!/usr/bin/env python3
"""Lists the functions of ferry with their classes, as FERRY_BLOCKING_CLASS(name, class), for a test of the classes.

blocking_classes.py DESCRIPTION LIST
"""
import json
import sys
from pathlib import Path

description, written = map(Path, sys.argv[1:])
functions = json.loads(description.read_text())["functions"]
Path(written).write_text("".join(f"FERRY_BLOCKING_CLASS({one['name']}, {one['blocking']})\n" for one in functions))
