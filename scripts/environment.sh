# Sourced by the other scripts: a virtual environment in .venv with this project and the extras
# named in $1, made once and reused until the pins or the project's dependencies change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
extras=${1:-}

# PyTorch's own index of builds for the CPU; PyPI's for Linux is the one for CUDA, whose libraries take gigabytes.
cpu_builds=https://download.pytorch.org/whl/cpu

# quietly COMMAND...: what it says, such as pip's retries of an index that cannot be reached, is shown only if it fails.
log=$PWD/.venv/install.log
quietly() {
    "$@" > "$log" 2>&1 || { cat "$log" >&2; return 1; }
}

# install PIP ARGUMENTS...: at the pinned versions; PyTorch is the build for the CPU unless there is a GPU.
install() {
    local pip=$1
    shift
    if [ "$(uname)" = Linux ] && [[ $(nvidia-smi --list-gpus 2>/dev/null) != *"GPU 0"* ]]; then
        # Where that index cannot be reached, pip takes what its own has.
        quietly "$pip" install --disable-pip-version-check --retries 1 --constraint constraints.txt \
            --extra-index-url "$cpu_builds" torch
    fi
    quietly "$pip" install --disable-pip-version-check --constraint constraints.txt "$@"
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "structviews needs Python 3.11 or later; set PYTHON to one (found: $("$python" --version))" >&2
    exit 2
fi
if [ ! -x .venv/bin/pip ] && ! "$python" -m venv .venv; then
    echo "could not make a virtual environment: on Debian, apt-get install python3-venv" >&2
    exit 2
fi
wanted=$(cat pyproject.toml constraints.txt; echo "$extras")
if [ "$wanted" != "$(cat .venv/installed 2>/dev/null)" ]; then
    echo "installing structviews${extras:+[$extras]} into .venv (about a minute)"
    install .venv/bin/pip --editable ".${extras:+[$extras]}"
    echo "$wanted" > .venv/installed
fi
