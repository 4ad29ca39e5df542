#!/usr/bin/env bash
# Measures on two cores how much of one rank's speed on both is left when two ranks with one thread
# each share the work: GPT-2 124M shape, fp32, 32 sequences of 64 tokens a step in microbatches of 4.
# Every case does the same work in a step: 8 microbatches on one rank and on the two of tp or pp,
# and 4 on each of the two of dp.
#
#   scripts/bench_parallel.sh [--rounds N] [--steps N] [--timelines DIR]
#
#   --rounds N       times that the cases are run one after the other (3)
#   --steps N        timed steps of each run, after one that is not (2)
#   --timelines DIR  keep a picture of one step of each mesh
#
# ratio = time of one rank with two threads / time of the two ranks, each the best of all its timed
# steps (the one least disturbed by other programs); for pp the former is first made longer by the
# bubble, (p - 1) / m = 1/8. waits: seconds of such a step in which a rank issued messages or waited
# for them, of the rank with the most, mean of the last round. The last line of stdout is one JSON
# object.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

rounds=3
steps=2
timelines=
take_options rounds steps timelines -- "$@"
[[ -z $timelines ]] || timelines=$(realpath -m "$timelines")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_dependencies.sh >&2
cmake --preset cpu >&2
cmake --build --preset cpu --target bench_parallel >&2
bench=build/cpu/test/bench/bench_parallel
[[ -z $timelines ]] || mkdir -p "$timelines"

# For OpenMPI: as root, and with threads that are not bound to one core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none

# run AXIS: one JSON object.
run() {
    if [[ $1 == none ]]; then
        OMP_NUM_THREADS=2 "$bench" none "$steps"
    else
        OMP_NUM_THREADS=1 mpirun -n 2 "$bench" "$1" "$steps" ${timelines:+"$timelines/$1.svg"}
    fi
}

declare -A best=() result=()
for ((round = 1; round <= rounds; ++round)); do
    for axis in none dp tp pp; do
        result[$axis]=$(run "$axis" | tail -n 1)
        echo "round $round: ${result[$axis]}" >&2
        times=$(sed 's/.*"seconds":\[\([^]]*\)\].*/\1/; s/,/\n/g' <<<"${result[$axis]}")
        best[$axis]=$(printf '%s\n' "${best[$axis]:-$times}" "$times" | sort -g | head -n 1)
    done
done

# ratio AXIS LONGER: of the best times, one rank's made longer by that factor.
ratio() { awk -v one="${best[none]}" -v two="${best[$1]}" "BEGIN { printf \"%.3f\", one * ($2) / two }"; }
# waits AXIS
waits() { sed "s/.*\"$1\":{\"bytes\":[0-9]*,\"seconds\":\([^}]*\)}.*/\1/" <<<"${result[$1]}"; }

cases=()
for axis in dp tp pp; do
    longer=1
    [[ $axis != pp ]] || longer='1 + 1 / 8'
    cases+=("\"$axis\":{\"seconds\":${best[$axis]},\"ratio\":$(ratio "$axis" "$longer"),\"waits\":$(waits "$axis")}")
done
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
printf '{"bench":"parallel","commit":"%s","rounds":%s,"steps":%s,"one_rank_seconds":%s,%s}\n' \
    "$commit" "$rounds" "$steps" "${best[none]}" "$(IFS=,; echo "${cases[*]}")"
