#!/usr/bin/env bash
# Usage: muon_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. Runs with Muon, and with frozen parameters: on
# every mesh resumed equals uninterrupted, and every mesh continues from what another one saved.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
cat >>run.yaml <<END
precision: {compute: fp32}
faults: {replica_check_interval: 2}
END
sed -i 's/^optimizer: .*/optimizer: {name: muon, lr: 0.01, eps: 1.0e-4}/' run.yaml
few="training.global_batch_size=8 training.steps=6 checkpoint.interval=3 checkpoint.keep_last=4"

resumes_on_meshes one dp tp pp cp dp_tp
says "$(checkpoint one 6)/manifest.json" '"group":"momentum_buffer","name":"h.0.attn.q.weight"' \
    '"group":"exp_avg","name":"wte.weight"'
says_not "$(checkpoint one 6)/manifest.json" '"group":"exp_avg","name":"h.0.attn.q.weight"'

# moved FROM TO: TO continues from the checkpoint of FROM after step 3.
moved() {
    options=(--resume "$1/checkpoints/step-000003")
    settings output_dir="$1-to-$2" $few ${named_meshes[$2]}
    timeout --signal=KILL 120 "$mpirun" -n "$(ranks_of "$2")" "$gptrain" --config run.yaml \
        "${set[@]}" "${options[@]}" >out 2>err
    ran 0 $? "$2 from $1"
    options=()
    late_near "$1-to-$2" one
}
moved dp tp
moved tp pp
moved pp dp_tp
moved dp_tp cp
moved cp one

# Ranks that share the saving of a frozen parameter load all of it, from any mesh.
frozen="training.frozen=[h.0.*, wte.weight]"
run_on one frozen-one "$frozen"
for mesh in dp cp dp_tp; do
    run_on $mesh frozen-$mesh "$frozen" training.steps=3 lr_schedule.decay_steps=20
    run_on $mesh frozen-$mesh "$frozen"
    late_near frozen-$mesh frozen-one
done

# The optimizer of a run is that of its checkpoint.
train 2 one $few optimizer.name=adamw
says err "optimizer.name" muon adamw
train 2 other optimizer.name=adamw optimizer.muon.lr_scale=2.0
says err "optimizer.muon needs optimizer.name muon"

finish
