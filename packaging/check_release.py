#!/usr/bin/env python3
"""Checks each file that tools/dev release has made, as someone who downloads it would: check_release.py FOLDER

What this machine's processor can run is installed or unpacked into an empty folder, built with, and run on the software
driver. Ends with a line of counts.
"""
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

folder = Path(sys.argv[1]).resolve()
packaging = Path(__file__).resolve().parent
root = packaging.parent
version = re.search(r"^\s*version: '(.*)',$", (root / "meson.build").read_text(), re.M).group(1)
abi = re.match(r"0\.\d+|\d+", version).group()  # the version at the end of the soname
program = packaging / "conan/test_package"
here = platform.machine()
PROCESSORS = {"x86_64": "X86-64", "aarch64": "AArch64"}
# Nothing of the checkout and of this script's own environment.
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith(("PYTHON", "LD_", "PKG_CONFIG", "FERRY_"))}
counts = {"passed": 0, "failed": 0, "skipped": 0}


def run(*command, **environment):
    done = subprocess.run([str(one) for one in command], env={**CLEAN, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise ValueError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def same(what, given, expected):
    given, expected = set(given), set(expected)
    if given != expected:
        raise ValueError(f"{what}: unexpected {sorted(given - expected)}, missing {sorted(expected - given)}")


def unpack(archive, where):
    """The folder in the archive. The archive must contain nothing beside this folder, and no file with an owner or that others can write."""
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
        same("top folders", {member.name.split("/")[0] for member in members}, {archive.name[:-len(".tar.xz")]})
        for member in members:
            if member.uid or member.gid or member.mode & 0o022 and not member.issym():
                raise ValueError(f"{member.name}: owner {member.uid}:{member.gid}, mode {member.mode:o}")
        opened.extractall(where)
    return Path(where, archive.name[:-len(".tar.xz")])


def check_elf(files, processor):
    for file in files:
        header = run("readelf", "-h", file)
        if PROCESSORS[processor] not in header:
            raise ValueError(f"{file.name} is not for {processor}:\n{header}")
        versions = re.findall(r"\bGLIBC_([0-9.]+)", run("readelf", "-W", "--version-info", file))
        newest = max(tuple(map(int, one.split("."))) for one in versions)
        if newest > (2, 28):
            raise ValueError(f"{file.name} needs glibc {newest}")
        searched = re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", run("readelf", "-W", "-d", file))
        allowed = {"$ORIGIN/../lib"} if file.name in ("ferry-bench", "ferry-info") else set()
        same(f"{file.name}'s search path", searched, allowed)


def checksums():
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    named = {line.split("  ", 1)[1]: line.split("  ", 1)[0] for line in lines}
    same("SHA256SUMS", named, (path.name for path in folder.iterdir() if path.name != "SHA256SUMS"))
    for name, digest in named.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise ValueError(f"{name} has another checksum")


def files():
    """Just what is to be shipped; Debian's packages where this is Debian."""
    expected = {"SHA256SUMS", f"ferry-{version}.tar.xz"}
    for processor in PROCESSORS:
        expected |= {f"ferry-{version}-linux-{processor}.tar.xz", f"libferry-{version}-py3-none-manylinux_2_28_{processor}.whl"}
    debs = {re.sub(r"_.*", "", path.name) for path in folder.glob("*.deb") if "-dbgsym_" not in path.name}
    if Path("/etc/debian_version").exists() or debs:
        same("packages", debs, {f"libferry{abi}", f"libferry-software{abi}", "libferry-dev", "ferry-tools"})
    same("files", (path.name for path in folder.iterdir() if path.suffix != ".deb"), expected)


def source(work):
    """The files of the commit, the generated files of the bindings, and no others. ferry is built from them alone."""
    unpacked = unpack(folder / f"ferry-{version}.tar.xz", work)
    generated = [f"bindings/{file}" for file in ("csharp/FerryNative.cs", "python/src/ferry/native.py",
                                                 "rust/ferry-sys/generated.rs", "zig/ferry.zig")]
    if (root / ".git").exists():
        same("source", (str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if not path.is_dir()),
             generated + run("git", "-C", root, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    run("meson", "setup", work / "build", unpacked, "-Doptimization=0", "-Ddefault_library=shared", "-Dtests=disabled",
        "-Dtools=disabled", "-Dexamples=disabled", f"--prefix={work}/installed", "--libdir=lib")
    run("ninja", "-C", work / "build")
    run("meson", "install", "-C", work / "build", "--no-rebuild")
    build_program(work / "installed", work)


def build_program(prefix, work):
    """A C program that finds ferry by pkg-config, and by CMake where that is installed."""
    search = {"PKG_CONFIG_LIBDIR": str(prefix / "lib/pkgconfig")}
    if (given := run("pkg-config", "--modversion", "ferry", **search).strip()) != version:
        raise ValueError(f"pkg-config finds version {given}")
    flags = run("pkg-config", "--cflags", "--libs", "ferry", **search).split()
    run("cc", "-std=c99", program / "main.c", "-o", work / "program", *flags)
    run(work / "program", LD_LIBRARY_PATH=str(prefix / "lib"))
    if shutil.which("cmake"):
        project = work / "cmake"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(program C)\n"
            f"find_package(ferry {version} EXACT CONFIG REQUIRED)\nadd_executable(program {program}/main.c)\n"
            "target_link_libraries(program PRIVATE ferry::ferry)\n")
        run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", project / "build")
        run(project / "build/program")


def archive(work, processor):
    prefix = unpack(folder / f"ferry-{version}-linux-{processor}.tar.xz", work)
    libraries = [f"lib/lib{name}.so{ending}" for name in ("ferry", "ferry-software")
                 for ending in ("", f".{abi}", f".{version}")] + ["lib/libferry-run.so"]
    headers = ["ferry.h", "ferry.hpp", "ferry_all.h", "ferry_devices.h", "ferry_event.h", "ferry_external.h",
               "ferry_file.h", "ferry_graph.h", "ferry_ipc.h", "ferry_memory.h", "ferry_nest.h", "ferry_nvtx.hpp", "ferry_software.h",
               "ferry_vulkan.hpp"]
    expected = ["LICENSE", "LICENSE.third-party", "CHANGELOG.md", "lib/pkgconfig/ferry.pc", "lib/pkgconfig/ferry-software.pc",
                "lib/cmake/ferry/ferryConfig.cmake",
                "lib/cmake/ferry/ferryConfigVersion.cmake", "bin/ferry-bench", "bin/ferry-info", "bin/ferry-report",
                "bin/ferry-run", *libraries, *(f"one-file/ferry/{name}" for name in ["ferry.cpp", *headers]),
                *(f"include/ferry/{name}" for name in ["ferry.json", "ferry.ffi.h", *headers])]
    same("files", (str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()), expected)
    check_elf([prefix / name for name in (*libraries, "bin/ferry-bench", "bin/ferry-info", "bin/ferry-run")], processor)
    if processor != here:
        return
    build_program(prefix, work)
    run(prefix / "bin/ferry-info", "--driver", "software")
    run(prefix / "bin/ferry-bench", "--list")
    run(prefix / "bin/ferry-run", "--", "true")


def wheel(work, processor):
    file = folder / f"libferry-{version}-py3-none-manylinux_2_28_{processor}.whl"
    run(sys.executable, root / "bindings/python/tests/wheel_contents.py", file)
    shutil.unpack_archive(file, work / "unpacked", "zip")
    inside = work / "unpacked/ferry"
    check_elf([inside / f"lib/libferry.so.{abi}", inside / f"lib/libferry-software.so.{abi}", inside / "bin/ferry-run",
               inside / "bin/libferry-run.so"], processor)
    run(sys.executable, "-m", "venv", work / "empty")
    install = [work / "empty/bin/pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", file]
    if processor != here:
        try:
            run(*install)
        except ValueError as refusal:
            if "is not a supported wheel on this platform" in str(refusal):
                return
            raise
        raise ValueError("pip installs the wheel on another processor")
    run(*install)
    python = work / "empty/bin/python"
    run(python, "-m", "ferry", "info", "--software")
    if (given := run(python, "-m", "ferry", "run", "--version", PATH="").strip()) != version:
        raise ValueError(f"python -m ferry run --version: {given}")
    run(work / "empty/bin/pip", "uninstall", "--quiet", "--yes", "libferry")
    left = [str(path) for path in (work / "empty").rglob("*ferry*")]
    same("files after uninstalling", left, [])


def checks():
    yield "checksums", checksums
    yield "files", files
    yield "source", source
    for processor in PROCESSORS:
        yield f"archive for {processor}", archive, processor
        yield f"wheel for {processor}", wheel, processor


for name, check, *arguments in checks():
    with tempfile.TemporaryDirectory() as work:
        try:
            check(*([Path(work)] if check not in (checksums, files) else []), *arguments)
        except (ValueError, OSError, subprocess.SubprocessError) as problem:
            counts["failed"] += 1
            print(f"FAILED: {name}: {problem}")
        else:
            counts["passed"] += 1
            print(f"ok: {name}")
print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
sys.exit(counts["failed"] > 0)
