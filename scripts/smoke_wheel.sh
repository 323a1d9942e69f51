#!/usr/bin/env bash
# Build the wheel, install it where there is nothing else, and run the main job on a small text
# with the source tree out of reach.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" dev
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
.venv/bin/python -m build --wheel --outdir "$empty" . > "$empty/build.log" || { cat "$empty/build.log"; exit 1; }
cp -r constraints.txt tests/data/story.txt data/senteval "$empty"
cd "$empty"
"$python" -m venv venv
install venv/bin/pip structviews-*.whl
run() { env -i HOME="$empty" PATH="$empty/venv/bin:/usr/bin:/bin" LANG=C.UTF-8 "$@"; }
run python -c 'import structviews.parsing, sys; assert structviews.__file__.startswith(sys.prefix), structviews.__file__'
head -n 3 story.txt | run structviews encode default -o default.npy
run structviews parse story.txt
run structviews train --views dep,const --hidden 16 --word-dim 16 --epochs 2 --held-out 0.3
head -n 3 story.txt | run structviews encode runs/dep-const -o vectors.npy
run python -c 'from numpy import load; from structviews import Embedder
assert (load("default.npy").shape, load("vectors.npy").shape) == ((3, Embedder.load("default").dim), (3, 32))'

tables() { run structviews eval runs/dep-const --senteval senteval --tasks SICK-R --partial > scores.txt 2>&1; }
if tables; then echo "eval did not ask for its extra"; exit 1; fi
grep --quiet --fixed-strings "pip install 'structviews[eval]'" scores.txt
install venv/bin/pip "$(echo structviews-*.whl)[eval]"
tables || { cat scores.txt; exit 1; }
grep --quiet SICK-R scores.txt
echo "the wheel works: $(ls structviews-*.whl), $(du -h structviews-*.whl | cut -f1)"
