#!/usr/bin/env bash
# Measures the work that grows with the number of ranks, up to 16,384 of them, on one machine: rank 0
# and one other rank do it for real, and what the other ranks send or write is made by the code that
# they would run. Prints a table of seconds and bytes (docs/scale.md).
#
#   scripts/bench_scale.sh [--folder DIR] [--ranks "N..."]
#
#   --folder DIR      where files are written (a new folder in the build folder)
#   --ranks "N..."    numbers of ranks ("64 1024 3072 16384")
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

folder=
ranks="64 1024 3072 16384"
take_options folder ranks -- "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_dependencies.sh >&2
build=${BUILD:-build/cpu}
[[ -n ${BUILD:-} ]] || cmake --preset cpu >&2
cmake --build "$build" --target bench_scale >&2
folder=$(mktemp -d "${folder:-$build}/bench-scale-XXXXXX")
trap 'rm -rf "$folder"' EXIT

# shellcheck disable=SC2086  # words
"$build/test/bench/bench_scale" "$folder" $ranks | tee /dev/stderr | awk -F'"what":"|","seconds":|,"bytes":' '
    {
        split($1, start, /[:,]/)
        sub(/}$/, "", $4)
        if (!($2 in seen)) { seen[$2] = 1; order[++rows] = $2 }
        if (!(start[2] in column)) { column[start[2]] = ++columns; ranks[columns] = start[2] }
        cell[$2, start[2]] = sprintf("%.3g s, %.3g MB", $3, $4 / 1e6)
    }
    END {
        line = "| work |"; rule = "|---|"
        for (i = 1; i <= columns; ++i) { line = line " " ranks[i] " ranks |"; rule = rule "---|" }
        print line; print rule
        for (row = 1; row <= rows; ++row) {
            line = "| " order[row] " |"
            for (i = 1; i <= columns; ++i) line = line " " cell[order[row], ranks[i]] " |"
            print line
        }
    }'
