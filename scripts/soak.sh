#!/usr/bin/env bash
# Repeats the proofs that nothing is ever lost, far more often than the test suite has time for, and
# prints their figures: kills, damaged checkpoints, failing disks, changes of mesh, interruptions.
#
#   scripts/soak.sh [--only REGEX]
#
#   --only REGEX   those of the tests whose names match (all with the label soak)
#   BUILD=...      a build folder to use instead of build/cpu
#   GPTRAIN_SOAK_FAULTS=N   so many faults of Slurm jobs at random moments instead of 200, which take
#                           an hour; GPTRAIN_SOAK_SEED=N others than those of 58
#
# stdout is the table of figures in docs/durability.md; all other output of the tests is in soak.log
# in the build folder. Exit code 1 if a test fails, or proves nothing because it did not run.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

only=.
take_options only -- "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_dependencies.sh >&2
build=${BUILD:-build/cpu}
[[ -n ${BUILD:-} ]] || cmake --preset cpu >&2
cmake --build "$build" >&2
log=$build/soak.log
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
export GPTRAIN_SOAK=1
failed=0
SECONDS=0
ctest --test-dir "$build" -L '^soak$' -R "$only" --no-tests=error --verbose 2>&1 | tee "$log" |
    grep --line-buffered -E '^ *[0-9]+/[0-9]+ Test|^[0-9]+: proof |^[0-9]+: FAILED' >&2 || failed=1

processor=$(awk -F ': ' '/^model name/ && !seen++ { print $2 }' /proc/cpuinfo)
echo "Commit $commit, $(date -u +%F), $SECONDS s on $(nproc) cores (${processor:-unknown})," \
    "$(uname -sr), load $(cut -d ' ' -f 1 /proc/loadavg)."
echo
echo "| proof | figures | test |"
echo "|---|---|---|"
# A test prints "12: proof NAME: FIGURES", and its result is "3/8 Test #12: TEST .....   Passed  4.5 sec".
awk '
    /^[0-9]+: proof / {
        id = $1 + 0
        sub(/^[0-9]+: proof /, "")
        name = $0
        sub(/:.*/, "", name)
        rows[id] = rows[id] "| " name " | " substr($0, length(name) + 3) " | %s |\n"
    }
    / Test +#[0-9]+: / {
        sub(/.* Test +#/, "")
        id = $1 + 0
        result = $2 ", " int($(NF - 1) + 0.5) " s"
        if (!/ Passed /) result = result ", FAILED OR NOT RUN"
        if (!(id in rows)) {
            rows[id] = "| | nothing | %s |\n"
            bad = 1
        }
        gsub(/%s/, result, rows[id])
        printf "%s", rows[id]
        ++tests
    }
    END { exit bad || !tests }' "$log" || failed=1
exit $failed
