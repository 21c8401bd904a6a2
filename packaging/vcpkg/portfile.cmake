# @FERRY_FILES@ is the address of the folder with the files of the release, @FERRY_SHA512@ the checksum of its source archive.
vcpkg_download_distfile(
    ARCHIVE
    URLS "@FERRY_FILES@/ferry-${VERSION}.tar.xz"
    FILENAME "ferry-${VERSION}.tar.xz"
    SHA512 "@FERRY_SHA512@"
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

# The interface is C, so a debug build of a program can use the release build of ferry.
set(VCPKG_BUILD_TYPE release)
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)
vcpkg_configure_meson(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -Dtests=disabled
        -Dtools=disabled
        -Dexamples=disabled
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()

# ferryConfig.cmake finds the libraries from its own place, lib/cmake/ferry.
set(VCPKG_POLICY_SKIP_MISPLACED_CMAKE_FILES_CHECK enabled)
set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)

vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
