#!/usr/bin/env bash
# Makes everything the Makefile needs on a machine that has only Python 3.11+, make and git.
#
#   scripts/bootstrap.sh packages   .venv with the locked packages and this project
#   scripts/bootstrap.sh java       Java 17 or newer, for Spark
#
# Both are safe to repeat and keep what is already right.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly LOCK=requirements.lock

fail() {
    printf 'bootstrap: %s\n' "$1" >&2
    exit 1
}

# Prints how to become root without being asked for a password; fails where that is not possible.
root_prefix() {
    if [ "$(id -u)" -eq 0 ]; then
        return 0
    fi
    command -v sudo >/dev/null && sudo -n true 2>/dev/null && printf 'sudo -n'
}

can_apt() {
    command -v apt-get >/dev/null && root_prefix >/dev/null
}

apt_install() {
    local prefix
    prefix=$(root_prefix)
    # Unquoted on purpose: the prefix is empty or two words.
    $prefix apt-get update -qq
    $prefix env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

is_python_311() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null && is_python_311 "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed; install it, or name it: make PYTHON=/path/to/python3.11"
}

make_venv() {
    if [ -x "$VENV/bin/python" ] && is_python_311 "$VENV/bin/python"; then
        return
    fi
    local python
    python=$(find_python)
    if ! "$python" -c 'import ensurepip' 2>/dev/null && can_apt; then
        apt_install python3-venv
    fi
    "$python" -m venv "$VENV" ||
        fail "'$python -m venv' failed; on Debian and Ubuntu run: sudo apt-get install -y python3-venv"
}

# Installs uv at the locked version, its hashes checked by pip.
install_uv() {
    local wanted requirement
    wanted=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' "$LOCK")
    if [ -x "$VENV/bin/uv" ] && [ "$("$VENV/bin/uv" --version | cut -d' ' -f2)" = "$wanted" ]; then
        return
    fi
    requirement=$(mktemp)
    awk '/^[^ ]/ { block = 0 } /^uv==/ { block = 1 } block' "$LOCK" >"$requirement"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$requirement"
    rm -f "$requirement"
}

install_packages() {
    make_venv
    install_uv
    local pip=("$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python")
    "${pip[@]}" --require-hashes -r "$LOCK"
    "${pip[@]}" --no-deps --editable .
}

# Prints the major version of the Java that Spark would use, 0 where there is none.
java_major() {
    local java=java
    if [ -n "${JAVA_HOME:-}" ]; then
        java="$JAVA_HOME/bin/java"
    fi
    local version
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || true
    printf '%s' "${version:-0}"
}

check_java() {
    [ "$(java_major)" -ge 17 ]
}

install_java() {
    if check_java; then
        return
    fi
    local package=openjdk-17-jre-headless
    if [ -z "${JAVA_HOME:-}" ] && can_apt; then
        printf 'bootstrap: installing Java (%s)\n' "$package" >&2
        # Newer Debian releases have no Java 17; their default is newer.
        apt_install "$package" || apt_install default-jre-headless
        if check_java; then
            return
        fi
    fi
    if [ -n "${JAVA_HOME:-}" ]; then
        fail "Spark needs Java 17 or newer, and JAVA_HOME ($JAVA_HOME) has none; unset it or point it at a newer Java."
    fi
    fail "Spark needs Java 17 or newer; run: sudo apt-get install -y $package (macOS: brew install openjdk@17)"
}

case "${1:-}" in
    packages) install_packages ;;
    java) install_java ;;
    *) fail "usage: scripts/bootstrap.sh packages|java" ;;
esac
