"""How the tests, and the programs that they start, open ferry. FERRY_TEST_PROFILE is a file with the profile of a GPU for
the software driver, so that copies take the routes that they take on a GPU."""
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ferry


def open_instance(software: bool, **options: Any) -> ferry.Instance:
    opened = ferry.open(software=software, **options)
    profile = os.environ.get("FERRY_TEST_PROFILE")
    if profile and software:
        opened.load_profile(Path(profile).read_text())
    return opened


def run_program(text: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Runs a program that can import this module."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", text, *map(str, arguments)], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "PYTHONPATH": path})
