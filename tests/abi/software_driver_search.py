#!/usr/bin/env python3
"""Opens ferry on the software driver where its library is beside libferry, elsewhere, missing, or unusable.

software_driver_search.py LIBFERRY LIBFERRY_SOFTWARE CC...
"""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from ctypes import byref, c_char_p, c_int32, c_uint32, c_void_p, sizeof
from pathlib import Path

DRIVER_CUDA, DRIVER_AUTO, DRIVER_SOFTWARE = 0, 1, 2
NO_SOFTWARE_DRIVER, SOFTWARE_BUILD = "FERRY_ERROR_NO_SOFTWARE_DRIVER", "FERRY_ERROR_SOFTWARE_BUILD"

# A software driver of another build.
OTHER_BUILD = r"""
#include <string.h>
int ferry_software_open(const void *options, void *error) { return 0; }
void ferry_software_close(void) {}
void *ferry_software_get_proc(void *user, const char *name, int version) {
    return strcmp(name, "ferrySoftwareDriver") == 0 ? "0123456789abcdef" : 0;
}
"""


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("driver", c_int32), ("checks", c_int32), ("kernels", c_int32),
                ("driver_options", c_void_p), ("get_proc", c_void_p)]


def open_once(ferry_file, driver, load_first="", hand_over=""):
    """Runs in a process of its own. Prints the status, its text, and each copy of the software driver that is loaded."""
    first = [ctypes.CDLL(file) for file in (load_first, hand_over) if file]
    ferry = ctypes.CDLL(ferry_file)
    ferry.ferry_status_name.restype = ferry.ferry_status_text.restype = c_char_p
    options = Options(struct_size=sizeof(Options), driver=int(driver))
    if hand_over:
        assert first[-1].ferry_software_open(None, None) == 0
        options.get_proc = ctypes.cast(first[-1].ferry_software_get_proc, c_void_p).value
    instance = c_void_p()
    status = ferry.ferry_open(byref(options), byref(instance), None)
    print(ferry.ferry_status_name(status).decode())
    print(ferry.ferry_status_text(status).decode())
    print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if "libferry-software" in line}), sep="\n")
    ferry.ferry_close(instance)


if sys.argv[1] == "--open":
    open_once(*sys.argv[2:])
    sys.exit(0)

libferry, software, *compiler = sys.argv[1:]
failures = 0


def check(name, right, said):
    global failures
    failures += not right
    print(f"{'ok' if right else 'FAILED'}: {name}: {said}")


def outcome(ferry_file, driver=DRIVER_SOFTWARE, load_first="", hand_over="", search=""):
    run = subprocess.run([sys.executable, __file__, "--open", str(ferry_file), str(driver), str(load_first), str(hand_over)],
                         env={**os.environ, "LD_LIBRARY_PATH": str(search)}, capture_output=True, text=True, check=False)
    if run.returncode:
        return f"ended with {run.returncode}: {run.stderr}", "", []
    name, text, *copies = run.stdout.strip().split("\n")
    return name, text, copies


with tempfile.TemporaryDirectory() as temporary:
    folders = {name: Path(temporary, name) for name in ("both", "alone", "software", "other", "empty", "damaged")}
    for folder in folders.values():
        folder.mkdir()
    soname = re.search(r"\(SONAME\).*\[(.*)\]",
                       subprocess.run(["readelf", "-d", software], check=True, capture_output=True, text=True).stdout)[1]
    ferry = {}
    for name in ("both", "alone", "damaged"):
        ferry[name] = folders[name] / "libferry.so"
        shutil.copy(libferry, ferry[name])
    beside, elsewhere = folders["both"] / soname, folders["software"] / soname
    shutil.copy(software, beside)
    shutil.copy(software, elsewhere)
    (folders["damaged"] / soname).write_text("This is not a library.\n")
    source = Path(temporary, "other.c")
    source.write_text(OTHER_BUILD)
    other = folders["other"] / soname
    subprocess.run([*compiler, "-shared", "-fPIC", f"-Wl,-soname,{soname}", str(source), "-o", str(other)], check=True)

    def opens(name, file, **how):
        said = outcome(ferry["both"], **how)
        check(name, said[0] == "FERRY_SUCCESS" and said[2] == [str(file)], said)

    opens("beside libferry", beside)
    opens("beside libferry before the loader's places", beside, search=folders["other"])
    opens("already loaded before the one beside libferry", elsewhere, load_first=elsewhere)
    opens("handed over by the program", elsewhere, hand_over=elsewhere, driver=DRIVER_CUDA)

    said = outcome(ferry["alone"], search=folders["software"])
    check("where the loader looks", said[0] == "FERRY_SUCCESS" and said[2] == [str(elsewhere)], said)
    for driver in DRIVER_SOFTWARE, DRIVER_AUTO:
        for name in "alone", "damaged":
            # With AUTO, the loader may not find an NVIDIA driver.
            if driver == DRIVER_AUTO and outcome(ferry["both"], DRIVER_CUDA)[0] == "FERRY_SUCCESS":
                continue
            said = outcome(ferry[name], driver)
            named = "libferry-software " in said[1] and soname.replace(".so.", "") in said[1]  # the Debian package
            check(f"{name}, driver {driver}", said[0] == NO_SOFTWARE_DRIVER and named, said)
    said = outcome(ferry["alone"], search=folders["other"])
    check("of another build", said[0] == SOFTWARE_BUILD and "another build" in said[1], said)
    said = outcome(ferry["alone"], DRIVER_CUDA, hand_over=other)
    check("of another build, handed over", said[0] == SOFTWARE_BUILD, said)
sys.exit(1 if failures else 0)
