#!/usr/bin/env bash
# Set up and run the main job: parse a corpus, train four pairs of views, compare them, write a report.
# Options go to `structviews demo`.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" report
exec .venv/bin/structviews demo "$@"
