"""The wheel has the shared library inside, and no extension module: one wheel serves every Python of a platform.
FERRY_WHEEL_PLATFORM is the platform that the library was built for; without, the one that builds the wheel."""
import os

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", os.environ.get("FERRY_WHEEL_PLATFORM") or super().get_tag()[2]


setup(cmdclass={"bdist_wheel": PlatformWheel})
