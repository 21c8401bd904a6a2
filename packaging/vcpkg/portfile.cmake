# @FERRY_URL@ is the address of ferry's repository, @FERRY_COMMIT@ the commit of the release: vcpkg takes no tags.
vcpkg_from_git(
    OUT_SOURCE_PATH SOURCE_PATH
    URL "@FERRY_URL@"
    REF "@FERRY_COMMIT@"
)

# The interface is C, so a debug build of a program can use the release build of ferry.
set(VCPKG_BUILD_TYPE release)
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
