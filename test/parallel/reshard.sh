#!/usr/bin/env bash
# Usage: reshard.sh RESHARD MPIRUN. What one mesh saves every other loads: the same bytes of every
# tensor and of the optimizer's state, the same loss one step further (but for the order of sums; on
# the same mesh bit for bit), and full tensors to other programs. GPTRAIN_RESHARD=all: more meshes.
set -u
reshard=$(realpath "$1")
mpirun=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "FAILED: $*: $(tail -c 600 log)"
    failures=$((failures + 1))
}

# dp.pp.v.cp.tp; v is no number of ranks
meshes=(1.1.1.1.1 2.1.1.1.2 1.2.2.1.1 2.1.1.2.1)
[[ ${GPTRAIN_RESHARD:-} != all ]] || meshes+=(1.2.1.1.2 4.1.1.1.1 1.1.1.2.2)

# launch MESH WORDS...: sets `further` to the loss of the step after the checkpoint.
launch() {
    local dp pp v cp tp
    IFS=. read -r dp pp v cp tp <<<"$1"
    shift
    timeout --signal=KILL 100 "$mpirun" -n $((dp * pp * cp * tp)) "$reshard" "$@" >out 2>log ||
        fail "$*"
    further=$(sed -n 's/^loss //p' out)
    [[ -n $further ]] || fail "$* tells no loss"
}

declare -A loss
for mesh in "${meshes[@]}"; do
    launch "$mesh" train "$mesh" "from-$mesh"
    loss[$mesh]=$further
done
pairs=0
for from in "${meshes[@]}"; do
    for to in "${meshes[@]}"; do
        if [[ $from == "$to" && $from != 2.1.1.1.2 ]]; then continue; fi
        launch "$to" move "$to" "from-$from" moved
        "$reshard" compare "from-$from" moved >out 2>log || fail "$from to $to"
        if [[ $from == "$to" ]]; then
            [[ $further == "${loss[$from]}" ]] ||
                fail "$from again: loss $further, should be ${loss[$from]}"
        else
            pairs=$((pairs + 1))
            awk -v a="$further" -v b="${loss[$from]}" \
                'BEGIN { d = a > b ? a - b : b - a; exit !(b > 0 && d <= 2e-5 * b) }' ||
                fail "$from to $to: loss $further, should be ${loss[$from]}"
        fi
        rm -rf moved
    done
    if command -v h5dump >/dev/null; then
        h5dump -H -d /exp_avg/h.1.attn.q.weight "from-$from/step-000002/model.h5" >log 2>&1
        grep -qE 'SIMPLE \{ \( 32, 32 \)' log || fail "h5dump does not see the whole tensor"
    fi
    ((failures < 5)) || break
done
((failures)) || echo "$pairs ordered pairs of meshes: equal"
exit $((failures > 0))
