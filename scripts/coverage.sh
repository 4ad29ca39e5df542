#!/usr/bin/env bash
# Builds with gcov's counters, runs the tests that `scripts/test.sh` runs, and prints the share of
# lines of every room that they reached. build/coverage/html/index.html shows each line.
#
#   scripts/coverage.sh [CTEST-OPTIONS...]
#
# A process that is killed or calls _Exit writes no counters, so the true share is a little higher.
# program_read_only is left out: its user may not write the counters.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    exit 0
fi

scripts/install_dependencies.sh gcovr
cmake --preset coverage
cmake --build --preset coverage
build=build/coverage
find $build -name '*.gcda' -delete
# Lines that failing tests reach count as well.
failed=0
ctest --preset coverage "$@" || failed=1

mkdir -p $build/html
gcovr --root . -j "$(nproc)" --filter lib/ --filter app/ --filter data_tools/ \
    --csv $build/coverage.csv --html-details $build/html/index.html \
    $build/lib $build/app $build/data_tools

awk -F, '
    NR > 1 {
        split($1, parts, "/")
        room = parts[1] == "lib" ? "lib/" parts[2] : parts[1]
        lines[room] += $2
        reached[room] += $3
        all_lines += $2
        all_reached += $3
    }
    function row(room, reached, lines) {
        printf "%-16s %6d of %6d lines  %5.1f %%\n", room, reached, lines, 100 * reached / lines
    }
    END {
        for (room in lines) row(room, reached[room], lines[room])
        row("rooms together", all_reached, all_lines)
    }
' $build/coverage.csv | LC_ALL=C sort
exit $failed
