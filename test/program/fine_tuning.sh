#!/usr/bin/env bash
# Fine-tuning on conversations: docs/fine-tuning.md from JSON lines to a model that answers.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"

make_text 1 400 | awk 'NF { gsub(/\./, ""); printf "{\"prompt\": \"say %s\", \"response\": \"%s\"}\n", $1, $1 }' >qa.jsonl
make_text 1 1000 >text.txt
expect_exit 0 "$preprocess" train-tokenizer --input text.txt --vocab-size 319 --model-prefix tok
chat() { expect_exit 0 "$preprocess" chat --tokenizer tok.json --template chatml "$@"; }
chat --input qa.jsonl --output-prefix qa
says out "wrote qa_text_document.bin, .idx, .mask, .chat_template.jinja and .meta.json: 400 documents"
expect_exit 0 "$preprocess" --input text.txt --tokenizer tok.json --output-prefix text --append-eod
make_spec
sed -i 's/tok.model/tok.json/; s/text_text_document/qa_text_document/' run.yaml
masked() { train "$1" "$2" training.seq_length=64 training.steps=40 \
    training.global_batch_size=4 lr_schedule.decay_steps=40 optimizer.lr=0.02 data.num_samples=auto \
    training.eval_interval=20 training.eval_steps=2 "${@:3}"; }

# The loss of learned tokens falls, in training and validation.
masked 0 straight
says out "training tokens, " " of them learned, " \
    "data.reset_at_eod: true (auto): $work/qa_text_document holds conversations"
says straight/spec.yaml "reset_at_eod: true"
awk -F '[:,}]' '
    /"val_loss"/ { last_val = $4; if (!first_val) first_val = $4; next }
    /"loss"/ { last = $4; if (!first) first = $4; ++lines }
    END { exit !(lines == 40 && last < 0.7 * first && last_val < first_val) }
' straight/metrics.jsonl || fail "the losses do not fall: $(cut -c 1-60 straight/metrics.jsonl)"

# A mask changes what is trained, and only that: the same tokens without one have other losses.
for suffix in bin idx; do cp qa_text_document.$suffix all_text_document.$suffix; done
sed 's/,"mask":{[^}]*}//' qa_text_document.meta.json >all_text_document.meta.json
masked 0 unmasked 'data.train=[{prefix: all_text_document}]'
says_not out "of them learned"
differ straight/metrics.jsonl unmasked/metrics.jsonl

# Resumed equals uninterrupted, with recompute and blends as well.
for variant in "recompute=none" \
    "data.train=[{prefix: qa_text_document, weight: 2}, {prefix: text_text_document}]"; do
    rm -rf whole parts
    masked 0 whole "$variant"
    masked 0 parts "$variant" training.steps=20
    masked 0 parts "$variant"
    same_run whole parts 40
done
masked 0 full recompute=full data.reset_at_eod=true
same "$(checkpoint straight 40)/shard-00000.h5" "$(checkpoint full 40)/shard-00000.h5"

# A run that resumes keeps what its checkpoint has, of whatever version.
for steps in 4 8; do masked 0 whole_false data.reset_at_eod=false training.steps=$steps; done
masked 0 kept data.reset_at_eod=false training.steps=4
masked 0 kept training.steps=8
says out "data.reset_at_eod: false (auto): as in the checkpoint"
says_not out "changed since the checkpoint: data.reset_at_eod"
same "$(checkpoint whole_false 8)/shard-00000.h5" "$(checkpoint kept 8)/shard-00000.h5"
masked 0 kept training.steps=9 data.reset_at_eod=true
says out "changed since the checkpoint: data.reset_at_eod: false -> true"
# A plan looks at the data as a fresh start does, and needs none.
for command in "inspect run.yaml" "train run.yaml --dry-run"; do
    expect_exit 0 "$gptrain" $command
    says out "data.reset_at_eod: true (auto): "
    expect_exit 0 "$gptrain" $command --set 'data.train=[{prefix: absent}]'
    says_not out "data.reset_at_eod"
done

# eval measures learned tokens alone, and as many as inspect counts (the first token has no input).
expect_exit 0 "$gptrain" eval --checkpoint straight --data qa_text_document
tail -n 1 out >masked_eval
expect_exit 0 "$gptrain" eval --checkpoint straight --data all_text_document
tail -n 1 out >all_eval
differ masked_eval all_eval
expect_exit 0 "$gptrain" inspect qa_text_document
learned=$(sed -n 's/^  learned *\([0-9]*\) (.*/\1/p' out)
says masked_eval "\"tokens\":$learned}"
awk -F '[:,]' 'NR == 1 { masked = $2 } NR == 2 { exit !(masked < $2) }' masked_eval all_eval ||
    fail "learned tokens are not easier: $(cat masked_eval all_eval)"

# With weights the loss is the weighted mean over the learned tokens: of two halves of the
# conversations, one with the weight 0.25, from the losses of each half alone.
for part in first second both; do
    awk -v part=$part 'BEGIN { w["first", 0] = w["second", 1] = 1; w["both", 0] = 0.25; w["both", 1] = 1 }
        { split($0, t, "\""); printf "{\"messages\": ["
          for (turn = 0; turn < 2; ++turn)
              printf "%s{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\", \"weight\": %s}",
                  turn ? ", " : "", t[4], turn ? t[4] : t[8], w[part, turn] + 0
          print "]}" }' qa.jsonl >weighted.jsonl
    chat --input weighted.jsonl --output-prefix $part
    expect_exit 0 "$gptrain" eval --checkpoint straight --data ${part}_text_document
    tail -n 1 out >>weighted_evals
done
awk -F '[:,}]' '{ loss[NR] = $2; tokens[NR] = $6 } END {
    mean = (0.25 * tokens[1] * loss[1] + tokens[2] * loss[2]) / (0.25 * tokens[1] + tokens[2])
    apart = loss[3] / mean - 1; sum = 0.25 * tokens[1] + tokens[2] - tokens[3]
    exit !(apart < 1e-5 && apart > -1e-5 && sum <= 0.5 && sum >= -0.5 && loss[1] != loss[2]) }' weighted_evals ||
    fail "weights: $(cat weighted_evals)"
expect_exit 0 "$gptrain" inspect both_text_document
says out "of them count less than 1"
masked 0 weighted training.steps=4 'data.train=[{prefix: both_text_document}]'
masked 0 unweighted training.steps=4 'data.train=[{prefix: second_text_document}]'
differ weighted/metrics.jsonl unweighted/metrics.jsonl
sed -i '1s/^/x/' both_text_document.weights
masked 3 damaged_weights 'data.train=[{prefix: both_text_document}]'
says err "both_text_document.weights: does not start with GPTWGHT"

# inspect shows the documents, learned text between marks; on a terminal in colour (terminal.sh).
expect_exit 0 "$gptrain" inspect qa_text_document --tokenizer tok.json
word=$(sed -n '1s/.*"response": "\(.*\)".*/\1/p' qa.jsonl)
says out "document 0:" "say $word<|im_end|>" "{+$word<|im_end|>" "<|endoftext|>+}" "document 2:"
expect_exit 2 "$gptrain" inspect run.yaml --tokenizer tok.json
says err "--tokenizer shows token data"
expect_exit 3 "$gptrain" inspect qa_text_document --tokenizer text.txt
expect_exit 0 "$preprocess" train-tokenizer --input text.txt --vocab-size 300 --model-prefix tok2
expect_exit 2 "$gptrain" inspect qa_text_document --tokenizer tok2.json
says err "qa_text_document was not tokenized with --tokenizer tok2.json"

# The model answers with the template that it was trained with, which is in its checkpoints.
# An answer ends at the template's mark of a turn, of which this tokenizer makes several tokens.
for ((i = 0; i < 40; ++i)); do echo '{"prompt": "say", "response": "day"}'; done >say.jsonl
chat --input say.jsonl --output-prefix say
masked 0 talk training.steps=60 lr_schedule.decay_steps=60 'data.train=[{prefix: say_text_document}]'
same say_text_document.chat_template.jinja "$(checkpoint talk 60)/chat_template.jinja"
ask_model() {
    expect_exit "$1" "$gptrain" generate --checkpoint "$2" --chat --prompt say --max-tokens 12 \
        --temperature 0 "${@:3}"
}
for choice in "" "--template chatml" "--template say_text_document.chat_template.jinja"; do
    ask_model 0 talk $choice
    [[ $(cat out) == day ]] || fail "'$choice': $(cat out)"
done
ask_model 0 talk --template plain
[[ $(cat out) != day ]] || fail "--template plain changes nothing"
ask_model 2 unmasked
says err "unmasked/checkpoints/step-000040: has no chat template"
if command -v curl >/dev/null; then
    serve --checkpoint talk
    ask 200 /v1/chat/completions -d '{"messages": [{"role": "user", "content": "say"}],
        "max_tokens": 12, "temperature": 0}'
    says reply '"content":"day"'
    ends_well
fi
sed -i 's/user/User/; 1s/im_start/im_begin/' "$(checkpoint talk 60)/chat_template.jinja"
ask_model 3 "$(checkpoint talk 60)"
says err "chat_template.jinja: "

# It comes before the one next to the tokenizer, and a resumed run may have another one.
mkdir model
cp tok.json model/tokenizer.json
echo 'Say {{ messages[-1].content }}' >model/chat_template.jinja
echo '{"chat_template": "say {{ messages }}"}' >model/tokenizer_config.json
masked 0 own training.steps=2 data.tokenizer=model 'data.train=[{prefix: all_text_document}]'
same model/chat_template.jinja "$(checkpoint own 2)/chat_template.jinja"
masked 0 own training.steps=4 data.tokenizer=model 'data.train=[{prefix: all_text_document}]'
says_not out "chat template"
cp qa_text_document.chat_template.jinja all_text_document.chat_template.jinja
masked 0 own training.steps=6 data.tokenizer=model 'data.train=[{prefix: all_text_document}]'
says out "changed since the checkpoint: chat template: now $work/all_text_document.chat_template.jinja"
same qa_text_document.chat_template.jinja "$(checkpoint own 6)/chat_template.jinja"
for form in hf gguf; do expect_exit 0 "$gptrain" export own --format $form --output own-$form; done
same qa_text_document.chat_template.jinja own-hf/chat_template.jinja
says_not own-hf/tokenizer_config.json "chat_template"
grep -qa "tokenizer.chat_template.*im_start" own-gguf || fail "the GGUF file has another template"
rm all_text_document.chat_template.jinja
masked 0 own training.steps=8 'data.train=[{prefix: all_text_document}]'
says out "changed since the checkpoint: chat template: now none"
[[ ! -e $(checkpoint own 8)/chat_template.jinja ]] || fail "the template is still there"

# A run without a tokenizer keeps the template for exports. Sources have one template.
masked 0 ids training.steps=2 data.tokenizer=none data.eod_id=318
expect_exit 0 "$gptrain" export ids --format hf --output ids-hf
says err "without a tokenizer"
expect_exit 0 "$gptrain" export ids --format hf --output ids-model --tokenizer-from model
for folder in ids-hf ids-model; do same qa_text_document.chat_template.jinja $folder/chat_template.jinja; done
cp model/chat_template.jinja text_text_document.chat_template.jinja
for key in train validation; do
    masked 3 refused 'data.train=[{prefix: qa_text_document}, {prefix: all_text_document}]' \
        "data.$key=[{prefix: qa_text_document}, {prefix: text_text_document}]"
    says err "text_text_document.chat_template.jinja: is another chat template than " \
        "qa_text_document.chat_template.jinja; make all conversations with one template"
done
echo '{% if' >text_text_document.chat_template.jinja
masked 3 refused 'data.train=[{prefix: text_text_document}]'
says err "text_text_document.chat_template.jinja: line 1: "
[[ ! -e refused ]] || fail "a refused run began"
rm text_text_document.chat_template.jinja

# A mask that is missing, damaged or another's stops everything that would read it.
cp qa_text_document.mask good.mask
printf '\377' | dd of=qa_text_document.mask bs=1 seek=100 conv=notrunc status=none
masked 3 damaged
says err "qa_text_document.mask: is damaged"
[[ ! -e damaged/checkpoints ]] || fail "a run with a damaged mask began"
expect_exit 3 "$gptrain" eval --checkpoint straight --data qa_text_document
says err "qa_text_document.mask: is damaged"
expect_exit 3 "$gptrain" inspect qa_text_document
head -c 60 good.mask >qa_text_document.mask
masked 3 damaged
says err "qa_text_document.mask: is 60 bytes long"
rm qa_text_document.mask
masked 3 damaged
says err "qa_text_document.mask: no such loss mask"
head -n 390 qa.jsonl >fewer.jsonl
chat --input fewer.jsonl --output-prefix fewer
cp fewer_text_document.mask qa_text_document.mask
masked 3 damaged
says err "qa_text_document.mask: is the loss mask of other token files"
cp good.mask all_text_document.mask
expect_exit 3 "$gptrain" inspect all_text_document
says err "all_text_document.mask: no " "names this loss mask"
rm all_text_document.mask

# A resumed run does not silently continue with another mask.
cp good.mask qa_text_document.mask
masked 0 changed training.steps=10
masked 2 changed 'data.train=[{prefix: all_text_document}]'
says err "data.train"
masked 0 changed 'data.train=[{prefix: all_text_document}]' data.on_change=continue

# A batch of which nothing is learned is left out, with a warning, and the run continues.
awk 'BEGIN { for (i = 0; i < 40; ++i) printf "{\"prompt\": \"%s\", \"response\": \"light\"}\n",
    sprintf("%60s", "") }' >long.jsonl
chat --input long.jsonl --output-prefix long
masked 0 sparse 'data.train=[{prefix: long_text_document}]' training.global_batch_size=1 \
    training.seq_length=8 training.eval_interval=0 faults.max_skipped_steps=1
says err "no token of the batch is learned; update skipped"
grep -q '"loss": null' sparse/metrics.jsonl || fail "no step without a loss"
awk -F '"skipped_steps": ' 'NF > 1 { skipped = $2 + 0 } END { exit !(skipped > 0 && skipped < 40) }' sparse/metrics.jsonl ||
    fail "skipped: $(tail -n 1 sparse/metrics.jsonl)"

finish
