#!/usr/bin/env bash
# Check the types as they are seen by whoever installs the package: with the offline stage as structviews.parsing.
# Options go to mypy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rm -rf build/types
mkdir -p build/types/structviews
for part in structviews/*; do ln -s "../../../$part" "build/types/$part"; done
ln -s ../../../parsing build/types/structviews/parsing
MYPYPATH=build/types exec .venv/bin/mypy --cache-dir build/mypy --package structviews "$@"
