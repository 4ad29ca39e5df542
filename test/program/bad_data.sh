#!/usr/bin/env bash
# Token data and tokenizers that do not fit the run: found before the first step, or when they are
# read.
. "$(dirname "$0")/lib.sh"
make_data
make_spec

# Every file that the spec names is looked for before the output directory is created.
train 3 unmade "data.train=[{prefix: text_text_document}, {prefix: ../nothing}]"
says err "data.train.1.prefix: ../nothing.idx: no such file (relative to $work, where"
train 3 unmade "data.validation=[{prefix: $work/nothing}]"
says err "data.validation.0.prefix: $work/nothing.idx: no such file; a token data set is"
train 3 unmade data.tokenizer=missing.model
says err "error: --set data.tokenizer: missing.model: no such file (relative to $work,"
train 3 unmade data.tokenizer=text.txt
says err "data.tokenizer: $work/text.txt: is a text file, not a tokenizer; give a tokenizer.json or"
train 2 unmade data.tokenizer=run.yaml
says err "data.tokenizer: $work/run.yaml: is a YAML file, not a tokenizer"
train 3 unmade data.tokenizer=text_text_document.bin
says err "data.tokenizer: $work/text_text_document.bin: is neither a tokenizer.json nor a sentencepiece"
options=(--resume nowhere)
train 2 unmade
says err "nowhere: no such folder (relative to $work,"
options=(--resume run.yaml)
train 2 unmade
says err "run.yaml: is a YAML file, not a folder; give a checkpoint"
options=()
# A variable of a shell makes no folder, from a spec or an option.
train 2 '${SCRATCH}/run'
says err 'output_dir: found ${SCRATCH}/run; ${SCRATCH} is not expanded; write the path that it stands'
train 2 unmade 'checkpoint.local=$SCRATCH'
says err 'checkpoint.local: found $SCRATCH; $SCRATCH is not expanded'
expect_exit 2 "$gptrain" --config run.yaml --dry-run --timeline '$SCRATCH.svg'
says err '$SCRATCH is not expanded'
expect_exit 2 "$gptrain" new --data text_text_document --tokenizer tok.model --hours 0.01 \
    --device cpu --output '${SCRATCH}.yaml'
says err '${SCRATCH} is not expanded'
[[ -z $(find . -name '*$*') ]] || fail "made $(find . -name '*$*')"
# A pointer of git-LFS is named as such.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n' >pointer
train 3 unmade data.tokenizer=pointer
says err "pointer: is a git-LFS pointer, not the file itself; fetch that with \`git lfs pull\`"
cp text_text_document.idx lfs.idx
cp pointer lfs.bin
train 3 unmade "data.train=[{prefix: lfs}]"
says err "lfs.bin: is a git-LFS pointer"
mkdir hf
cp pointer hf/config.json
expect_exit 3 "$gptrain" import hf --output imported
says err "hf/config.json: is a git-LFS pointer"
cp "$(dirname "$script")/../interop/models/llama/config.json" hf
cp pointer hf/model.safetensors
expect_exit 3 "$gptrain" import hf --output imported
says err "hf/model.safetensors: is a git-LFS pointer"
[[ ! -e unmade ]] || fail "refused runs have made their output directory: $(ls -A unmade)"
cp text_text_document.idx lonely.idx
train 3 run "data.train=[{prefix: lonely}]"
says err "lonely.bin"
head -c 1000 text_text_document.bin >short.bin
cp text_text_document.idx short.idx
train 3 run "data.train=[{prefix: short}]"
says err "short"
cp text_text_document.bin other.bin
head -c 500 text_text_document.idx >other.idx
train 3 run "data.train=[{prefix: other}]"
says err "other.idx"

# A training part without a token; a validation part without one only turns evaluation off.
train 0 shares 'data.split="80,20"' training.steps=1
train 0 shares 'data.split="8,2,0"' training.steps=2
says_not err "error"
train 2 shares 'data.split="8,3,0"' training.steps=3
says err "data.split is"
train 3 run 'data.split="0,100,0"'
says err "data.split" "0,100,0"
train 3 run 'data.split="0.001,99,0"'
printf '{"text": ""}\n' >empty.jsonl
expect_exit 0 "$preprocess" --input empty.jsonl --tokenizer tok.model --output-prefix empty
train 3 run "data.train=[{prefix: empty_text_document}]"
says err "empty_text_document"
train 3 run "data.train=[{prefix: text_text_document}, {prefix: empty_text_document}]"
says err "empty_text_document"
train 0 no_validation "data.validation=[{prefix: empty_text_document}]" training.steps=4 \
    training.eval_interval=2 training.eval_steps=2
(($(grep -c "no evaluation" out) == 1)) || fail "not said once that there is no evaluation: $(cat out)"
says_not no_validation/metrics.jsonl val_loss
train 0 some_validation "data.validation=[{prefix: empty_text_document}, {prefix: text_text_document}]" \
    training.steps=4 training.eval_interval=2 training.eval_steps=2
(($(grep -c val_loss some_validation/metrics.jsonl) == 2)) ||
    fail "no evaluation of the source that has tokens"
# Fewer tokens than a sample: padded, not refused.
printf 'and the\n' >tiny.txt
expect_exit 0 "$preprocess" --input tiny.txt --tokenizer tok.model --output-prefix tiny --append-eod
train 0 tiny "data.train=[{prefix: tiny_text_document}]" 'data.split="1"' training.steps=2

# Tokens of another tokenizer. Files that do not record their tokenizer are accepted, which is
# reported once.
expect_exit 0 "$preprocess" train-tokenizer --type unigram --input text.txt --vocab-size 300 --model-prefix other
expect_exit 0 "$preprocess" --input text.txt --tokenizer other.model --output-prefix other --append-eod
train 2 run "data.train=[{prefix: other_text_document}]"
says err "data.tokenizer $work/tok.model" "other_text_document" "other.model (CRC-32C"
train 2 run "data.validation=[{prefix: other_text_document}]"
train 2 run "data.train=[{prefix: text_text_document}, {prefix: other_text_document}]" \
    data.tokenizer=none
says err "text_text_document, tok.model" "other.model"
train 0 ids "data.train=[{prefix: other_text_document}]" data.tokenizer=none training.steps=1
for name in other more; do
    for suffix in bin idx; do cp other_text_document.$suffix ${name}_plain.$suffix; done
done
train 0 plain "data.train=[{prefix: other_plain}, {prefix: more_plain}]" training.steps=1
(($(grep -c "no .meta.json" out) == 1)) || fail "not said once: $(cat out)"
says out "data: $work/other_plain and 1 more: no .meta.json"
train 0 known training.steps=1
says_not out "meta.json"
sed 's/"documents":[0-9]*/"documents":7/' other_text_document.meta.json >other_plain.meta.json
train 3 run "data.train=[{prefix: other_plain}]"
says err "other_plain.meta.json" "7 documents"
sed 's/"crc32c":/"crc":/' other_text_document.meta.json >other_plain.meta.json
train 3 run "data.train=[{prefix: other_plain}]"
says err "other_plain.meta.json: tokenizer" "'crc'"

# Ids beyond the vocabulary; a tokenizer with more pieces than the vocabulary.
train 3 run data.tokenizer=none data.eod_id=2 model.vocab_size=100
says err "text_text_document" "vocabulary (100)"
train 2 run model.vocab_size=319
says err "model.vocab_size" 319 320
train 0 wide model.vocab_size=321 training.steps=1
train 2 run data.tokenizer=none data.eod_id=320
says err "data.eod_id"
train 2 run data.tokenizer=none data.reset_at_eod=true
says err "data.reset_at_eod" "eod_id"
# Single ids beyond the vocabulary: found when they are read, and no step is lost.
for suffix in bin idx meta.json; do cp text_text_document.$suffix damaged.$suffix; done
for token in 5000 6100 7200 9000; do
    printf '\xff\x7f' | dd of=damaged.bin bs=2 seek=$token conv=notrunc status=none
done
damaged=("data.train=[{prefix: damaged}]" training.steps=80 checkpoint.interval=200)
train 3 found "${damaged[@]}"
says err "damaged.bin: sequence " "token id 32767 is outside the vocabulary (320)" \
    "is saved; repair the data and set data.on_change: continue to go on from it"
step=$(sed -n 's/.*the state after step \([0-9]*\) is saved.*/\1/p' err)
[[ $(ls found/checkpoints) == "step-$(printf %06d "$step")" ]] || fail "saved: $(ls found/checkpoints)"
cp text_text_document.bin damaged.bin
train 0 found "${damaged[@]}" data.on_change=continue
says out "resumed from" "after step $step"

[[ ! -e run/metrics.jsonl || ! -s run/metrics.jsonl ]] || fail "a run that never began has metrics"
[[ -z $(ls run/checkpoints 2>/dev/null) ]] || fail "a run that never began has checkpoints"

finish
