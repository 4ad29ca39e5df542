#!/usr/bin/env bash
# metrics.jsonl: the lines, their order, and what a resumed run repairs.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
evaluating="training.eval_interval=5 training.eval_steps=3"
train 0 whole $evaluating

# Every line is an object with the keys in their order.
number='(null|-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-]?[0-9]+)?)'
keys='loss mean_loss grad_norm lr loss_scale tokens_per_s step_time_s tflops_per_device consumed_samples
    consumed_tokens memory_bytes skipped_steps'
step_line='^\{"step": [0-9]+'
for key in $keys; do step_line+=", \"$key\": $number"; done
seconds='([0-9.]+(e[+-]?[0-9]+)?)'
step_line+=', "comm": \{\}'
step_line+=", \"goodput\": \{\"useful\": $seconds"
for part in init load save eval lost; do step_line+=", \"$part\": $seconds"; done
step_line+='\}\}$'
validation_line="^\\{\"step\": [0-9]+, \"val_loss\": $number\\}\$"
resume_line='^\{"event": "resume", "step": [0-9]+\}$'
start_line="^\\{\"event\": \"start\", \"step\": [0-9]+, \"seconds\": \\{(\"[a-z_]+\": $seconds(, |\\}))+"
start_line+="(, \"loaded\": \"checkpoint\")?(, \"repeated\": $seconds)?\\}\$"
end_line='^\{"event": "end", "step": [0-9]+, '"${step_line##*\\\{\\\}, }"
all_lines() {
    if grep -nvE -e "$step_line" -e "$validation_line" -e "$resume_line" -e "$start_line" \
        -e "$end_line" "$1"; then
        fail "strange lines in $1"
    fi
}
all_lines whole/metrics.jsonl
says whole/metrics.jsonl '"consumed_samples": 40, "consumed_tokens": 640' '"loss_scale": 1'

# TensorBoard gets the known values under the same names, and the settings.
for name in $keys val_loss goodput goodput/{useful,init,load,save,eval,lost} \
    _hparams_/session_start_info training.eval_interval model.head_dim; do
    says "$(echo whole/events.out.tfevents.*)" "$name"
done

# The loss of each source, where validation blends several.
make_text 2 200 >web.txt
expect_exit 0 "$preprocess" --input web.txt --tokenizer tok.model --output-prefix web --append-eod
train 0 blended training.steps=1 $evaluating logging.prometheus=$PWD/run.prom \
    "data.validation=[{prefix: text_text_document}, {prefix: $PWD/web_text_document}]"
says blended/metrics.jsonl '"val_loss_by_source": {"text_text_document": {"loss": ' '"web_text_document": {"loss": '
grep -qE '^step 1/1  val_loss_by_source  text_text_document [0-9.]+  web_text_document [0-9.]+$' out ||
    fail "no losses by source: $(cat out)"
says "$(echo blended/events.out.tfevents.*)" val_loss_by_source/web_text_document/loss
says run.prom 'gptrain_val_loss_by_source{run="tiny",source="web_text_document"} '

# The order of lines, in short: 1 2 v2 r2 ...
order() {
    sed -E '/^\{"event": "(start|end)"/d; s/^\{"step": ([0-9]+), "loss".*/\1/; s/^\{"step": ([0-9]+), "val_loss".*/v\1/
        s/^\{"event": "resume", "step": ([0-9]+).*/r\1/' "$1/metrics.jsonl" | paste -sd ' '
}
expect_order() {
    [[ $(order "$1") == "$2" ]] || fail "the order of lines in $1 is $(order "$1")"
}
expect_order whole "1 2 3 4 5 v5 6 7 8 9 10 v10 11 12 13 14 15 v15 16 17 18 19 20 v20"
train 0 seldom training.steps=13 logging.interval=5
expect_order seldom "5 10 13"

# A torn last line is removed; the resume event comes first.
train 0 torn training.steps=10 $evaluating
cp -r torn ten
printf '{"step": 11, "loss": 4.' >>torn/metrics.jsonl
train 0 torn $evaluating
expect_order torn \
    "1 2 3 4 5 v5 6 7 8 9 10 v10 r10 11 12 13 14 15 v15 16 17 18 19 20 v20"
all_lines torn/metrics.jsonl
same_run whole torn 20
# The time account is of all starts, with the last save of each.
[[ $(tail -n 1 torn/metrics.jsonl) == '{"event": "end", "step": 20, '* ]] || fail "$(tail -n 1 torn/metrics.jsonl)"
sed -n 's/^{\("[a-z]*": "*[a-z0-9]*\).*"save": \([^,]*\),.*/\1 \2/p' torn/metrics.jsonl >saves
awk '/"end/ { ++ends; if ($3 <= last) exit ends = 9 } { if ($3 < last) exit ends = 9; last = $3 }
    END { exit ends != 2 }' saves || fail "seconds of saves: $(cat saves)"
# Zeros where a crash lost the data of a line.
cp -r ten zeros
head -c 300 /dev/zero >>zeros/metrics.jsonl
train 0 zeros training.steps=11 $evaluating
expect_order zeros "1 2 3 4 5 v5 6 7 8 9 10 v10 r10 11 v11"

# An evaluation that was due and has no line is made up.
cp -r ten missing
sed -i '/"step": 10, "val_loss"/d' missing/metrics.jsonl
train 0 missing $evaluating
expect_order missing \
    "1 2 3 4 5 v5 6 7 8 9 10 r10 v10 11 12 13 14 15 v15 16 17 18 19 20 v20"
same_run whole missing 20
# Also if the run is finished, and if the line belongs to steps that were lost.
cp -r whole finished
sed -i '/"step": 20, "val_loss"/d' finished/metrics.jsonl
train 0 finished $evaluating
says out "step 20/20  val_loss" "nothing left to do: the checkpoint has the run's last step"
history finished >finished.history
same whole.history finished.history

# mean_loss is the mean of the losses since the last line that the interval divides, also if the run
# was interrupted in between. An extra last line does not end an interval.
train 0 means logging.interval=4
train 0 parts logging.interval=4 training.steps=10
cp -r parts older
train 0 parts logging.interval=4
expect_order means "4 8 12 16 20"
expect_order parts "4 8 10 r10 12 16 20"
history means >means.history
history parts | grep -v '{"step": 10,' >parts.history
same means.history parts.history
# mean_at OUTPUT-DIR STEP, and mean_of FIRST LAST: over the losses that the whole run logged for
# each step.
mean_at() { sed -n "s/^{\"step\": $2, \"loss\".*\"mean_loss\": \([^,]*\),.*/\1/p" "$1/metrics.jsonl"; }
mean_of() {
    awk -F '[:,]' -v first="$1" -v last="$2" '/"loss"/ && $2 >= first && $2 <= last { sum += $4; ++n }
        END { printf "%.15g\n", sum / n }' whole/metrics.jsonl
}
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a - b < 1e-12 && b - a < 1e-12) }' ||
        fail "mean_loss: $1, not $2"
}
near "$(mean_at means 12)" "$(mean_of 9 12)"
near "$(mean_at parts 10)" "$(mean_of 9 10)"
near "$(mean_at parts 12)" "$(mean_of 9 12)"
says out "step 20/20  mean_loss $(printf %.4f "$(mean_of 17 20)")  "
# The sum of another interval covers other steps.
train 0 other logging.interval=4 training.steps=10
train 0 other logging.interval=6
near "$(mean_at other 12)" "$(mean_of 11 12)"
# A checkpoint of a program that kept no such sum.
edit_manifest "$(checkpoint older 10)" \
    's/"interval_loss":{[^}]*},/"first_start":1,/'
grep -q '"first_start":1,"goodput"' "$(checkpoint older 10)/manifest.json" || fail "no older checkpoint"
train 0 older logging.interval=4
near "$(mean_at older 12)" "$(mean_of 11 12)"

# The last step is evaluated, once, whether eval_interval divides it or not.
train 0 closing training.eval_interval=8 training.eval_steps=3 logging.interval=5
expect_order closing "5 v8 10 15 v16 20 v20"
cp closing/metrics.jsonl closing.before
train 0 closing training.eval_interval=8 training.eval_steps=3 logging.interval=5
says out "nothing left to do: the checkpoint has the run's last step"
same closing.before closing/metrics.jsonl
train 0 rare training.eval_interval=100 training.eval_steps=3 logging.interval=20
expect_order rare "20 v20"
last_evaluation() { grep val_loss "$1/metrics.jsonl" | tail -n 1; }
[[ $(last_evaluation rare) == "$(last_evaluation whole)" ]] ||
    fail "evaluations of the same weights: $(last_evaluation rare)"

# It is over eval_steps batches: as many samples in one batch have the same loss. A learning rate of
# 0 keeps the weights.
same_weights="optimizer.lr=0 training.steps=1 training.eval_interval=1"
val_loss() { sed -n 's/.*"val_loss": \([^}]*\)}/\1/p' "$1/metrics.jsonl"; }
train 0 three $same_weights training.eval_steps=3
train 0 large $same_weights training.eval_steps=1 training.global_batch_size=6
train 0 first $same_weights training.eval_steps=1
awk -v three="$(val_loss three)" -v large="$(val_loss large)" -v first="$(val_loss first)" 'BEGIN {
    apart = three / large - 1
    exit !(three > 0 && apart < 1e-6 && apart > -1e-6 && three != first) }' ||
    fail "of 3 batches $(val_loss three), of one as large $(val_loss large), of the first $(val_loss first)"

# Logged steps after the checkpoint no longer count.
cp -r ten ahead
printf '{"step": 15, "val_loss": 1}\n' >>ahead/metrics.jsonl
train 0 ahead $evaluating
same_run whole ahead 20

# Restarted before the first checkpoint: the lines of the first attempt stay, but no longer count.
cp -r whole anew
rm -r anew/checkpoints
train 0 anew training.steps=2
[[ $(order anew) == *"v20 r0 1 2" ]] || fail "the order of lines in anew is $(order anew)"

# Lines of other programs are kept, and do not prevent a resume.
cp -r ten foreign
sed -i '3s/.*/{"step": 3, "lo/' foreign/metrics.jsonl
printf 'step 11/20  loss 4.1\nstep 12/20' >>foreign/metrics.jsonl
cp foreign/metrics.jsonl foreign.before
train 0 foreign training.steps=11
(($(grep -c "^warning: .*foreign/metrics.jsonl, line 3: .* 2 later" err) == 1 && $(wc -l <err) == 1)) ||
    fail "not one warning: $(cat err)"
head -c "$(wc -c <foreign.before)" foreign/metrics.jsonl >foreign.after
same foreign.before foreign.after
tail -n 2 foreign/metrics.jsonl >foreign.added
all_lines foreign.added

# Log rotation renames the file under a run, or somebody removes it: it is made again, and no line is
# lost that another file does not hold.
start rotated training.steps=1000000
for part in 1 2; do
    wait_for rotated/metrics.jsonl '"loss"'
    mv rotated/metrics.jsonl rotated.$part
done
wait_for rotated/metrics.jsonl '"loss"'
touch rotated/STOP
ends 0
steps=$(cat rotated.1 rotated.2 rotated/metrics.jsonl | sed -n 's/^{"step": \([0-9]*\), "loss".*}$/\1/p')
[[ $steps == "$(seq "$(newest_step rotated)")" ]] || fail "not every step once: $steps"
(($(grep -c "^warning: .*rotated/metrics.jsonl: was removed or renamed during the run" err) == 2)) ||
    fail "not two warnings: $(cat err)"
start removed training.steps=1000000
wait_for removed/metrics.jsonl '"step": 2,'
rm removed/metrics.jsonl removed/events.out.*
wait_for removed/metrics.jsonl '"loss"'
touch removed/STOP
ends 0
says err "removed/metrics.jsonl: was removed or renamed" "removed/events.out.tfevents."
says "$(echo removed/events.out.*)" brain.Event:2 mean_loss
all_lines removed/metrics.jsonl

finish
