#!/usr/bin/env bash
# Usage: reshard.sh RESHARD MPIRUN. Every mesh loads what any other mesh saves: the same bytes of
# every tensor and of the optimizer's state, and full tensors for other programs. One step later,
# all agree with an uninterrupted run on one rank within the tolerance of all such tests, and on the
# same mesh bit for bit with its own run. GPTRAIN_SOAK=1: more meshes.
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

# dp.pp.v.cp.tp, and what ranks with the same parameters divide; v does not multiply the ranks
meshes=(1.1.1.1.1 2.1.1.1.2 1.2.2.1.1 2.1.1.2.1.weights)
[[ ${GPTRAIN_SOAK:-} != 1 ]] || meshes+=(1.2.1.1.2 4.1.1.1.1.gradients 1.1.1.2.2)

# launch MESH WORDS...
launch() {
    local dp pp v cp tp shard
    IFS=. read -r dp pp v cp tp shard <<<"$1"
    timeout --signal=KILL 100 "$mpirun" -n $((dp * pp * cp * tp)) "$reshard" "${@:2}" >log 2>&1 ||
        fail "${*:2}"
}
# equal A B STEP
equal() { "$reshard" equal "$@" >log 2>&1 || fail "$1 and $2 differ after step $3"; }

for mesh in "${meshes[@]}"; do
    launch "$mesh" train "$mesh" "from-$mesh"
done
pairs=0
for from in "${meshes[@]}"; do
    for to in "${meshes[@]}"; do
        moved=from-$from-to-$to
        launch "$to" move "$to" "from-$from" "$moved"
        equal "from-$from" "$moved" 2
        if [[ $from == "$to" ]]; then
            equal "from-$from" "$moved" 3
        else
            pairs=$((pairs + 1))
        fi
    done
    if command -v h5dump >/dev/null; then
        h5dump -H -d /exp_avg/h.1.attn.q.weight "from-$from/step-000002/model.h5" >log 2>&1
        grep -qE 'SIMPLE \{ \( 32, 32 \)' log || fail "h5dump does not see the whole tensor"
    fi
    ((failures < 5)) || exit 1
done
"$reshard" parity from-* >log 2>&1 || fail "one step further"
((failures)) || echo "proof reshard: $pairs ordered pairs of ${#meshes[@]} meshes: bytes equal, and" \
    "one step further equal to one uninterrupted rank within the parity tolerance;" \
    "${#meshes[@]} meshes to themselves: one step further bit-equal"
exit $((failures > 0))
