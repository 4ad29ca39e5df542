#!/usr/bin/env bash
# Problems that a user should know about: one warning each, and none if all is well.
. "$(dirname "$0")/lib.sh"
make_data
make_spec

# warns ONCE-OR-NOT WORDS: `err` is one warning with these words, or (0) has none.
warns() {
    (($(grep -c "^warning: .*$2" err) == $1 && $(wc -l <err) == $1)) ||
        fail "not $1 warning of '$2': $(head -c 600 err)"
}

train 0 quiet training.steps=60 lr_schedule.decay_steps=auto data.num_samples=auto
warns 0 .
# The system may limit the threads.
OMP_THREAD_LIMIT=1 train 0 limited training.steps=1
says out "CPU with 1 thread"

# A loss above that of guessing, after the warmup.
high=(training.steps=60 data.num_samples=auto optimizer.lr=3 lr_schedule.kind=constant
    lr_schedule.decay_steps=auto)
train 0 high "${high[@]}"
warns 1 "mean loss of the last 50 steps, .* ln(vocab_size) = 5.7683.* optimizer.lr (now 3)"
train 0 warming "${high[@]}" lr_schedule.warmup_steps=20
warns 0 "mean loss"

# A run that is too short for its warmup and decay reports that they are shortened; a longer one has
# them in full.
schedule=(lr_schedule.kind=wsd lr_schedule.warmup_steps=20 lr_schedule.wsd_decay_steps=8
    lr_schedule.decay_steps=auto)
train 0 short training.steps=4 "${schedule[@]}"
says out "lr_schedule.warmup_steps shortened from 20 to 3 and lr_schedule.wsd_decay_steps shortened" \
    "because training.steps is 4"
says short/spec.yaml "warmup_steps: 20" "wsd_decay_steps: 8"
grep -q '^{"step": 3,.*"lr": 0.01,' short/metrics.jsonl || fail "the warm-up of 3 steps is not over"
expect_exit 0 "$gptrain" generate --checkpoint short --prompt "and" --max-tokens 1
train 0 short training.steps=30 "${schedule[@]}"
says out "lr_schedule.warmup_steps: 3 -> 20"
says_not out "shortened"

# The same few tokens again and again: figures for the source that is read most.
printf 'and the\n' >tiny.txt
expect_exit 0 "$preprocess" --input tiny.txt --tokenizer tok.model --output-prefix tiny --append-eod
train 0 tiny "data.train=[{prefix: tiny_text_document}]" 'data.split="1"' data.num_samples=auto
warns 1 "tiny_text_document .* times; beyond 40"
# A step reads many passes over them; only passes 2, 4, 8, ... are printed.
says out "data: pass 2 over the training samples" "data: pass 4 over the training samples"
says_not out "data: pass 3 over the training samples"
(($(grep -c '^data: pass' out) < 9)) || fail "$(grep -c '^data: pass' out) lines about passes"
train 0 blend "data.train=[{prefix: text_text_document}, {prefix: tiny_text_document, weight: 3}]" \
    'data.split="1"'
warns 1 "tiny_text_document .* times; beyond 40"

# More threads than cores.
if core=$(taskset -cp $$ 2>err) && core=${core##*: } && core=${core%%[,-]*}; then
    settings output_dir=threads training.steps=1
    expect_exit 0 env OMP_NUM_THREADS=3 taskset -c "$core" "$gptrain" --config run.yaml "${set[@]}"
    warns 1 "OMP_NUM_THREADS sets 3 threads, but this process may use only 1 core"
    expect_exit 0 env OMP_NUM_THREADS=1 taskset -c "$core" "$gptrain" --config run.yaml "${set[@]}"
    warns 0 .
fi

# Tables and JSON read as plain text.
make_text 5 20 >table.csv
awk '{ print "{\"text\": \"" $0 "\"}" }' table.csv >objects.txt
for data in table.csv objects.txt; do
    expect_exit 0 "$gptrain" eval --checkpoint quiet --data $data
    warns 1 "$data: .*read as plain text"
done
expect_exit 0 "$gptrain" eval --checkpoint quiet --data text.txt
warns 0 .

finish
