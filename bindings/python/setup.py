"""The wheel has the shared library inside, and no extension module: one wheel serves every Python of a platform.
FERRY_WHEEL_PLATFORM is the platform that the library was built for; without, the one that builds the wheel."""
import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class WithLibrary(Distribution):
    """Libraries belong into the folder of a platform, as extension modules do."""

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", os.environ.get("FERRY_WHEEL_PLATFORM") or super().get_tag()[2]


setup(distclass=WithLibrary, cmdclass={"bdist_wheel": PlatformWheel})
