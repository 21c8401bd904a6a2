# shellcheck shell=sh
# The compilers, linkers and targets of `tools/dev on PLATFORM`; tools/dev reads this file. A platform is a word of
# `platforms`, and a case of set_up_platform that installs what it needs and sets up build-PLATFORM.
platforms='gcc-11 clang-16 clang-19 libc++ lld mold aarch64 windows'

# The programs of `tools/dev on PLATFORM quick`, and their tests: each kind of copy, the threads that stage, the
# system's memory, and the driver beneath. CI runs three of the platforms, with those suites that the platform can change.
quick_suites='driver conformance batches staged pinned pinned-pool properties order'
quick_pure_suites='plan shape kernel-layout readable'

# All tests but a table of copies between two devices, which takes minutes where tests are slow.
without_long_tables='-peers/*'

# need_for PLATFORM, and pairs as for need()
need_for() {
    platform=$1
    shift
    (need "$@") && return
    echo "$platform cannot be tested here: the packages above are missing, or not to be had" >&2
    exit 1
}

# own_googletest PLATFORM SYSTEM PROCESSOR CC CXX [C++ FLAGS]: sets googletest to its pkg-config folder.
own_googletest() {
    googletest=$PWD/.deps/googletest-$1/lib/pkgconfig
    platform=$1
    shift
    need_for "$platform" cmake cmake ninja ninja-build
    [ -f "${GOOGLETEST_SOURCES:-/usr/src/googletest}/CMakeLists.txt" ] || need_for "$platform" no-sources googletest
    sh tests/googletest.sh ".deps/googletest-$platform" "$@"
}

# Sets up build-PLATFORM; test_arguments, the further arguments of `meson test`; how names of programs end; and further
# quick tests with the programs that they need.
set_up_platform() {
    test_arguments='' program_ending='' further_tests='' further_programs=''
    case $1 in
    gcc-*)
        need_for "$1" "$1" "$1" "g++-${1#gcc-}" "g++-${1#gcc-}"
        export CC="$1" CXX="g++-${1#gcc-}"
        configure "build-$1" -Dwerror=true
        ;;
    clang-*)
        need_for "$1" "$1" "$1"
        export CC="$1" CXX="clang++-${1#clang-}"
        configure "build-$1" -Dwerror=true
        ;;
    libc++)
        need_for "$1" clang-19 clang-19
        [ -f "$(clang++-19 -print-file-name=libc++.a)" ] || need_for "$1" no-libc++ 'libc++-19-dev libc++abi-19-dev'
        own_googletest "$1" Linux "$(uname -m)" clang-19 clang++-19 -stdlib=libc++
        quick_suites='conformance batches staged pinned-pool'
        export CC=clang-19 CXX=clang++-19
        configure "build-$1" -Dwerror=true -Dcpp_args=-stdlib=libc++ -Dcpp_link_args=-stdlib=libc++ \
            "-Dpkg_config_path=$googletest"
        ;;
    lld | mold)
        need_for "$1" "ld.$1" "$1"
        export CC_LD="$1" CXX_LD="$1"
        configure "build-$1" -Dwerror=true
        ;;
    aarch64)
        need_for "$1" aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu aarch64-linux-gnu-g++ g++-aarch64-linux-gnu \
            qemu-aarch64 qemu-user
        own_googletest "$1" Linux aarch64 aarch64-linux-gnu-gcc aarch64-linux-gnu-g++
        configure "build-$1" -Dwerror=true --cross-file=tools/cross/aarch64.ini "-Dpkg_config_path=$googletest"
        test_arguments=--timeout-multiplier=5 # the emulator is that slow
        # order and properties repeat copies in long tables; shape, kernel-layout and readable have long loops.
        quick_suites='driver conformance batches staged pinned pinned-pool'
        quick_pure_suites=plan
        further_tests=ferry-run-emulated
        further_programs='tools/run/libferry-run.so tests/software-libcuda/libcuda.so.1 tests/run/run-traps
            tests/run/run-every-call tests/run/run-lookups tests/run/librun-plugin.so tests/run/librun-linked.so'
        ;;
    windows)
        need_for "$1" x86_64-w64-mingw32-gcc-posix gcc-mingw-w64-x86-64-posix \
            x86_64-w64-mingw32-g++-posix g++-mingw-w64-x86-64-posix wine 'wine wine64' \
            clang++-19 clang-19
        need module:CLI11 libcli11-dev module:nlohmann_json nlohmann-json3-dev
        own_googletest "$1" Windows x86_64 x86_64-w64-mingw32-gcc-posix x86_64-w64-mingw32-g++-posix
        links_to_headers
        configure "build-$1" -Dwerror=true --cross-file=tools/cross/windows.ini "-Dpkg_config_path=$googletest" \
            "-Dcpp_args=-isystem$PWD/.deps/headers"
        # A Wine of the tests' own, without windows and messages. The first program starts Wine's services, which then
        # keep its output open. So that is an idle shell, and it ends when this one does.
        export WINEPREFIX="$PWD/.deps/wine" WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= DISPLAY=
        wine wineboot --init >/dev/null 2>&1 </dev/null
        [ -p .deps/wine-input ] || mkfifo .deps/wine-input
        exec 3<>.deps/wine-input
        wine cmd <.deps/wine-input >/dev/null 2>&1 &
        test_arguments=--timeout-multiplier=3
        program_ending=.exe
        quick_suites='driver conformance batches staged pinned pinned-pool'
        quick_pure_suites='plan readable'
        # Of ferry-bench some cases: all take minutes there.
        further_tests='ferry-info ferry-bench-files DLL front-ends'
        further_programs='tools/ferry-info tools/ferry-bench'
        ;;
    *)
        echo "unknown platform $1; known: $platforms" >&2
        exit 2
        ;;
    esac
}

# test_on PLATFORM [quick]: all suites but those for a GPU, or the quick ones, of which only the programs are built.
test_on() (
    set_up_platform "$1"
    build=build-$1
    if [ "${2-}" = quick ]; then
        # shellcheck disable=SC2086 # one word per name
        set -- $quick_pure_suites $further_tests
        programs=$further_programs
        for suite in $quick_suites; do
            set -- "$@" "$suite (software driver)"
        done
        for suite in $quick_suites $quick_pure_suites; do
            programs="$programs tests/test-$suite"
        done
        # shellcheck disable=SC2086 # one word per program
        ninja -C "$build" --quiet $(printf "%s$program_ending " $programs)
        # shellcheck disable=SC2086 # one word per argument
        GTEST_FILTER=${GTEST_FILTER-$without_long_tables} run_tests "$build" --no-rebuild $test_arguments "$@"
    else
        # shellcheck disable=SC2086
        run_tests "$build" --no-suite gpu $test_arguments
    fi
)

# test_everywhere [quick]: each platform in turn and the archives of a release, their output in build-everywhere, and a
# table.
test_everywhere() {
    mkdir -p build-everywhere
    all=0 table='' quick=${1-}
    for platform in $platforms release; do
        started=$(date +%s)
        log=build-everywhere/$platform.log
        outcome=ok
        # shellcheck disable=SC2086 # a word or none
        case $platform in
        release) set -- release build-everywhere ;;
        *) set -- on "$platform" $quick ;;
        esac
        printf '== tools/dev %s\n' "$*"
        tools/dev "$@" >"$log" 2>&1 </dev/null || outcome=FAILED
        [ "$outcome" = ok ] || { all=1; tail -n 60 "$log"; }
        counts=$(tail -n 1 "$log" | grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' || echo 'no tests ran')
        table="$table$(printf '%-10s %-6s %5s s  %s' "$platform" "$outcome" $(($(date +%s) - started)) "$counts")
"
    done
    printf '\n%s' "$table"
    return $all
}
