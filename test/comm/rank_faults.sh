# A failing rank ends all ranks quickly, with one line that says why.
# Usage: rank_faults.sh RANK-FAULTS MPIEXEC NUMPROC-FLAG
set -u
export LC_ALL=C OMP_NUM_THREADS=1
program=$1 mpiexec=$2 flag=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE WORDS COMMAND...: the exit code within 20 seconds, and an error line with these words.
expect() {
    local code=$1 words=$2 got
    shift 2
    timeout 20 "$@" >"$work/out" 2>"$work/err"
    got=$?
    ((got == code)) || failed "exit code $got instead of $code: $*"
    errors=$(grep '^rank_faults: error: ' "$work/err")
    [[ $errors == *"$words"* ]] || failed "'$words' is not said: $*"
}

# The same, with that error line only.
expect_one() {
    expect "$@"
    (($(wc -l <<<"$errors") == 1)) || failed "${errors//$'\n'/; }"
}

failed() {
    echo "FAILED: $*"
    sed 's/^/    /' "$work/err" | head -n 20
    failures=$((failures + 1))
}

ranks() {
    echo "$mpiexec" "$flag" 3 "$program"
}

expect_one 3 'rank 1: corpus.idx is no index file' $(ranks) common
expect_one 5 'the disk is full' $(ranks) alone
expect_one 4 'the loss is not a number' $(ranks) in-flight
expect 1 'all_reduce on world (rank' $(ranks) shapes
expect 1 'recv on world (rank 1 of 3): rank 0 sent 240000 bytes instead of 360000' $(ranks) short
# The session ends while an error unwinds it: all ranks end, as after a bug.
expect 1 '' $(ranks) escapes
expect 137 '' $(ranks) killed
expect_one 2 'srun --mpi=pmix' env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 "$program" alone
# Without a launcher there is one rank, and MPI is never called.
expect_one 1 'no launcher started this process' "$program" alone

((failures)) || echo "all passed"
exit $((failures > 0))
