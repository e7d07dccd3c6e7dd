#!/bin/sh
# Makes the virtual environment $1 from requirements.lock and puts this checkout into it.
set -eu

fail() {
    echo "error: $1" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for name in python3 python3.13 python3.12 python3.11; do
        if is_new_enough "$name"; then
            echo "$name"
            return
        fi
    done
}

with_pip() {
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# uv takes seconds where pip takes a minute, and is itself a package of the lock file.
with_uv() {
    sed -n '/^uv==/,/^    # via/p' requirements.lock >"$venv/uv.lock" &&
        with_pip --require-hashes --requirement "$venv/uv.lock" &&
        "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes \
            --requirement requirements.lock
}

venv=$1
if [ ! -x "$venv/bin/pip" ]; then
    python=$(find_python)
    [ -n "$python" ] || fail "No Python >= 3.11 with venv was found. Install one \
(Debian and Ubuntu: apt-get install python3 python3-venv; macOS: brew install python@3.13)."
    "$python" -m venv "$venv" || fail "$python could not make the virtual environment $venv."
fi

echo "Installing the Python packages of requirements.lock into $venv" >&2
with_uv || with_pip --require-hashes --requirement requirements.lock ||
    fail "The packages could not be installed. Is there a network, and room on the disk?"
with_pip --no-deps --no-build-isolation --editable . ||
    fail "surfacelog itself could not be installed into $venv."
