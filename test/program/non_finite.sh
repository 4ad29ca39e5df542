#!/usr/bin/env bash
# Steps whose loss or gradients are not finite are skipped and reported, and too many end the run.
. "$(dirname "$0")/lib.sh"
make_data
make_spec

finite_weights() {
    local checkpoint
    for checkpoint in "$1"/checkpoints/step-*; do
        h5dump "$checkpoint/shard-00000.h5" >dump || fail "$checkpoint cannot be read"
        if grep -qiE '(^|[ ,-])(nan|inf)([ ,]|$)' dump; then fail "$checkpoint holds what is not finite"; fi
    done
}

train 4 diverged optimizer.lr=1.0e+30 checkpoint.interval=1 training.steps=40 faults.max_skipped_steps=5
says err "warning: step" "non-finite loss or gradients (the loss of rank 0" "from sample" "the gradient of" "max_skipped_steps"
(($(grep -c '^warning: ' err) >= 5)) || fail "not a warning for each of 5 steps: $(cat err)"
says diverged/metrics.jsonl '"loss": null'
last=$(grep -c '"loss"' diverged/metrics.jsonl)
grep -q "^{\"step\": $last, \"loss\": null, .*\"skipped_steps\": 5, " diverged/metrics.jsonl ||
    fail "the fifth skipped step has no line: $(tail -n 1 diverged/metrics.jsonl)"
finite_weights diverged
# The same again: the run continues, for five skipped steps more.
train 4 diverged optimizer.lr=1.0e+30 checkpoint.interval=1 training.steps=40 faults.max_skipped_steps=5
finite_weights diverged

# The count continues after a resume: two of the five steps are done then.
train 0 counting optimizer.lr=1.0e+30 training.steps=3
train 4 counting optimizer.lr=1.0e+30 faults.max_skipped_steps=5
says err "error: step 6: 5 steps in a row were skipped"

# Killed in the save before its end, at its beginning or with most of it written, it ends in the same way again.
wild=(optimizer.lr=1.0e+30 faults.max_skipped_steps=5 checkpoint.interval=4 checkpoint.async=false)
train 4 undisturbed "${wild[@]}"
for call in 2 20; do
    start killed-$call "${wild[@]}" "fault_injection={faults: [{kind: kill, step: 6, call: $call}]}"
    wait $pid 2>/dev/null
    (($? == 137)) || fail "not killed in call $call: $(tail -n 3 err)"
    train 4 killed-$call "${wild[@]}"
    says out "after step 4"
    same_run undisturbed killed-$call 6
done

# A skipped step changes no weight, and the learning rate moves on.
train 0 skipped optimizer.lr=1.0e+30 checkpoint.interval=1 training.steps=4
says skipped/metrics.jsonl '"skipped_steps": 3' '"consumed_samples": 8'
expect_exit 0 "$gptrain" inspect "$(checkpoint skipped 4)"
# Its logits overflow, so there is no loss to report.
expect_exit 4 "$gptrain" eval --checkpoint skipped --data text_text_document
says err "text_text_document: the loss is not finite"
says_not out '"loss"'
expect_exit 0 h5diff "$(checkpoint skipped 3)/shard-00000.h5" "$(checkpoint skipped 4)/shard-00000.h5"
grep -E '"step": (2|3|4), "loss": null, "mean_loss": null, "grad_norm": null, "lr": [0-9.e+]+, ' skipped/metrics.jsonl |
    sort -u | wc -l | grep -qx 3 || fail "lines of skipped steps: $(cat skipped/metrics.jsonl)"

# fp16: the loss scale goes down when gradients overflow, and is in the checkpoint.
train 0 fp16 precision.compute=fp16 model.init_std=3.0 optimizer.lr=0.001
scales=$(sed -n 's/.*"loss_scale": \([0-9.e+]*\),.*/\1/p' fp16/metrics.jsonl | sort -u | wc -l)
((scales > 1)) || fail "the loss scale never changed: $(cut -c 1-150 fp16/metrics.jsonl | tail -n 3)"
says_not err "max_skipped_steps"
train 0 fp16-resumed precision.compute=fp16 model.init_std=3.0 optimizer.lr=0.001 training.steps=10
train 0 fp16-resumed precision.compute=fp16 model.init_std=3.0 optimizer.lr=0.001
same_run fp16 fp16-resumed 20
# A run that changes its precision begins with the loss scale of the new one.
scale() {
    local last
    last=$(grep '"loss_scale"' "$1/metrics.jsonl" | tail -n 1)
    [[ $last == *"\"loss_scale\": $2,"* ]] || fail "no loss scale $2: $last"
}
train 0 changed training.steps=10
train 0 changed precision.compute=fp16 training.steps=11 checkpoint.interval=11
scale changed 65536
train 0 changed training.steps=12
scale changed 1

# It doubles after a thousand clean steps, most of them before a resume.
long=(precision.compute=fp16 model.num_layers=1 model.hidden_size=8 training.seq_length=4
    training.global_batch_size=1 data.num_samples=1100 checkpoint.interval=0 logging.interval=50
    logging.tensorboard=false)
train 0 growth "${long[@]}" training.steps=1100
train 0 growth-resumed "${long[@]}" training.steps=900
train 0 growth-resumed "${long[@]}" training.steps=1100
for run in growth growth-resumed; do
    history $run >$run.history
    (($(sed -n 's/.*"loss_scale": \([0-9]*\).*/\1/p' $run.history | tail -n 3 | uniq | wc -l) == 2)) ||
        fail "the loss scale did not double: $(cut -c 1-150 $run.history | tail -n 4)"
done
same growth.history growth-resumed.history

finish
