#!/usr/bin/env bash
# Measures the work that grows with the number of ranks, up to 16,384 of them, on one machine: rank 0
# and one other rank do it for real, and what the other ranks send or write is made by the code that
# they would run. Prints a table of seconds and bytes, and fails if the most ranks take more than the
# limits of docs/scale.md, or if anything grows too fast between the smallest number of at least
# 1,024 ranks and the largest.
#
#   scripts/bench_scale.sh [--folder DIR] [--ranks "N..."]
#
#   --folder DIR      where files are written (a new folder in the build folder)
#   --ranks "N..."    numbers of ranks ("64 1024 3072 16384")
#   BUILD=...         a folder where bench_scale and bench_watch are already built (otherwise they are
#                     built in build/cpu)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

folder=
ranks="64 1024 3072 16384"
take_options folder ranks -- "$@"
[[ -z $folder ]] || folder=$(realpath "$folder")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${BUILD:-} ]]; then
    scripts/install_dependencies.sh >&2
    cmake --preset cpu >&2
    cmake --build --preset cpu --target bench_scale bench_watch >&2
fi
build=${BUILD:-build/cpu}
folder=$(mktemp -d "${folder:-$build}/bench-scale-XXXXXX")
trap 'rm -rf "$folder"' EXIT

# watched: the lines of bench_watch as rows.
watched() {
    awk -F'[:,]' '{
        split("", value)
        for (i = 1; i < NF; i += 2) { gsub(/[{"]/, "", $i); value[$i] = $(i + 1) + 0 }
        timed("beat", "a beat, every rank")
        timed("pass", "near a hang, every node: reads the news of the monitors")
        timed("monitor_pass", "near a hang, a monitor: reads the news of all nodes")
        timed("report", "a hang, one rank: reads all and reports")
        row("memory, every node: what its ranks share to watch", 0, value["shared_bytes_per_node"])
    }
    function timed(key, what) {
        if ((key "_s") in value) row(what, value[key "_s"], value[key "_bytes"])
    }
    function row(what, seconds, bytes) {
        printf "{\"ranks\":%s,\"what\":\"%s\",\"seconds\":%s,\"bytes\":%s}\n", value["ranks"], what,
            seconds, bytes
    }'
}

# shown: the rows, also on stderr as they come. (tee /dev/stderr would truncate a file there.)
shown() { while IFS= read -r row; do echo "$row" >&2 && echo "$row"; done; }

# table: the rows by work and number of ranks.
table() {
    awk -F'"ranks":|,"what":"|","seconds":|,"bytes":|}$' '
        !($3 in seen) { seen[$3] = 1; works[++rows] = $3 }
        !($2 in known) { known[$2] = 1; ranks[++columns] = $2 }
        {
            seconds = $4 > 0 ? sprintf("%.3g s", $4) : ""
            bytes = $5 > 0 ? sprintf("%.3g MB", $5 / 1e6) : ""
            cell[$3, $2] = seconds (seconds != "" && bytes != "" ? ", " : "") bytes
        }
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

# limits ROWS: reports each figure above its limit, and each that is missing.
limits() {
    awk -F'"ranks":|,"what":"|","seconds":|,"bytes":|}$' '
        {
            ranks = $2 + 0
            seconds[$3, ranks] = $4
            bytes[$3, ranks] = $5
            works[$3] = 1
            columns[ranks] = 1
            if (ranks > many) many = ranks
            if (ranks >= 1024 && (!few || ranks < few)) few = ranks
        }
        function above(what, value, limit) {
            if (value <= limit) return
            printf "above its limit: %s: %.3g, limit %.4g\n", what, value, limit
            failed = 1
        }
        # some: a limit on nothing would always hold.
        function some(what, count) {
            if (count) return
            printf "missing: %s\n", what
            failed = 1
        }
        END {
            for (work in works) {
                for (ranks in columns) some("figures of " ranks " ranks, " work, (work, ranks) in seconds)
                memories += work ~ /^memory/
                saves += work ~ /^(first )?save,/
                starts += work ~ /^(start|resume),/
                reports += work ~ /^a hang,/
                if (work ~ /^(first )?save,/) save += seconds[work, many]
                if (work ~ /^(start|resume),/) start += seconds[work, many]
                if (work ~ /^a hang,/) above("seconds of a report", seconds[work, many], 2)
                if (work !~ /^memory/) above("bytes, " work, bytes[work, many], 64 * 1024 * 1024)
                if (!few || few == many) continue
                if (work ~ /^memory/) {
                    more = bytes[work, many] - bytes[work, few]
                    above("bytes for each further rank, " work, more / (many - few), 1024)
                    continue
                }
                # In a tree a rank works once for each level.
                growth = work ~ /merges/ ? log(many) / log(few) : many / few
                above("bytes, growth of " work, bytes[work, many], 1.1 * growth * bytes[work, few])
                # Below a millisecond noise dominates.
                if (seconds[work, many] > 0.001)
                    above("seconds, growth of " work, seconds[work, many], 2.2 * growth * seconds[work, few])
            }
            some("memory", memories)
            some("a save", saves)
            some("a start", starts)
            some("a report", reports)
            # With few ranks only the machine decides.
            if (few) above("seconds of a save on rank 0", save, 5)
            if (few) above("seconds of a start", start, 10)
            exit failed
        }' "$1"
}

# shellcheck disable=SC2086  # words
{
    "$build/test/bench/bench_scale" "$folder" $ranks
    "$build/test/watch/bench_watch" "$folder" $ranks | watched
} | shown | tee "$folder/rows" | table
limits "$folder/rows" >&2
