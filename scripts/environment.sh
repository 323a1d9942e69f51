# Sourced by the other scripts: a virtual environment in .venv with this project and the extras
# named in $1, made once and reused until the pins or the project's dependencies change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
extras=${1:-}

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
    .venv/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".${extras:+[$extras]}"
    echo "$wanted" > .venv/installed
fi
