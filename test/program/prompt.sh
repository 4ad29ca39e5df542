#!/usr/bin/env bash
# Prompt tuning and p-tuning: virtual tokens make a model do one of the tasks that it knows; they
# are trained, saved, resumed, served and exported, and the adapted model stays.
. "$(dirname "$0")/lib.sh"

# Three words of one mood. A model learns to name the mood, the opposite mood, or the first word, as
# a marker asks.
awk 'function next_number(limit) {
    seed = (seed * 16807) % 2147483647
    return seed % limit
}
BEGIN {
    seed = 1
    split("sun joy gold song", words_of_good)
    split("mud ash pain fear", words_of_bad)
    for (i = 0; i < 3000; ++i) {
        mood = next_number(2) ? "good" : "bad"
        text = ""
        for (w = 1; w <= 3; ++w) {
            at = 1 + next_number(4)
            word[w] = mood == "good" ? words_of_good[at] : words_of_bad[at]
            text = text " " word[w]
        }
        other = mood == "bad" ? "good" : "bad"
        kind = i % 3
        print (kind == 0 ? "mood" text " = " mood : kind == 1 ? "other" text " = " other : \
               "first" text " = " word[1]) >"all.txt"
        # Tuned with texts that begin and end with different words, and measured on the others.
        if (word[1] != word[3])
            print "{\"prompt\": \"" text " =\", \"response\": \" " other "\"}" >"other.jsonl"
        else
            print "{\"text\": \"" text " =\", \"other\": " (other == "bad") "}" >"unseen.jsonl"
    }
}'
expect_exit 0 "$preprocess" train-tokenizer --input all.txt --vocab-size 290 --model-prefix tok
expect_exit 0 "$preprocess" --input all.txt --documents line --tokenizer tok.json --output-prefix all --append-eod
expect_exit 0 "$preprocess" chat --input other.jsonl --tokenizer tok.json --output-prefix other
cat >run.yaml <<END
name: moods
output_dir: run
model: {num_layers: 2, hidden_size: 32, num_attention_heads: 4, vocab_size: 290, position_embedding: rope, max_position_embeddings: 64}
data: {train: [{prefix: all_text_document}], split: "90,10,0", tokenizer: tok.json, reset_at_eod: true}
training: {seq_length: 48, micro_batch_size: 8, steps: 200, eval_interval: 0}
optimizer: {lr: 0.01, weight_decay: 0}
lr_schedule: {warmup_steps: 20}
checkpoint: {interval: 0}
device: ${GPTRAIN_TEST_DEVICE:-cpu}
END
train 0 base
expect_exit 0 "$gptrain" export base --format hf --output hf
cat hf/model.safetensors >before

prompt='adapter={kind: prompt, virtual_tokens: 6, init: vocabulary}'
tuning='adapter={kind: p_tuning, virtual_tokens: 6, encoder_hidden_size: 24}'
adapt() { train "$1" "$2" init_from=hf 'data.train=[{prefix: other_text_document}]' optimizer.lr=0.05 "${@:3}"; }
cat >other.yaml <<'END'
kind: multiple_choice
data: unseen.jsonl
prompt: "{{ text }}"
choices: [good, bad]
answer: "{{ other }}"
END
# accuracy MODEL: the share of the texts that were not trained on of which it names the other mood.
accuracy() {
    expect_exit 0 "$gptrain" eval --checkpoint "$1" --task other.yaml --limit 100
    sed -n 's/.*"acc":\([0-9.e-]*\),.*/\1/p' out
}
tensors() { grep -o '{"group":"weight","name":"[^"]*"' "$1/manifest.json" | sed 's/.*:"//; s/"$//'; }

# The untuned model does not know which task is meant. Either kind makes it name the other mood.
untuned=$(accuracy hf)
adapt 0 prompt "$prompt" training.steps=100
says out "of them frozen)" "weights of $work/hf"
[[ $(tensors "$(checkpoint prompt 100)") == prompt.weight ]] ||
    fail "tensors of the checkpoint: $(tensors "$(checkpoint prompt 100)")"
adapt 0 tuning "$tuning" training.steps=100
[[ $(tensors "$(checkpoint tuning 100)" | grep -c '^prompt\.') == 7 ]] ||
    fail "tensors of the checkpoint: $(tensors "$(checkpoint tuning 100)")"
for kind in prompt tuning; do
    tuned=$(accuracy $kind)
    echo "accuracy of the untuned model $untuned, with $kind $tuned"
    awk -v a="$untuned" -v b="$tuned" 'BEGIN { exit !(a < 0.8 && b > 0.95) }' || fail "no better"
    for text in "mud ash mud:good" "joy song joy:bad"; do
        expect_exit 0 "$gptrain" generate --checkpoint $kind --prompt " ${text%:*} =" --max-tokens 9 --temperature 0
        [[ $(cat out) == " ${text#*:}" ]] || fail "${text%:*} is '$(cat out)'"
    done
done
same before hf/model.safetensors

# It begins with embeddings of the vocabulary.
adapt 0 drawn "$prompt" training.steps=1 optimizer.lr=0
expect_exit 0 "$gptrain" export drawn --format hf --output peft-drawn
hex() { od -An -v -tx1 | tr -d ' \n'; }
hex <hf/model.safetensors >model.hex
tail -c $((6 * 32 * 4)) peft-drawn/adapter_model.safetensors | hex | fold -w 256 >rows
while read -r row; do
    grep -qF "$row" model.hex || fail "no embedding of the model is $row"
done < <(cat rows; echo)
(($(sort -u rows | wc -l) > 3)) || fail "rows: $(cat rows)"

# Resumed equals uninterrupted, from either form of the model.
for kind in "$prompt" "$tuning"; do
    for compute in fp32 bf16; do
        some=(logging.interval=1 precision.compute=$compute lr_schedule.decay_steps=20 "$kind")
        rm -rf straight parts
        adapt 0 straight training.steps=20 "${some[@]}"
        adapt 0 parts training.steps=10 "${some[@]}"
        adapt 0 parts training.steps=20 "${some[@]}" init_from=base
        same_run straight parts 20
    done
done
# Its keys, but not how it began, must stay.
adapt 2 parts training.steps=30 "$tuning" adapter.virtual_tokens=7
says err "adapter.virtual_tokens is 6 in the checkpoint but 7"
adapt 2 parts training.steps=30 "$tuning" adapter.encoder_hidden_size=25
says err "adapter.encoder_hidden_size is 24 in the checkpoint but 25"
adapt 2 parts training.steps=30 "$prompt"
says err 'adapter.kind is "p_tuning" in the checkpoint but "prompt"'
adapt 0 prompt "$prompt" training.steps=110 adapter.init=random

# The server writes the same texts as `generate`, many at a time.
if command -v curl >/dev/null; then
    . "$(dirname "$script")/serve_lib.sh"
    serve --checkpoint tuning --answers 3 --context 40
    for i in {1..6}; do
        sed -n "${i}s/{\"prompt\": \"\(.*\)\", \"res.*/\1/p" other.jsonl >"text$i"
        curl -s -m 60 "$url/v1/completions" \
            -d "{\"prompt\":\"$(cat "text$i")\",\"max_tokens\":30,\"seed\":$i}" >"reply$i" &
    done
    for job in $(jobs -p); do [[ $job == "$server" ]] || wait "$job"; done
    ends_well
    for i in {1..6}; do
        expect_exit 0 "$gptrain" generate --checkpoint tuning --prompt "$(cat "text$i")" --max-tokens 30 --seed "$i"
        texts "reply$i" >answer
        same out answer
    done
fi

# For PEFT.
for kind in prompt tuning; do
    expect_exit 0 "$gptrain" export $kind --format hf --output peft-$kind
    says out "exported the adapter"
    says peft-$kind/adapter_config.json '"num_virtual_tokens": 6' '"token_dim": 32'
    head -c 300 peft-$kind/adapter_model.safetensors | tr -d '\0' >header
    says header '"prompt_embeddings":{"dtype":"F32","shape":[6,32]'
done
says peft-prompt/adapter_config.json '"PROMPT_TUNING"'
says peft-tuning/adapter_config.json '"P_TUNING"' '"encoder_hidden_size": 24'

# Requests that make no sense.
adapt 0 eps "$prompt" training.steps=2 model.norm_eps=0.01
expect_exit 2 "$gptrain" export eps --format hf --output no
says err "its model.norm_eps is 0.01" "train the virtual tokens with model.norm_eps: 1e-05"
expect_exit 2 "$gptrain" export prompt --format hf --merge --output no
says err "--merge" "has virtual tokens, which cannot be merged into a model"
expect_exit 2 "$gptrain" export prompt --format gguf --output no.gguf
says err "--format gguf" "is an adapter; write it with --format hf for PEFT"
train 2 no init_from=prompt
says err "is an adapter of virtual tokens, not a model"
adapt 2 no 'adapter={kind: prompt, virtual_tokens: 48}'
says err "adapter.virtual_tokens 48 is not below training.seq_length 48"
adapt 2 no 'adapter={kind: prompt, rank: 4}'
says err "adapter.rank: adapter.kind prompt does not have this key"
expect_exit 2 "$gptrain" generate --checkpoint prompt --chat --template chatml --context 4091 </dev/null
says err "the model has only 4090 positions (64 times model.max_position_embeddings less adapter.virtual_tokens)"

finish
