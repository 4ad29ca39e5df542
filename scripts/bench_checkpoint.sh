#!/usr/bin/env bash
# Measures saving and loading of checkpoints next to plain parallel writes and reads of the same bytes,
# in turns with them: a synchronous save, the stall of an asynchronous one, a load, and CRC-32C.
#
#   scripts/bench_checkpoint.sh [--folder DIR] [--ranks N] [--mib N] [--turns N]
#
#   --folder DIR   the disk to measure (a new folder in the build folder)
#   --ranks N      processes that save and load together (1)
#   --mib N        size of each one's state in MiB (1024)
#   --turns N      repetitions (7)
#
# The last line of stdout is one JSON object. Targets: save and load at 0.90 or more of plain ones,
# stall at most 1.2 times memcpy, CRC-32C at 5 GB/s or more. A busy machine shows in the ratios of
# single turns; "best_ratio" compares the best turns.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

folder=
ranks=1
mib=1024
turns=7
take_options folder ranks mib turns -- "$@"
[[ -z $folder ]] || folder=$(realpath "$folder")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_dependencies.sh >&2
build=${BUILD:-build/cpu}
[[ -n ${BUILD:-} ]] || cmake --preset cpu >&2
cmake --build "$build" --target bench_checkpoint >&2
bench=$build/test/bench/bench_checkpoint
folder=$(mktemp -d "${folder:-$build}/bench-checkpoint-XXXXXX")
trap 'rm -rf "$folder"' EXIT
launcher=()
((ranks == 1)) || launcher=(mpirun -n "$ranks" --oversubscribe)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

"${launcher[@]}" "$bench" "$folder/state" "$mib" "$turns" >"$folder/out"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
sed -n '$s/^{/{"bench":"checkpoint","commit":"'"$commit"'","load_average":'"$(cut -d ' ' -f 1 /proc/loadavg)"',/p' \
    "$folder/out"
