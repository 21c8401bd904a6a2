#!/usr/bin/env python3
"""Checks that all versions agree, and what can be checked of the recipes without their package managers.

Ends with a line of counts.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

packaging = Path(__file__).resolve().parent
root = packaging.parent
version = re.search(r"^\s*version: '(.*)',$", (root / "meson.build").read_text(), re.M).group(1)
abi = re.match(r"0\.\d+|\d+", version).group()  # the version at the end of the soname
counts = {"passed": 0, "failed": 0, "skipped": 0}


def text(name):
    return (packaging / name).read_text()


def found(pattern, where):
    """The group of the pattern's one match."""
    matches = re.findall(pattern, where, re.M)
    if len(matches) != 1:
        raise ValueError(f"{len(matches)} matches of {pattern}, must be 1")
    return matches[0]


def equal(name, given, expected):
    if given != expected:
        raise ValueError(f"{name} is {given}, must be {expected}")


def python(name):
    source = text(name)
    compile(source, name, "exec")
    return source


def conan():
    equal("version", found(r'^    version = "(.*)"$', python("conan/conanfile.py")), version)
    python("conan/test_package/conanfile.py")


def spack():
    source = python("spack/package.py")
    equal("version", found(r'^    version\("(.*)", tag=.*\)$', source), version)
    equal("tag", found(r'^    version\(.*, tag="(.*)"\)$', source), f"v{version}")


def vcpkg():
    equal("version", json.loads(text("vcpkg/vcpkg.json"))["version"], version)
    port = re.sub(r'#.*|"[^"]*"', "", text("vcpkg/portfile.cmake"))
    equal("number of )", port.count(")"), port.count("("))


def conda():
    if yaml is None:
        return "no yaml module"
    equal("version", yaml.safe_load(text("conda/recipe.yaml"))["context"]["version"], version)


def wrap():
    equal("revision", found(r"^revision = (.*)$", text("ferry.wrap")), f"v{version}")


def debian():
    equal("version", found(r"\Aferry \((.*)-\d+\) ", text("debian/changelog")), version)
    for library in "ferry", "ferry-software":
        file = f"lib{library}{abi}.symbols"
        nodes = re.findall(r"^(FERRY_\S+) \{$", (root / f"src/{library.replace('-', '_')}.map").read_text(), re.M)
        symbols = re.findall(r"^ \(symver\)(\S+) (\S+)$", text(f"debian/{file}"), re.M)
        equal(f"list of nodes in {file}", [node for node, _ in symbols], nodes)
        equal(f"soname in {file}", found(r"^(libferry\S+) ", text(f"debian/{file}")), f"lib{library}.so.{abi}")
        found(rf"^Package: (lib{library}{abi})$", text("debian/control"))


def header():
    """Bindings take the version of the header."""
    given = [found(rf"^#define FERRY_VERSION_{part} (\d+)$", (root / "include/ferry/ferry.h").read_text())
             for part in ("MAJOR", "MINOR", "PATCH")]
    equal("version in ferry.h", ".".join(given), version)
    for name in "ferry.hpp", "ferry_nvtx.hpp", "ferry_vulkan.hpp":
        namespace = found(r"^inline namespace v(\w+) \{$", (root / "include/ferry" / name).read_text())
        equal(f"inline namespace of {name}", namespace, "_".join(given[:2]))


def sonames():
    """Programs and bindings load the library by this name, and Debian's packages have it in their names."""
    named = re.compile(r"\b(?:libferry(?:-software)?(?:\.so\.|-)?|ferry(?:-software)?-)(\d+(?:\.\d+)*)\b")
    files = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, stdout=subprocess.PIPE, text=True).stdout
    count = 0
    for file in files.split("\0")[:-1]:
        if file != "CHANGELOG.md" and not file.startswith("docs/migration-"):
            content = (root / file).read_text(encoding="utf-8", errors="ignore")
            for one in named.finditer(content):
                count += 1
                if one[1] not in (abi, version):
                    line = content.count("\n", 0, one.start()) + 1
                    raise ValueError(f"{file}:{line}: {one[0]}, must have {abi}")
    if count == 0:
        raise ValueError("no name of the library is found")


def rust():
    crates = {name: (root / f"bindings/rust/{name}/Cargo.toml").read_text() for name in ("ferry", "ferry-sys")}
    for name, crate in crates.items():
        equal(f"version of {name}", found(r'^version = "(.*)"$', crate), version)
    equal("ferry-sys that ferry needs", found(r'^ferry-sys = .*version = "(.*?)"', crates["ferry"]), version)


def meson_options():
    known = set(re.findall(r"^option\('(.*?)'", (root / "meson_options.txt").read_text(), re.M))
    known |= {"optimization", "default_library"}
    for name in "debian/rules", "vcpkg/portfile.cmake", "conda/recipe.yaml":
        unknown = set(re.findall(r"-D(\w+)=", text(name))) - known
        if unknown:
            raise ValueError(f"{name} sets unknown options: {', '.join(sorted(unknown))}")


for check in header, sonames, rust, conan, spack, vcpkg, conda, wrap, debian, meson_options:
    name = check.__name__.replace("_", " ")
    try:
        reason = check()
    except (ValueError, KeyError, SyntaxError) as problem:
        counts["failed"] += 1
        print(f"FAILED: {name}: {problem}")
    else:
        counts["skipped" if reason else "passed"] += 1
        print(f"{'skipped' if reason else 'ok'}: {name}{': ' + reason if reason else ''}")
print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
sys.exit(counts["failed"] > 0)
