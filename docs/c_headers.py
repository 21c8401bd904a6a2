"""Reads the C headers of ferry. ferry_all.h lists them."""
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "include" / "ferry"
OF_THE_SOFTWARE_DRIVER = "ferry_software.h"  # its functions belong to another library
INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', flags=re.M)


def all_headers(folder=FOLDER):
    """The headers that ferry_all.h includes, in the order in which a compiler reads them."""
    found = []

    def add(name):
        for included in INCLUDE.findall((Path(folder) / name).read_text(encoding="utf-8")):
            if Path(folder) / included not in found:
                add(included)
        found.append(Path(folder) / name)

    add("ferry_all.h")
    return found[:-1]


def headers_of_ferry(folder=FOLDER):
    """The headers whose functions are in libferry."""
    return [header for header in all_headers(folder) if header.name != OF_THE_SOFTWARE_DRIVER]


def text_of(headers):
    """The headers as one text that can be compiled: without the lines by which they include each other."""
    return "".join(INCLUDE.sub("", header.read_text(encoding="utf-8")) for header in headers)
