#!/bin/sh
# Builds GoogleTest from its sources, for a compiler or a C++ library other than the one that the system's GoogleTest
# was built with: Clang with libc++, a cross compiler. Meson finds it with -Dpkg_config_path=FOLDER/lib/pkgconfig.
# googletest.sh FOLDER SYSTEM PROCESSOR CC CXX [C++ FLAGS]
# SYSTEM and PROCESSOR are CMake's names, such as Linux and x86_64. CC and CXX are commands, with a launcher such as
# ccache or without. GOOGLETEST_SOURCES names the sources if they are not where Debian puts them.
set -eu
[ $# -ge 5 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
folder=$1 system=$2 processor=$3 cc=$4 cxx=$5
shift 5
sources=${GOOGLETEST_SOURCES:-/usr/src/googletest}
[ -f "$sources/CMakeLists.txt" ] || { echo "no GoogleTest sources in $sources (Debian: googletest)" >&2; exit 1; }

wanted="$sources $system $processor $cc $cxx $*"
[ "$(cat "$folder/built-for" 2>/dev/null)" != "$wanted" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# CMake takes a launcher apart from its compiler.
launcher() { case $1 in *' '*) echo "${1%% *}" ;; esac; }
# CMAKE_SYSTEM_NAME makes a cross build, so it is passed only for one: CMake would not try to run what it builds.
[ "$system $processor" = "$(uname -s) $(uname -m)" ] ||
    set -- "$@" "-DCMAKE_SYSTEM_NAME=$system" "-DCMAKE_SYSTEM_PROCESSOR=$processor"
flags='' options=''
for argument; do
    case $argument in
    -DCMAKE_*) options="$options $argument" ;;
    *) flags="$flags $argument" ;;
    esac
done
# shellcheck disable=SC2086 # options are words
cmake -G Ninja -S "$sources" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=$folder" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_GMOCK=OFF -DBUILD_SHARED_LIBS=OFF \
    "-DCMAKE_C_COMPILER=${cc#* }" "-DCMAKE_C_COMPILER_LAUNCHER=$(launcher "$cc")" \
    "-DCMAKE_CXX_COMPILER=${cxx#* }" "-DCMAKE_CXX_COMPILER_LAUNCHER=$(launcher "$cxx")" \
    "-DCMAKE_CXX_FLAGS=$flags" $options >"$folder/build.log" 2>&1 &&
    cmake --build "$folder/build" --target install >>"$folder/build.log" 2>&1 ||
    { tail -n 30 "$folder/build.log" >&2; exit 1; }
rm -rf "$folder/build"
echo "$wanted" >"$folder/built-for"
