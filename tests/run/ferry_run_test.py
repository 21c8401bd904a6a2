#!/usr/bin/env python3
"""Runs programs with and without ferry-run, on the driver that LD_LIBRARY_PATH leads to. They must do the same.
FERRY_TEST_DRIVER=cuda: on the system's driver instead, wherever Meson and the programs' own paths lead.

ferry_run_test.py FERRY_RUN TRAPS EVERY_CALL LOOKUPS PLUGIN OWN_PRELOAD OWN_LOOKUPS LINKED OLD_DRIVER
    STATIC_PROGRAM [OTHER_PROGRAM ...]

The other programs must succeed. Exits with 77 (skipped) where there is no driver.
"""
import ctypes
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from lookup_lines import beneath_ferry_run

# The loader reads LD_LIBRARY_PATH once, so the script begins again with the folder of the system's driver in front.
if os.environ.get("FERRY_TEST_DRIVER") == "cuda" and "FERRY_TEST_BEGUN" not in os.environ:
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libcuda\.so\.1 .*x86-64.*=> (/\S+)|libcuda\.so\.1 .*=> (/\S+)", known)
    if not found:
        print("skipped: the system has no driver")
        sys.exit(77)
    folder = os.path.dirname(found[1] or found[2])
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_LIBRARY_PATH": folder, "FERRY_TEST_BEGUN": "1"})

(ferry_run, traps, every_call, lookups, plugin, own_preload, own_lookups, linked, old_driver, static_program,
 *others) = map(os.path.abspath, sys.argv[1:])
try:
    driver = ctypes.CDLL("libcuda.so.1")
    version = ctypes.c_int()
    has_driver = driver.cuInit(0) == 0
except OSError:
    has_driver = False
if not has_driver:
    print("skipped: no driver with a device")
    sys.exit(77)
is_software = hasattr(driver, "cuMemAlloc_v2") and not hasattr(driver, "cuDevicePrimaryCtxReset_v2")
assert not (is_software and os.environ.get("FERRY_TEST_DRIVER") == "cuda"), "this is not the system's driver"

checks = 0


def check(condition, *told):
    global checks
    checks += 1
    assert condition, told


# ferry-run checks whether the host is crowded. The result must not depend on what else runs on the host.
load_folder = tempfile.TemporaryDirectory()


def write_loadavg(running):
    file = Path(load_folder.name) / running.replace("/", "-")
    file.write_text(f"0.50 0.50 0.50 {running} 4711\n")
    return file


alone = write_loadavg("1/100")


def run(*command, **environment):
    environment = {**os.environ, "FERRY_RUN_LOADAVG": alone, **environment}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


def report_of(*command, options=(), **environment):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        done = run(ferry_run, "--quiet", "--report", file, *options, "--", *command, **environment)
        return done, json.loads(file.read_text()), sorted(path.name for path in Path(folder).iterdir())


# ---- Programs behave as without

OPTIONS = ([], ["--all"], ["--report-only"])
# These change less, so fewer programs show it.
OTHER_OPTIONS = (["--report-only", "--all"], ["--pinned", "driver"], ["--counts-only"])
may_make_no_copies = ("reset", "between-devices", "green-context")
names = run(traps).stdout.split()
check("result-without-waiting" in names and len(names) > 10, names)
served_by_default, served_of_all, reports = 0, {}, {}
for name in names:
    plain = run(traps, name)
    check(plain.returncode == 0 and "0 failures" in plain.stdout, name, plain)
    for options in OPTIONS + OTHER_OPTIONS * (name in ("result-without-waiting", "pinned-memory", "errors", "batches")):
        done, report, _ = report_of(traps, name, options=options)
        reports[(name, *options)] = report
        check((done.returncode, done.stdout) == (0, plain.stdout), name, options, done, plain.stdout)
        check(report["copies"]["calls"] > 0 or name in may_make_no_copies, name, report)
        check(report["mode"] == ("report-only" if "--report-only" in options else "serve"), report)
        check("--report-only" not in options or report["served"]["calls"] == 0, name, report)
        if options == []:
            served_by_default += report["served"]["calls"]
        if options == ["--all"]:
            served_of_all[name] = report["served"]["calls"]


def trap_report(name, *options):
    if (name, *options) in reports: return reports[(name, *options)]
    return report_of(traps, name, options=options)[1]


check(served_by_default >= 20, served_by_default)
check(all(served_of_all[name] for name in names if name not in (*may_make_no_copies, "errors")), served_of_all)
report = trap_report("result-without-waiting", "--report-only")
check(report["would_serve"]["calls"] == 4, report)
check((report["would_serve"]["predicted_saving_ns"] > 0) != is_software, report)
check(report["driver"] == ("software" if is_software else "NVIDIA"), report)
check("run-traps" in {one["module"] for one in report["slow_callers"]}, report["slow_callers"])
# Allocations are reported as allocations that ferry would serve, unless the options leave them to the driver. They are
# not copies.
for options, expected in ((["--report-only"], "ferry would serve it"),
                          (["--report-only", "--pinned", "driver"], "the driver is as fast")):
    report = trap_report("pinned-memory", *options)
    allocations = [one for one in report["calls"] if one["kind"] == "pinned allocations"]
    check(expected in {one["outcome"] for one in allocations}, options, allocations)
    copies = [one["calls"] for one in report["calls"] if one not in allocations and "would" in one["outcome"]]
    check(report["would_serve"]["calls"] == sum(copies), options, report)
# Fills of narrow rows are ferry's only where a kernel is predicted to be faster.
for options, expected in (([], "filled"), (["--report-only"], "ferry would use a kernel"), (["--all"], "filled")):
    report = trap_report("narrow-rows", *options)
    found = {one["outcome"] for one in report["calls"] if one["kind"] == "fills"}
    check(("the driver is as fast" if is_software and options != ["--all"] else expected) in found, options, report)
report = trap_report("graph-capture", "--all")
check(any("captured" in one["outcome"] for one in report["calls"]), report)
report = trap_report("free-in-another-thread")
check(any(one["outcome"] == "allocated" for one in report["calls"]), report)
# Without --async this program would wait for ever.
check(run(ferry_run, "--async", "--quiet", "--", traps, "copy-behind-work-that-waits").returncode == 0)
# A forked child does not have private pinned memory.
for name in ("free-in-another-thread", "result-without-waiting"):
    check(run(ferry_run, "--pinned", "private", "--quiet", "--", traps, name).returncode == 0, name)

# By default, all devices have links. With 2 there are none, and with 4 they lose data.
for options in ([], ["--all"]):
    found = [trap_report("between-devices", *options)]
    for links in "24":
        done, report, _ = report_of(traps, "between-devices", options=options, FERRY_SOFTWARE_LINKS=links)
        check(done.returncode == 0, links, options, done)
        found.append(report)
    for report in found:
        check(not is_software or "between devices" in {one["kind"] for one in report["calls"]}, options, report)

# On a GPU, programs of the CUDA runtime; else the software libcuda's own tests
for program in others:
    plain = run(program)
    check(plain.returncode == 0, program, plain)
    for options in OPTIONS + OTHER_OPTIONS:
        done, report, _ = report_of(program, options=options)
        check(done.returncode == 0, program, options, done)
        if not is_software:
            check(done.stdout == plain.stdout, program, options, done, plain.stdout)
            least = {"": 14, "--all": 30}.get("".join(options), 0)
            check(report["served"]["calls"] >= least, program, options, report)

# Every copy and fill that is replaced is called by its symbol, and moves the bytes that it should.
entry_points = (Path(__file__).parents[2] / "tools/run/preload/entry_points.inc").read_text()
variants = re.findall(r"FERRY_RUN_STREAM_ENTRY\((cuMem(?:cpy|set)\w*), (_\w+),", entry_points)
replaced_calls = {symbol + suffix for symbol, variant in variants for suffix in ("", variant)}
plain = run(every_call)
check(plain.returncode == 0 and {line.split()[0] for line in plain.stdout.splitlines()[:-1]} == replaced_calls, plain)
for options in OPTIONS + OTHER_OPTIONS:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        done = run(ferry_run, "--quiet", "--trace", trace, *options, "--", every_call)
        events = [one for one in json.loads(trace.read_text()) if one["ph"] == "X"]
    check((done.returncode, done.stdout) == (0, plain.stdout), options, done)
    check({one["args"]["function"] for one in events} >= replaced_calls, options, events)
    left = {one["args"]["function"] for one in events if one["cat"] != "ferry"}
    check(not is_software or options != ["--all"] or not left & replaced_calls, options, left)

# A byte that is changed on the way is noticed.
for name in ("result-without-waiting", "source-rewritten", "per-thread-streams", "narrow-rows", "batches"):
    check(run(ferry_run, "--all", "--quiet", "--", traps, name, FERRY_RUN_FLIP="1").returncode != 0, name)

# ---- Each way to the driver's functions

plain, beneath = run(lookups, plugin, linked), run(ferry_run, "--quiet", "--", lookups, plugin, linked)
check(plain.returncode == beneath.returncode == 0, plain, beneath)
check(beneath.stdout.splitlines() == beneath_ferry_run(plain.stdout), plain, beneath)
check("libferry-run.so" in beneath.stdout and "plugin 0" in beneath.stdout, beneath.stdout)
check("linked to the driver cuMemcpyHtoD_v2: libferry-run.so" in beneath.stdout, beneath.stdout)
off = run(ferry_run, "--quiet", "--", sys.executable, "-c", "import os, subprocess, sys; os.environ['FERRY_RUN'] = 'off';"
          "sys.exit(subprocess.run(sys.argv[1:]).returncode)", lookups, plugin, linked)
check("before the driver cuMemcpyHtoD_v2: nothing" in off.stdout and "plugin 0" in off.stdout, off)

# On a crowded host, copies of 8 MiB are left to the driver, but not copies of 64 MiB.
for running, options, is_served in (("9999/99999", [], False), ("9999/99999", ["--all"], True), ("1/100", [], True)):
    done, report, _ = report_of(traps, "result-without-waiting", options=options,
                                FERRY_RUN_LOADAVG=write_loadavg(running))
    is_left = "the host is crowded" in {one["outcome"] for one in report["calls"]}
    check(done.returncode == 0 and is_left != is_served, running, options, report)
    check(bool(report["served"]["calls"]) == is_served, running, options, report)
_, report, _ = report_of(traps, "exit-with-copies-in-flight", FERRY_RUN_LOADAVG=write_loadavg("9999/99999"))
check(report["served"]["calls"] > 0, report)

# A library that the program preloads itself comes first, and ferry serves behind it.
done, report, _ = report_of(traps, "errors", options=["--all"], LD_PRELOAD=own_preload)
check(done.returncode == 0 and "own preload: 6 copies" in done.stdout, done)
done, report, _ = report_of(traps, "source-rewritten", LD_PRELOAD=own_preload)
check(done.returncode == 0 and report["served"]["calls"] > 0, done, report)

# A preloaded library with a dlsym of its own may find libc's by version. ferry serves behind it too.
plain, beneath = (run(*command, lookups, LD_PRELOAD=own_lookups) for command in ([], [ferry_run, "--quiet", "--"]))
for done, library in ((plain, "libcuda.so.1"), (beneath, "libferry-run.so")):
    lines = done.stdout.splitlines()
    check(done.returncode == 0 and "own dlsym: called" in lines, done)
    check(f"dlsym cuMemcpyHtoD_v2: {library}" in lines and "dlsym cuMemAlloc_v2: libcuda.so.1" in lines, done)

# ---- Reports

done = run(ferry_run, "--", traps, "result-without-waiting")
for words in ("ferry-run: run-traps", "served by ferry", "below 16 MiB", "device to pageable: staged",
              "pageable to device: staged"):
    check(words in done.stderr, words, done.stderr)
check(done.stdout == "0 failures\n", done)
check(("on ferry's software driver" in done.stderr) == is_software, done)
check(("predicted to have saved" in done.stderr) != is_software, done)
parent = "import os, subprocess, sys\nfor name in sys.argv[2:]: subprocess.run([sys.argv[1], name], check=True)\nsys.exit(3)"
done, report, files = report_of(sys.executable, "-c", parent, traps, "result-without-waiting", "narrow-rows")
check(done.returncode == 3 and report["program"] != "run-traps" and len(files) == 3, done, report, files)
parent = parent.replace("\n", "\nos.environ['FERRY_RUN'] = 'off'\n", 1).replace("exit(3)", "exit(0)")
done, report, files = report_of(sys.executable, "-c", parent, traps, "result-without-waiting")
check(done.returncode == 0 and files == ["report.json"] and report["copies"]["calls"] == 0, done, report, files)
done, report, files = report_of(traps, "fork")
check(files == ["report.json"], "the child made no copy", files)
done = run(ferry_run, "--quiet", "--report", "/no/such/folder/report.json", "--", traps, "narrow-rows")
check(done.returncode == 0 and "cannot write the report to /no/such/folder/report.json" in done.stderr, done)
# A trace has one event for each call in the report, and two for each of ferry's copies on a stream.
for name in ("result-without-waiting", "narrow-rows", "per-thread-streams", "graph-capture", "batches"):
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        done, report, _ = report_of(traps, name, options=["--all", "--trace", trace])
        events = json.loads(trace.read_text())
        check(done.returncode == 0 and os.listdir(folder) == ["trace.json"], name, done)
    calls = [one for one in events if one["ph"] == "X"]
    check(len(calls) == sum(one["calls"] for one in report["calls"]), name, len(calls), report)
    check({one["name"] for one in calls} == {f"{one['kind']}: {one['outcome']}" for one in report["calls"]}, name, calls)
    check(sum(one["args"]["bytes"] for one in calls) == sum(one["bytes"] for one in report["calls"]), name)
    check(all(one["dur"] > 0 and one["ts"] > 0 and one["args"]["function"].startswith("cu") for one in calls), calls)
    of_boxes = [one["args"]["bytes"] for one in calls if one["args"]["function"].startswith("cuMemcpy3DBatchAsync")]
    check(of_boxes == ([500 * 16 * 8, 64 * 64 * 16] if name == "batches" else []), name, of_boxes)
    slow = [one for one in calls if one["dur"] >= 500]
    check(sum(one["calls"] for one in report["slow_callers"]) == len(slow), name, slow, report["slow_callers"])
    begun, ended = ({one["id"]: one["ts"] for one in events if one["ph"] == mark} for mark in "be")
    check(begun.keys() == ended.keys() and all(ended[one] >= begun[one] for one in begun), name, events)
    check(begun or name in ("graph-capture", "narrow-rows", "batches"), name, events)
with tempfile.TemporaryDirectory() as folder:
    child_alone = "import subprocess, sys\nsubprocess.run(sys.argv[1:], check=True)"
    done = run(ferry_run, "--quiet", "--trace", Path(folder) / "trace.json", "--", sys.executable, "-c", child_alone,
               traps, "narrow-rows")
    check(sorted(os.listdir(folder)) != ["trace.json"] and len(os.listdir(folder)) == 1, "the child alone copies",
          os.listdir(folder))
done = run(ferry_run, "--quiet", "--trace", "/no/such/folder/trace.json", "--", traps, "narrow-rows")
check(done.returncode == 0 and done.stderr.count("cannot write the trace to /no/such/folder/trace.json") == 1, done)
check(report_of(traps, "narrow-rows", options=["--counts-only"])[1]["copies"]["time_ns"] == 0)

# A trace continues after the program has closed its descriptor, and never writes into the program's files.
with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder) / "trace.json"
    done, report, _ = report_of(traps, "closed-descriptors", options=["--trace", trace])
    check((done.returncode, done.stdout) == (0, "0 failures\n"), done)
    calls = [one for one in json.loads(trace.read_text()) if one["ph"] == "X"]
    check(len(calls) == sum(one["calls"] for one in report["calls"]), calls, report)

# Files are written whatever the decimal point of the program's locale is.
with tempfile.TemporaryDirectory() as folder:
    source, ascii, trace = (Path(folder) / name for name in ("source", "ascii", "trace.json"))
    # A bare system lacks character maps too.
    ascii.write_text("<code_set_name> ANSI_X3.4-1968\n<comment_char> %\n<escape_char> /\n<mb_cur_min> 1\n<mb_cur_max> 1\n"
                     "CHARMAP\n" + "".join(f"<U{code:04X}> /x{code:02x} one\n" for code in range(128)) + "END CHARMAP\n")
    source.write_text('LC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3;3\nEND LC_NUMERIC\n')
    run("localedef", "-c", "-f", ascii, "-i", source, Path(folder) / "comma")
    locale = {"LOCPATH": folder, "LC_NUMERIC": "comma"}
    if run("/usr/bin/printf", "%.1f", "1,5", **locale).stdout == "1,5":
        done, report, _ = report_of(traps, "source-rewritten", options=["--all", "--trace", trace], **locale)
        check(done.returncode == 0 and json.loads(trace.read_text()), done)
        done = run(ferry_run, "--", traps, "source-rewritten", **locale)
        check(re.search(r" \d+\.\d+ kB ", done.stderr) and not re.search(r"\d,\d", done.stderr), done.stderr)
    else:
        print("the system cannot make a locale with decimal commas")

# ---- Files in places that others can write

# Runs a program in a child, after `prepare` has used the name of its file.
for option in ("--report", "--trace"):
    def run_child(prepare, child_only=True):
        with tempfile.TemporaryDirectory() as folder:
            file, victim = Path(folder) / "out.json", Path(folder) / "victim"
            victim.write_text("precious\n")
            script = f'out="$0"; victim={victim}; {prepare}; exec "$@"'
            child = ["sh", "-c", script.replace("$0", f"{file}.$$"), "sh", traps, "narrow-rows"]
            if child_only:
                done = run(ferry_run, "--quiet", option, file, "--", sys.executable, "-c", child_alone, *child)
            else:
                run("sh", "-c", script, file, "true")
                done = run(ferry_run, "--quiet", option, file, "--", traps, "narrow-rows")
            check((done.returncode, done.stdout) == (0, "0 failures\n" if not child_only else done.stdout), done)
            check(victim.read_text() == "precious\n", option, prepare, done)
            files = [one for one in Path(folder).iterdir() if one.name.startswith("out.json") and not one.is_dir()
                     and (one.name != "out.json") == child_only]
            text = files[0].read_text() if files and files[0].is_file() and not files[0].is_symlink() else ""
            return done.stderr, text

    for child_only in (True, False):
        for prepare in ("true", 'echo old >"$out"'):
            errors, text = run_child(prepare, child_only)
            check(not errors and isinstance(json.loads(text), (dict, list)), option, prepare, errors, text)
        for prepare, reason in (('ln -s "$victim" "$out"', "it is a symbolic link"), ('mkdir "$out"', "Is a directory"),
                                ('ln "$victim" "$out"', "has another hard link")):
            errors, _ = run_child(prepare, child_only)
            check(reason in errors and errors.count("cannot write the") == 1, option, prepare, errors)
        if os.geteuid() == 0:
            errors, text = run_child('echo foreign >"$out"; chown 12345 "$out"', child_only)
            check("belongs to another user" in errors and text == "foreign\n", option, errors, text)
    errors, _ = run_child('mkfifo "$out"')
    check("cannot write the" in errors, option, errors)
    # The name that the user gave may be a pipe or a device.
    done = run(ferry_run, "--quiet", option, "/dev/full", "--", traps, "narrow-rows")
    check(done.returncode == 0 and "/dev/full" in done.stderr and "No space left" in done.stderr, option, done)
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "pipe"
        os.mkfifo(pipe)
        for reads, told in (("cat", ""), ("head -c 1", "Broken pipe")):
            reader = subprocess.Popen(f"{reads} <{pipe}", shell=True, stdout=subprocess.PIPE, text=True)
            done = run(ferry_run, "--quiet", option, pipe, "--", traps, "source-rewritten")
            text = reader.communicate(timeout=60)[0]
            check((done.returncode, done.stdout) == (0, "0 failures\n"), option, done)
            check(reads == "cat" or option == "--report" or told in done.stderr, option, done)
            check(reads != "cat" or json.loads(text) and not done.stderr, option, text, done)

# ---- Small stacks

# A stack that suffices for the driver's calls suffices beneath ferry-run.
for kib in (16, 20, 24, 32):
    plain = run(traps, "small-stack", kib)
    if plain.returncode < 0 or plain.returncode == 77:
        continue
    check(plain.returncode == 0 and "0 failures" in plain.stdout, kib, plain)
    with tempfile.TemporaryDirectory() as folder:
        files = ["--trace", Path(folder) / "trace.json", "--report", Path(folder) / "report.json"]
        for options in (*OPTIONS, ["--all", *files]):
            done = run(ferry_run, *options, "--", traps, "small-stack", kib)
            check((done.returncode, done.stdout) == (0, plain.stdout), kib, options, done)

# ---- Bad input

def expect_line(line, *command, code=0, **environment):
    done = run(ferry_run, *command, **environment)
    check(done.returncode == code and done.stderr.count("\n") == 1 and line in done.stderr, command, done)

expect_line("no such program: no-such-program", "--", "no-such-program", code=127)
expect_line("no such program: /etc/passwd", "--", "/etc/passwd", code=127)
expect_line("runs without ferry: it is linked statically", "--", static_program, code=5)
with tempfile.TemporaryDirectory() as folder:
    # As root, a program of another user; else any program of root's that has the bit
    script = Path(folder) / "other-user"
    script.write_bytes(Path("/bin/true").read_bytes())
    if os.geteuid() == 0:
        os.chown(script, 12345, 12345)
        script.chmod(0o755 | stat.S_ISUID)
        expect_line("runs without ferry: it runs as another user", "--", script)
    (Path(folder) / "libcuda.so.1").write_text("no library")
    expect_line("has no NVIDIA driver", "--", "true", LD_LIBRARY_PATH=folder)
    (Path(folder) / "libcuda.so.1").write_bytes(Path(old_driver).read_bytes())
    expect_line("is for CUDA 11.8, and ferry needs 12.0 or newer", "--", "true", LD_LIBRARY_PATH=folder)
    script.write_text("exit 4\n")
    script.chmod(0o755)
    check(run(ferry_run, "--quiet", "--", script).returncode == 4, "a script without an interpreter's name")
    # LD_PRELOAD cannot name these paths.
    for part in ("a b", "a:b", "$LIB", "${ORIGIN}"):
        own_folder = Path(folder) / part
        own_folder.mkdir()
        for file in (Path(ferry_run), Path(ferry_run).with_name("libferry-run.so")):
            shutil.copy(file, own_folder)
        done = run(own_folder / "ferry-run", "--quiet", "--", traps, "narrow-rows")
        check((done.returncode, done.stdout) == (0, "0 failures\n") and done.stderr.count("\n") == 1, part, done)
        check(f"a space, a colon or a dollar sign: {os.path.realpath(own_folder)}" in done.stderr, part, done)
check(run("sh", "-c", '"$0" --version >/dev/full', ferry_run).returncode == 1)
check(run(ferry_run).returncode != 0)
check(run(ferry_run, "--no-such-option", "--", "true").returncode != 0)
check(run(ferry_run, "--quiet", "sh", "-c", "exit 6").returncode == 6, "options behind the program are the program's")
help_text = run(ferry_run, "--help").stdout
check(len(help_text.splitlines()) <= 24 and max(map(len, help_text.splitlines())) <= 100, help_text)

print(f"{checks} checks on {'the software driver' if is_software else 'a GPU'}")
