#!/usr/bin/env python3
"""Checks that the DLL exports the functions of the version script and needs only what Windows 10 has.

library.py OBJDUMP DLL VERSION_SCRIPT
"""
import re
import subprocess
import sys
from pathlib import Path

objdump, library, version_script = sys.argv[1:]
# The system's own C library, and the calls that wait for an address and wake its waiters.
PARTS_OF_WINDOWS = {"KERNEL32.dll", "msvcrt.dll", "api-ms-win-core-synch-l1-2-0.dll"}

headers = subprocess.run([objdump, "-p", library], check=True, capture_output=True, text=True).stdout
needed = set(re.findall(r"DLL Name: (\S+)", headers))
table = headers[headers.index("[Ordinal/Name Pointer] Table"):]
exported = set(re.findall(r"^\s*\[\s*\d+\](?: \+base\[\s*\d+\]\s+\w+)? (\w+)$", table, flags=re.M))
wanted = set(re.findall(r"^\s*(ferry_\w+);", Path(version_script).read_text(), flags=re.M))

problems = [f"needs {name}" for name in sorted(needed - PARTS_OF_WINDOWS)]
problems += [f"lacks {name}" for name in sorted(wanted - exported)]
problems += [f"exports {name}" for name in sorted(exported - wanted)]
if not needed or not wanted:
    problems.append("nothing was read")
print(f"exports {len(exported)} functions, needs {', '.join(sorted(needed))}")
print(*problems, sep="\n")
sys.exit(1 if problems else 0)
