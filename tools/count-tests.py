#!/usr/bin/env python3
"""Counts the results of the last `meson test` in a build folder. GoogleTest cases count one by one.

count-tests.py BUILD_FOLDER
"""
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

logs = Path(sys.argv[1], "meson-logs")
passed = failed = skipped = 0
if not (logs / "testlog.junit.xml").exists():
    sys.exit("no test results: the tests did not run")

# GoogleTest suites are named project.test.suite. The test part has Meson's suites before it or not, depending on
# Meson's version. Anything else has one result, which comes from the other log.
suites = ElementTree.parse(logs / "testlog.junit.xml").getroot().findall("testsuite")

for line in (logs / "testlog.json").read_text().splitlines():
    test = json.loads(line)
    names = tuple(f"ferry.{name}." for name in (test["name"], test["name"].split(" / ")[-1]))
    cases = [case for suite in suites if suite.get("name").startswith(names) for case in suite.findall("testcase")]
    failures = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skips = sum(case.find("skipped") is not None for case in cases)
    is_as_wanted = test["result"] in ("OK", "EXPECTEDFAIL")
    if test["result"] == "SKIP":
        skipped += 1
    elif not cases:
        passed += is_as_wanted
        failed += not is_as_wanted
    else:
        # A program may fail outside its cases, for instance by a leak at exit.
        failed += max(failures, not is_as_wanted)
        skipped += skips
        passed += len(cases) - failures - skips

print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed else 0)
