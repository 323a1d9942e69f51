#!/usr/bin/env bash
# Set up and run the tests. Options go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" dev
exec .venv/bin/python -m pytest "$@"
