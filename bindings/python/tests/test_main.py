"""python -m ferry: what the command says and starts. FERRY_RUN_FOLDER has ferry-run and libferry-run.so, and
FERRY_LIBCUDA_FOLDER the software driver as libcuda.so.1; without them those tests are skipped."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ferry

PACKAGE = Path(ferry.__file__).parent
# Knows nothing of ferry: the driver's own calls.
PROGRAM = """
from ctypes import CDLL, byref, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer
driver = CDLL("libcuda.so.1")
device, context, memory, size = c_int(), c_void_p(), c_uint64(), c_size_t(8 << 20)
sent, received = create_string_buffer(bytes(range(256)) * (size.value >> 8), size.value), create_string_buffer(size.value)
assert driver.cuInit(0) == 0 and driver.cuDeviceGet(byref(device), 0) == 0
assert driver.cuDevicePrimaryCtxRetain(byref(context), device) == 0 and driver.cuCtxSetCurrent(context) == 0
assert driver.cuMemAlloc_v2(byref(memory), size) == 0
assert driver.cuMemcpyHtoD_v2(memory, sent, size) == 0 and driver.cuMemcpyDtoH_v2(received, memory, size) == 0
assert sent.raw == received.raw
print("copied")
"""


def python_m_ferry(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "ferry", *map(str, arguments)], env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=120)


def test_info_names_the_driver_and_each_device():
    done = python_m_ferry("info", "--software")
    assert done.returncode == 0 and "the software driver" in done.stdout and "device 0: " in done.stdout, done


def test_a_library_that_is_missing_is_one_line():
    done = python_m_ferry("info", FERRY_LIBRARY="/nowhere/libferry.so.0.7")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    assert "/nowhere/libferry.so.0.7 cannot be loaded" in done.stderr and "Install a wheel" in done.stderr, done


def test_a_ferry_run_that_is_missing_is_one_line_and_says_what_to_install():
    done = python_m_ferry("run", "--", "true", PATH="")
    assert done.returncode == 127 and len(done.stderr.splitlines()) == 1, done
    assert "install a wheel" in done.stderr and "ferry-tools" in done.stderr, done


@pytest.fixture
def package_with_run(tmp_path):
    """The folder of a package that has ferry-run inside, as a wheel installs it."""
    tools = os.environ.get("FERRY_RUN_FOLDER")
    if not tools:
        pytest.skip("no FERRY_RUN_FOLDER")
    shutil.copytree(PACKAGE, tmp_path / "ferry", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "ferry/bin").mkdir(exist_ok=True)
    for name in "ferry-run", "libferry-run.so":
        shutil.copy(Path(tools, name), tmp_path / "ferry/bin")
    return str(tmp_path)


def test_run_takes_the_ferry_run_of_the_package(package_with_run):
    done = python_m_ferry("run", "--version", PYTHONPATH=package_with_run, PATH="")
    assert (done.returncode, done.stdout.strip()) == (0, ferry.__version__), done


def test_run_puts_ferry_beneath_the_copies_of_a_program(package_with_run, tmp_path, on_gpu):
    libcuda = os.environ.get("FERRY_LIBCUDA_FOLDER")
    if not libcuda and not on_gpu:
        pytest.skip("no FERRY_LIBCUDA_FOLDER")
    found = {} if on_gpu else {"LD_LIBRARY_PATH": libcuda}
    (tmp_path / "prog.py").write_text(PROGRAM)
    done = python_m_ferry("run", "--all", "--report", tmp_path / "report.json", "--", sys.executable, tmp_path / "prog.py",
                          PYTHONPATH=package_with_run, **found)
    assert (done.returncode, done.stdout) == (0, "copied\n"), done
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["mode"] == "serve" and report["served"]["calls"] == 2, report
