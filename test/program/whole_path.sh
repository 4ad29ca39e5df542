#!/usr/bin/env bash
# From text to a trained model that writes, evaluates and describes: each step of
# docs/your-own-text.md.
. "$(dirname "$0")/lib.sh"

make_text 1 1000 >text.txt
expect_exit 0 "$preprocess" train-tokenizer --type unigram --input text.txt --vocab-size 320 --model-prefix tok
expect_exit 0 "$preprocess" --input text.txt --tokenizer tok.model --output-prefix text --append-eod
make_spec
train 0 run training.steps=60 training.global_batch_size=8 data.num_samples=auto \
    lr_schedule.decay_steps=auto training.eval_interval=20 training.eval_steps=2 \
    logging.interval=5 checkpoint.interval=25
says out "step 60/60" "val_loss" "finished after step 60"
# The start prints in five lines what the run does, the end in one how it went.
starts=('model: 11,968 parameters in 2 layers, fp32'
    'data: [0-9,]+ training tokens, [0-9,]+ validation tokens'
    'run: 60 steps, 7,680 tokens, [0-9.]+ epochs'
    'device: .*; mesh: dp 1 pp 1 cp 1 tp 1; memory: [0-9.]+ [KM]iB' "output: $work/run")
for ((i = 0; i < 5; ++i)); do
    sed -n "$((i + 1))p" out | grep -qxE "${starts[i]}" || fail "line $((i + 1)) of: $(head -n 6 out)"
done
end="finished after step 60: mean_loss [0-9.]+, val_loss [0-9.]+, [0-9]+ tok/s, [0-9]+ s"
end+=" \(goodput [0-9.]+%\), checkpoint $(checkpoint "$work/run" 60)"
tail -n 1 out | grep -qxE "$end" || fail "the last line is: $(tail -n 1 out)"
says_not out $'\r'
says_not out $'\033'

# The loss falls, on training and on validation data.
awk -F '[:,}]' '
    /"val_loss"/ { last_val = $4; if (!first_val) first_val = $4; next }
    /"loss"/ { last = $4; if (!first) first = $4; ++lines }
    END { exit !(lines == 12 && last < 0.8 * first && last_val < 0.9 * first_val) }
' run/metrics.jsonl || fail "the losses do not fall: $(cut -c 1-60 run/metrics.jsonl)"
[[ $(ls run) == $'cache\ncheckpoints\nevents.out.tfevents.'*$'\nmetrics.jsonl\nspec.yaml' ]] ||
    fail "the output directory holds: $(ls run)"
[[ $(ls run/checkpoints) == $'step-000025\nstep-000050\nstep-000060' ]] ||
    fail "checkpoints: $(ls run/checkpoints)"
[[ $(ls "$(checkpoint run 60)") == $'manifest.json\nmodel.h5\nrecord-00000.json\nshard-00000.h5\ntokenizer.model' ]] ||
    fail "a checkpoint holds: $(ls "$(checkpoint run 60)")"
# model.h5 describes its model.
for key in num_layers hidden_size num_query_groups head_dim tie_embeddings init_std; do
    says "$(checkpoint run 60)/model.h5" "$key"
done

# The default finds the CPU if there is no GPU.
if [[ ! -e /dev/nvidiactl ]]; then
    train 0 anywhere device=auto training.steps=1
    says out "device: CPU with "
fi

# spec.yaml is a spec: the same run again, with every default written out and absolute paths.
says run/spec.yaml "output_dir: $work/run" "prefix: $work/text_text_document" "num_samples: auto" \
    "decay_steps: auto" "num_query_groups: 2" "ffn_hidden_size: 64" "compute: fp32"
cp run/spec.yaml spec.yaml
cd run || exit 1
expect_exit 0 "$gptrain" --config ../spec.yaml
says out "nothing left to do: the checkpoint has the run's last step"
says_not out "changed since"
rm out err
cd "$work" || exit 1
same run/spec.yaml spec.yaml

# A model that has learned the words can write them.
expect_exit 0 "$gptrain" generate --checkpoint run --prompt "and the earth" --max-tokens 12 \
    --temperature 0
[[ -s out ]] || fail "no text was generated"
if tr -s ' .' '\n' <out | grep -vxE '[a-z]*' >strange; then fail "strange text: $(cat out)"; fi

# eval: the last line is the result; the run's own training data may be gone.
expect_exit 0 "$gptrain" eval --checkpoint "$(checkpoint run 60)" --data text_text_document
result='^\{"loss": ?[0-9.]+, ?"perplexity": ?[0-9.]+, ?"tokens": ?[0-9]+\}$'
tail -n 1 out | grep -qE "$result" || fail "eval says: $(tail -n 1 out)"
tail -n 1 out >by_prefix
mkdir away
mv text_text_document.* away
expect_exit 0 "$gptrain" eval --checkpoint run --data away/text_text_document
tail -n 1 out >moved
same by_prefix moved
head -n 4 text.txt >some.txt
expect_exit 0 "$gptrain" eval --checkpoint run --data some.txt
tail -n 1 out | grep -qE "$result" || fail "eval of a text says: $(tail -n 1 out)"
expect_exit 2 "$gptrain" eval --checkpoint run
expect_exit 2 "$gptrain" eval --checkpoint nowhere --data some.txt
expect_exit 3 "$gptrain" eval --checkpoint run --data nothing
says err "nothing"
: >empty.txt
expect_exit 3 "$gptrain" eval --checkpoint run --data empty.txt
says err "empty.txt"
mv away/* .

# inspect: spec, data, checkpoint, folder of checkpoints.
expect_exit 0 "$gptrain" inspect run.yaml
says out "ffn_hidden_size: 64" "micro_batch_size: 1" "parameters"
# The epochs are the run's tokens, 20 steps of 2 x 16, over the training tokens.
tokens=$(sed -n 's/^epochs .* of \([0-9,]*\) training tokens$/\1/p' out | tr -d ,)
((tokens > 1000)) || fail "no training tokens: $(cat out)"
says out "epochs         $(awk -v tokens="$tokens" 'BEGIN { printf "%.2f", 640 / tokens }') of "
expect_exit 0 "$gptrain" inspect run.yaml --set "data.train=[{prefix: nothing}]"
says_not out "epochs"
expect_exit 0 "$gptrain" inspect text_text_document
says out "documents    250"
expect_exit 0 "$gptrain" inspect "$(checkpoint run 60)" --verify
says out "step: 60" "480 samples" "every byte verified"
# model.h5 can be made again, and only of a checkpoint.
cp "$(checkpoint run 60)/model.h5" model.h5
expect_exit 2 "$gptrain" inspect "$(checkpoint run 60)" --view
says err "model.h5: exists"
rm "$(checkpoint run 60)/model.h5"
expect_exit 0 "$gptrain" inspect "$(checkpoint run 60)" --view
same model.h5 "$(checkpoint run 60)/model.h5"
expect_exit 2 "$gptrain" inspect run.yaml --view
says err "run.yaml is not one"
expect_exit 0 "$gptrain" inspect run/checkpoints/
(($(wc -l <out) == 3)) || fail "inspect of three checkpoints: $(cat out)"
says out "step-000025" "step-000050" "step-000060"
expect_exit 0 "$gptrain" inspect run
says out "step-000060"
expect_exit 2 "$gptrain" inspect text.txt
says err "text.txt: not a run spec"
cp text.txt step-000060
expect_exit 2 "$gptrain" inspect step-000060
says err "step-000060: not a run spec"
expect_exit 2 "$gptrain" inspect "$(checkpoint run 61)"
says err "step-000061: no such file"
expect_exit 0 "$gptrain" inspect new/checkpoints
mkdir -p none/checkpoints/step-000010.tmp-1
expect_exit 0 "$gptrain" inspect none/checkpoints
truncate -s -1 "$(checkpoint run 60)/shard-00000.h5"
expect_exit 3 "$gptrain" inspect "$(checkpoint run 60)"
says err "shard-00000.h5"
timeout 60 "$gptrain" inspect run/checkpoints >out 2>err
(($? == 3)) || fail "inspect of a folder whose newest checkpoint is damaged exits $?"
says out "step-000060  damaged" "step-000050"

finish
