"""Installs ferry from the build folder into a temporary one, as users get it. Shared by the tests in this folder."""
import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command, **environment):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env={**os.environ, **environment})


def output_of(*command, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def check_linkage(binary, library):
    dynamic = output_of("readelf", "-d", str(binary))
    if ("libferry" in dynamic) != (library == "shared"):
        sys.exit(f"the {library} library was requested, but the program has:\n{dynamic}")


class Stage:
    def __init__(self, folder, prefix, libdir):
        self.folder = Path(folder)  # for what the test builds, too
        self.root = self.folder / Path(prefix).relative_to("/")
        self.libraries = self.root / libdir
        self.headers = self.root / "include"

    def flags(self, *options, names=("ferry",)):
        command = ["pkg-config", f"--define-variable=prefix={self.root}", *options, "--cflags", "--libs", *names]
        return shlex.split(output_of(*command, PKG_CONFIG_PATH=str(self.libraries / "pkgconfig")))


@contextlib.contextmanager
def staged(meson, build, prefix, libdir):
    with tempfile.TemporaryDirectory() as folder:
        run(meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder)
        yield Stage(folder, prefix, libdir)
