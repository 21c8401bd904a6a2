"""Conan 2. @FERRY_FILES@ is the address of the folder with the files of the release, @FERRY_SHA256@ the checksum of its
source archive."""
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, get, rmdir
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

required_conan_version = ">=2.0"


class FerryConan(ConanFile):
    name = "ferry"
    version = "0.7.0"
    license = "MIT"
    description = "Copies between host memory, GPU memory and CUDA arrays"
    topics = ("cuda", "gpu", "copy")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "software_driver": [True, False]}
    default_options = {"shared": True, "software_driver": True}

    def configure(self):
        # The interface is C. The C++ library and its standard are ferry's own matter.
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        basic_layout(self, src_folder="src")

    def validate(self):
        if self.settings.os not in ("Linux", "Windows") or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("ferry has code for 64-bit Linux and Windows only")
        if self.settings.compiler == "msvc":
            raise ConanInvalidConfiguration("ferry's Meson build was tried with GCC, Clang and MinGW-w64 only")

    def build_requirements(self):
        self.tool_requires("meson/[>=1.0.0]")

    def source(self):
        get(self, f"@FERRY_FILES@/ferry-{self.version}.tar.xz", sha256="@FERRY_SHA256@", strip_root=True)

    def generate(self):
        toolchain = MesonToolchain(self)
        for name in "tests", "tools", "examples":
            toolchain.project_options[name] = "disabled"
        toolchain.project_options["software_driver"] = "enabled" if self.options.software_driver else "disabled"
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        # Conan's generators write these.
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))

    def package_info(self):
        self.cpp_info.libs = ["ferry"]
        self.cpp_info.set_property("cmake_file_name", "ferry")
        self.cpp_info.set_property("cmake_target_name", "ferry::ferry" if self.options.shared else "ferry::ferry_static")
        self.cpp_info.set_property("pkg_config_name", "ferry")
        if not self.options.shared:
            if self.options.software_driver:
                self.cpp_info.libs.append("ferry-software")
                self.cpp_info.exelinkflags = self.cpp_info.sharedlinkflags = ["-Wl,-u,ferry_software_open"]
            on_windows = self.settings.os == "Windows"
            self.cpp_info.system_libs = ["stdc++", "pthread", "synchronization" if on_windows else "dl"]
