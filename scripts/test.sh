#!/usr/bin/env bash
# Set up and run the tests, a process for each core with one thread each. Options go to pytest; -m slow runs the slow ones.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" dev
export OMP_NUM_THREADS=1
# Tests start hundreds of processes: the package is compiled once, not in each of them.
unset PYTHONDONTWRITEBYTECODE
exec .venv/bin/python -m pytest --numprocesses auto "$@"
