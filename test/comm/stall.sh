# A test case that stalls fails by itself and reports which rank stalls, in which case and in which
# operation.
# Usage: stall.sh TEST-COMM MPIEXEC NUMPROC-FLAG
set -u
export LC_ALL=C GPTRAIN_TEST_HANG_SECONDS=2
program=$1 mpiexec=$2 flag=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

failed() {
    echo "FAILED: $*"
    head -n 40 "$work/err" "$work/out" | sed 's/^/    /'
    failures=$((failures + 1))
}

says() {
    grep -qF -- "$2" "$work/$1" || failed "'$2' is not said"
}

begun=$(date +%s%N)
timeout 40 "$mpiexec" "$flag" 3 "$program" '[.stall]' >"$work/out" 2>"$work/err"
code=$?
seconds=$((($(date +%s%N) - begun) / 1000000000))
((code == 6)) || failed "exit code $code"
# Starting and the launcher's own shutdown take time as well.
((seconds <= 15)) || failed "$seconds seconds"
says err 'test: error: hang: rank 2 '
says err 'test, the last rank never comes, after all_reduce 1 on tp'
says err 'ranks 0-1: test, the last rank never comes, waits in all_reduce 2 on tp'

((failures)) || echo "all passed"
exit $((failures > 0))
