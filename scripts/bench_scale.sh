#!/usr/bin/env bash
# Measures the work that grows with the number of ranks, up to 16,384 of them, on one machine: rank 0
# and one other rank do it for real, and what the other ranks send or write is made by the code that
# they would run. Prints a table of seconds and bytes, and fails if 16,384 ranks take more than the
# limits of docs/scale.md.
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
[[ -z $folder ]] || folder=$(realpath "$folder")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_dependencies.sh >&2
build=${BUILD:-build/cpu}
[[ -n ${BUILD:-} ]] || cmake --preset cpu >&2
cmake --build "$build" --target bench_scale bench_watch >&2
folder=$(mktemp -d "${folder:-$build}/bench-scale-XXXXXX")
trap 'rm -rf "$folder"' EXIT

# watched: the lines of bench_watch as rows.
watched() {
    awk -F'[:,]' '{
        for (i = 1; i < NF; i += 2) { gsub(/[{"]/, "", $i); value[$i] = $(i + 1) }
        row("beat", "a beat, every rank")
        row("pass", "near a hang, every node: reads the news of the monitors")
        row("monitor_pass", "near a hang, a monitor: reads the news of all nodes")
        row("report", "a hang, one rank: reads all and reports")
    }
    function row(key, what) {
        printf "{\"ranks\":%s,\"what\":\"%s\",\"seconds\":%s,\"bytes\":%s}\n", value["ranks"], what,
            value[key "_s"], value[key "_bytes"]
    }'
}

# table: the rows by work and number of ranks.
table() {
    awk -F'"ranks":|,"what":"|","seconds":|,"bytes":|}$' '
        !($3 in seen) { seen[$3] = 1; works[++rows] = $3 }
        !($2 in known) { known[$2] = 1; ranks[++columns] = $2 }
        { cell[$3, $2] = sprintf("%.3g s, %.3g MB", $4, $5 / 1e6) }
        END {
            line = "| work |"
            rule = "|---|"
            for (i = 1; i <= columns; ++i) { line = line " " ranks[i] " ranks |"; rule = rule "---|" }
            print line "\n" rule
            for (row = 1; row <= rows; ++row) {
                line = "| " works[row] " |"
                for (i = 1; i <= columns; ++i) line = line " " cell[works[row], ranks[i]] " |"
                print line
            }
        }'
}

# limits: reports what is above its limit, if there are figures of 1,024 and 16,384 ranks.
limits() {
    awk -F'"ranks":|,"what":"|","seconds":|,"bytes":|}$' '
        { seconds[$3, $2] = $4; bytes[$3, $2] = $5; works[$3] = 1 }
        function above(what, value, limit) {
            if (value <= limit) return
            printf "above its limit: %s: %.3g, limit %g\n", what, value, limit
            failed = 1
        }
        END {
            few = 1024
            many = 16384
            for (work in works) {
                if (!((work, few) in seconds) || !((work, many) in seconds)) continue
                if (work ~ /save, rank 0/) save += seconds[work, many]
                if (work ~ /^(start|resume)/) start += seconds[work, many]
                if (work ~ /^a hang/) above("seconds of a report", seconds[work, many], 2)
                growth = 1.1 * many / few
                if (work ~ /^memory/) {
                    above("bytes of memory a rank", (bytes[work, many] - bytes[work, few]) / (many - few), 1024)
                    continue
                }
                above("bytes, " work, bytes[work, many], 64 * 1024 * 1024)
                above("growth of bytes, " work, bytes[work, many] / bytes[work, few], growth)
                # Clocks vary, and decide below a millisecond.
                if (seconds[work, many] > 0.001)
                    above("growth of seconds, " work, seconds[work, many] / seconds[work, few], 2 * growth)
            }
            above("seconds of a save on rank 0", save, 5)
            above("seconds of a start", start, 10)
            exit failed
        }' "$1"
}

# shellcheck disable=SC2086  # words
{
    "$build/test/bench/bench_scale" "$folder" $ranks
    "$build/test/watch/bench_watch" "$folder" $ranks | watched
} | tee /dev/stderr "$folder/rows" | table
limits "$folder/rows" >&2
