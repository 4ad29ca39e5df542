#!/usr/bin/env bash
# Predicts the step times of published training runs, and prints them next to the published times
# and to those of a flat rate of model FLOP/s, the best one for each paper's runs
# (docs/planning.md). Mixtures of experts and runs with divided
# weights have tables of their rows in test/planner/published_mixtures.csv and published_shards.csv.
#
#   scripts/published_runs.sh [FILE]
#
#   FILE  other runs, in the form of test/planner/published_runs.csv
set -euo pipefail
file=$(realpath "${1:-$(dirname "${BASH_SOURCE[0]}")/../test/planner/published_runs.csv}")
[[ -f $file ]] || { echo "error: there is no file $file" >&2 && exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cmake --preset cpu >&2
cmake --build --preset cpu --target test_published_runs >&2
PUBLISHED_RUNS=$file build/cpu/test/planner/test_published_runs '[table]'
