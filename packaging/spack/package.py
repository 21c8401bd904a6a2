# @FERRY_URL@ is the address of ferry's repository.
from spack.package import *


class Ferry(MesonPackage):
    """Copies between host memory, GPU memory and CUDA arrays, through one C ABI on the CUDA driver API."""

    git = "@FERRY_URL@"

    license("MIT")

    version("0.7.0", tag="v0.7.0")

    variant("software_driver", default=True, description="Build the software driver, for machines without a GPU")
    variant("tools", default=True, description="Build ferry-bench, ferry-info and ferry-run")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("python@3:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cli11", type="build", when="+tools")
    depends_on("nlohmann-json", type="build", when="+tools")

    conflicts("%gcc@:10", msg="ferry needs C++20: GCC 11 or newer")
    conflicts("%clang@:15", msg="ferry needs C++20: Clang 16 or newer")
    conflicts("platform=darwin", msg="ferry has code for Linux and Windows")

    def meson_args(self):
        def feature(option, enabled):
            return f"-D{option}={'enabled' if enabled else 'disabled'}"

        return [
            feature("tests", False),
            feature("examples", False),
            feature("tools", self.spec.satisfies("+tools")),
            feature("software_driver", self.spec.satisfies("+software_driver")),
        ]
