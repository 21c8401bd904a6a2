# shellcheck shell=sh
# How the project's scripts install the packages that they need. Scripts read this file.

# Installs what is missing. Takes pairs: a command, or a pkg-config module as module:NAME, and the package that has it.
need() {
    missing=
    while [ $# -gt 0 ]; do
        case $1 in
        module:*) pkg-config --exists "${1#module:}" 2>/dev/null || missing="$missing $2" ;;
        *) command -v "$1" >/dev/null || missing="$missing $2" ;;
        esac
        shift 2
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing packages (Debian's names):$missing" >&2
        exit 1
    fi
    # Another apt may be running. apt waits for the other's dpkg, but not for its lists, so scripts of the project take turns.
    flock /var/lib/dpkg apt-get -o DPkg::Lock::Timeout=300 update -qq
    # shellcheck disable=SC2086 # one word per package
    DEBIAN_FRONTEND=noninteractive flock /var/lib/dpkg apt-get -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends $missing </dev/null
}

need_pip() {
    python3 -m pip --version >/dev/null 2>&1 || need no-pip-module python3-pip
}
