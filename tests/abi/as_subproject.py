#!/usr/bin/env python3
"""Builds and runs a Meson project that has ferry as a subproject, shared and then static.

as_subproject.py MESON FERRY_SOURCE CONSUMER CXX
"""
import os
import shutil
import sys
import tempfile
from pathlib import Path

from staged import check_linkage, run

meson, source, consumer, os.environ["CXX"] = sys.argv[1:]

with tempfile.TemporaryDirectory() as folder:
    project, build = Path(folder, "consumer"), Path(folder, "build")
    shutil.copytree(consumer, project)
    (project / "subprojects").mkdir()
    (project / "subprojects" / "ferry").symlink_to(source)
    run(meson, "setup", str(build), str(project), "-Dferry:optimization=0")  # compiles in half the time
    for library in "shared", "static":
        run(meson, "configure", str(build), f"-Dferry:default_library={library}")
        run(meson, "compile", "-C", str(build))
        run(str(build / "consumer"))
        check_linkage(build / "consumer", library)
    for beside in "tests", "tools", "examples":
        if Path(build, "subprojects", "ferry", beside).exists():
            sys.exit(f"as a subproject ferry builds only the library, but {beside} was built")
