#!/usr/bin/env bash
# gptrain import and export, and runs that start from weights (init_from).
. "$(dirname "$0")/lib.sh"
models=$(dirname "$script")/../interop/models
make_data
make_spec

# One of our models, to transformers and back: the same weights and the same loss.
train 0 run model.position_embedding=rope model.normalization=rmsnorm model.activation=swiglu \
    model.bias=false
expect_exit 0 "$gptrain" export run --format hf --output hf
says out "read back: the logits of 16 tokens differ by at most 0;" "exported to $work/hf in fp32"
[[ $(ls hf | tr '\n' ' ') == "config.json generation_config.json gptrain.sentencepiece model.safetensors tokenizer.json tokenizer_config.json " ]] ||
    fail "files: $(ls hf)"
says hf/config.json '"LlamaForCausalLM"' '"eos_token_id": 2'
expect_exit 0 "$gptrain" inspect hf
says out "model of Hugging Face's transformers hf" "model:" "  num_layers: 2" "  position_embedding: rope"
says_not out "optimizer:" "training:"
expect_exit 0 "$gptrain" import hf --output back/again
[[ ! -s err ]] || fail "$(cat err)"
same tok.model back/again/tokenizer.model
expect_exit 0 "$gptrain" export back/again --format hf --output once-more
[[ $(ls once-more) == "$(ls hf)" ]] || fail "files: $(ls once-more)"
same tok.model once-more/gptrain.sentencepiece
expect_exit 0 "$gptrain" inspect back/again --verify
says out "step: 0" "(weight)" "num_layers: 2"
loss_of() {
    expect_exit 0 "$gptrain" eval --checkpoint "$1" --data text_text_document
    tail -n 1 out
}
expected=$(loss_of run)
[[ $expected == '{"loss":'* && $(loss_of back/again) == "$expected" ]] ||
    fail "losses: $expected and $(loss_of back/again)"
expect_exit 0 "$gptrain" generate --checkpoint back/again --prompt "3 4 5" --max-tokens 4
cp -r hf odd
sed -i 's/"eos_token_id": 2/"eos_token_id": [-1, 99999999999]/' odd/generation_config.json
expect_exit 0 "$gptrain" generate --checkpoint odd --prompt "3 4 5" --max-tokens 4

# In 16 bits the logits are near; several files make the same model.
for dtype in bf16 fp16; do
    expect_exit 0 "$gptrain" export "$(checkpoint run 20)" --format hf --output $dtype \
        --dtype $dtype --max-shard-size 0.005MB
    says out "exported to $work/$dtype in $dtype"
    says $dtype/model.safetensors.index.json "model-00001-of-0000"
    says_not out "differ by at most 0;"
done
expect_exit 0 "$gptrain" import bf16 --output from-bf16

# The exact GELU goes both ways, but not to llama.cpp.
train 0 exact training.steps=2 model.activation=gelu_erf
expect_exit 0 "$gptrain" export exact --format hf --output hf-exact
says hf-exact/config.json '"GPT2LMHeadModel"' '"activation_function": "gelu"'
expect_exit 0 "$gptrain" import hf-exact --output from-exact
expect_exit 0 "$gptrain" inspect from-exact
says out "activation: gelu_erf"
expect_exit 2 "$gptrain" export exact --format gguf --output none
says err "gpt2 of llama.cpp has no model.activation gelu_erf" "--format hf"

# GPT-2 always has biases: without any they are 0.
train 0 unbiased training.steps=2 model.bias=false
expect_exit 0 "$gptrain" export unbiased --format hf --output hf-unbiased
says out "differ by at most 0;"
expect_exit 0 "$gptrain" import hf-unbiased --output from-unbiased
expect_exit 0 "$gptrain" inspect from-unbiased
says out "bias: true"

# A failed export or import leaves nothing.
train 0 mixed model.normalization=rmsnorm
expect_exit 2 "$gptrain" export mixed --format hf --output none
says err "no class of Hugging Face's transformers" "model.normalization rmsnorm"
expect_exit 2 "$gptrain" export run --format hf --output hf
says err "--output $work/hf: exists"
expect_exit 2 "$gptrain" export run --format hf --output none --dtype int8
expect_exit 2 "$gptrain" export run --format hf --output none --max-shard-size 5
expect_exit 2 "$gptrain" import hf --output back/again
expect_exit 2 "$gptrain" import nowhere --output none
cp -r hf faulty
sed -i 's/"hidden_act": "silu"/"hidden_act": "relu"/' faulty/config.json
expect_exit 3 "$gptrain" import faulty --output none
says err "faulty/config.json: 'hidden_act' is \"relu\""
sed 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' hf/config.json >faulty/config.json
expect_exit 0 "$gptrain" import faulty --output half
says err "warning: faulty: " "tensors are not used, among them model.layers.1."
cp hf/config.json faulty/config.json
truncate -s -1 faulty/model.safetensors
expect_exit 3 "$gptrain" import faulty --output none
says err "faulty/model.safetensors"
rm faulty/model.safetensors
expect_exit 3 "$gptrain" import faulty --output none
says err "has neither model.safetensors nor model.safetensors.index.json"
mkfifo faulty/model.safetensors
expect_exit 3 "$gptrain" import faulty --output none
says err "faulty/model.safetensors: not a regular file"
sed 's/"num_key_value_heads": 2/"num_key_value_heads": 3/' hf/config.json >faulty/config.json
expect_exit 3 "$gptrain" import faulty --output none
says err "faulty/config.json: num_attention_heads 2 is not a multiple of 3, num_key_value_heads;"
sed 's/"rms_norm_eps": [^,]*/"rms_norm_eps": 1e999/' hf/config.json >faulty/config.json
expect_exit 3 "$gptrain" import faulty --output none
says err "a number is too large for double precision"
(($(ls -A | grep -c '^none') == 0)) || fail "left over: $(ls -A)"

# A signal leaves nothing either, or comes too late.
"$gptrain" export run --format hf --output stopped >out 2>err &
pid=$!
for ((i = 0; i < 1000; ++i)); do
    compgen -G 'stopped.tmp-*' >found && break
    sleep 0.002
done
kill -TERM "$pid" 2>kill.err
wait "$pid"
[[ -e stopped ]] || (($(ls -A | grep -c '^stopped') == 0)) || fail "left over: $(ls -A | grep '^stopped')"

# The next export removes what a killed one left.
bash -c 'exit' &
pid=$!
wait "$pid"
mkdir killed.tmp-$pid-5-$(uname -n)
touch killed.tmp-$pid-5-$(uname -n)/part killed.gguf.tmp-$pid-5-$(uname -n)
kept=(killed.tmp-$$-5-$(uname -n) killed.tmp-$pid-5-elsewhere killed.tmp-aside other.tmp-$pid-5-$(uname -n))
touch "${kept[@]}"
expect_exit 0 "$gptrain" export run --format hf --output killed
says out "removing unfinished $work/killed.tmp-$pid-5-$(uname -n)"
[[ ! -e killed.tmp-$pid-5-$(uname -n) && -e killed.gguf.tmp-$pid-5-$(uname -n) ]] || fail "left: $(ls -d killed*)"
for path in "${kept[@]}"; do
    [[ -e $path ]] || fail "$path was removed"
done
rm -r killed*.tmp-* other.tmp-*

# Models of real transformers classes are imported and exported.
for model in gpt2 llama llama3 llama_tied ministral mistral_window qwen2 qwen3 stablelm starcoder2; do
    expect_exit 0 "$gptrain" import "$models/$model" --output in-$model
    expect_exit 0 "$gptrain" export in-$model --format hf --output out-$model
    says out "differ by at most 0;"
done
same "$models/gpt2/generation_config.json" out-gpt2/generation_config.json
expect_exit 2 "$gptrain" export in-gpt2 --format hf --output tokens --tokenizer-from "$models/gpt2"
says err "has no tokenizer file"
mkdir unread
cp hf/tokenizer*.json unread
expect_exit 0 "$gptrain" export in-gpt2 --format hf --output tokens --tokenizer-from unread
says err "warning: unread/tokenizer.json: " "does not know the tokenizer's size"
same hf/tokenizer.json tokens/tokenizer.json

# One of our sentencepiece models becomes tokenizer.json wherever it comes from; its companions
# stay.
mkdir ours
cp tok.model ours/tokenizer.model
echo 'say {{ messages }}' >ours/chat_template.jinja
echo '{"model_max_length": 1, "note": "kept"}' >ours/tokenizer_config.json
train 0 with-ours model.position_embedding=rope model.normalization=rmsnorm \
    model.activation=swiglu model.bias=false training.steps=2 data.tokenizer=ours
expect_exit 0 "$gptrain" export run --format hf --output ours-given --tokenizer-from ours
expect_exit 0 "$gptrain" export with-ours --format hf --output ours-saved
for folder in ours-given ours-saved; do
    [[ ! -e $folder/tokenizer.model ]] || fail "$folder has a tokenizer.model"
    same hf/tokenizer.json $folder/tokenizer.json
    same ours/chat_template.jinja $folder/chat_template.jinja
    says $folder/tokenizer_config.json '"note": "kept"' '"model_max_length": 16' \
        '"tokenizer_class": "PreTrainedTokenizerFast"' '"eos_token": "</s>"'
done

# Every end of text in a config.json counts; init_std may be 0.
cp -r hf ends
rm ends/generation_config.json ends/tokenizer*.json ends/gptrain.sentencepiece
generate_ends() {
    sed -i "s/\"eos_token_id\": [^]a-z]*\(\],\|,\)/\"eos_token_id\": $1,/; s/\"initializer_range\": [^,]*/\"initializer_range\": 0.0/" ends/config.json
    expect_exit 0 "$gptrain" generate --checkpoint ends --prompt "3 4 5" --max-tokens 6 --temperature 0
}
generate_ends '[]'
written=$(cat out)
read -ra words <<<"${written#3 4 5}"
generate_ends "[2, ${words[2]}]"
(($(wc -w <out) < $(wc -w <<<"$written"))) || fail "does not end at ${words[2]}: $(cat out), as $written"
expect_exit 0 "$gptrain" import ends --output in-ends
says in-ends/generation_config.json "${words[2]}"
# A generation_config.json replaces them, even if it has no ends, as in transformers.
echo '{}' >ends/generation_config.json
generate_ends "[2, ${words[2]}]"
[[ $(cat out) == "$written" ]] || fail "a generation_config.json without ends: $(cat out), not $written"

# One file for llama.cpp. A model that it cannot express, or an output that exists, leaves nothing.
expect_exit 2 "$gptrain" export run --format gguf --output run.gguf
says err "tokenizer.model: llama.cpp cannot read this tokenizer: a unigram model"
make_text 1 1000 >text.txt
mkdir bytes
expect_exit 0 "$preprocess" train-tokenizer --input text.txt --vocab-size 320 \
    --model-prefix bytes/tokenizer
expect_exit 0 "$gptrain" export run --format gguf --output run.gguf --tokenizer-from bytes
says out "read back: the logits of 16 tokens differ by at most 0;" "exported to $work/run.gguf in fp32"
[[ $(head -c 4 run.gguf) == GGUF ]] || fail "run.gguf is no GGUF file"
# The quickstart's model, with the tokenizer that train-tokenizer makes by default.
mkdir data
cp bytes/tokenizer.json data/quickstart.json
expect_exit 0 "$preprocess" --input text.txt --tokenizer data/quickstart.json --output-prefix data/quickstart
settings training.steps=1 training.micro_batch_size=1 training.eval_interval=0 model.num_layers=1
expect_exit 0 "$gptrain" --config "$(dirname "$script")/../../configs/quickstart.yaml" "${set[@]}"
expect_exit 0 "$gptrain" export runs/quickstart --format gguf --output quickstart.gguf
[[ ! -s err ]] || fail "the quickstart's export warns: $(cat err)"
mkdir listed
cp bytes/tokenizer.json listed
echo '{"chat_template": [{"name": "default", "template": "as {{ messages }}"}]}' >listed/tokenizer_config.json
expect_exit 0 "$gptrain" export run --format gguf --output listed.gguf --tokenizer-from listed
grep -qa "as {{ messages }}" listed.gguf || fail "listed.gguf has no chat template"
expect_exit 2 "$gptrain" export in-gpt2 --format hf --output none --tokenizer-from bytes
says err "--tokenizer-from bytes: has 320 tokens, but the model has only"
for dtype in bf16 fp16; do
    expect_exit 0 "$gptrain" export in-llama --format gguf --output deep/$dtype.gguf --dtype $dtype
    says err "was written without a tokenizer"
done
for model in gpt2 llama3 ministral mistral_window qwen2 qwen3 stablelm starcoder2; do
    expect_exit 0 "$gptrain" export in-$model --format gguf --output $model.gguf
    says out "differ by at most 0;"
done
expect_exit 0 "$gptrain" export in-mistral_window --format gguf --output window.gguf
says err "is for texts of at most 5 tokens" "model.sliding_window"
train 0 no-window model.position_embedding=rope model.normalization=rmsnorm \
    model.activation=swiglu model.bias=false model.qkv_bias=true training.steps=2 \
    model.sliding_window=8 'model.full_attention_layers=[0, 1]'
expect_exit 0 "$gptrain" export no-window --format gguf --output no-window.gguf --tokenizer-from bytes
[[ ! -s err ]] || fail "no layer has a window: $(cat err)"
expect_exit 2 "$gptrain" export in-llama --format gguf --output gpt2.gguf
says err "--output $work/gpt2.gguf: exists"
expect_exit 2 "$gptrain" export in-llama --format gguf --output none --max-shard-size 5GB
says err "--format gguf writes one file"
expect_exit 2 "$gptrain" export mixed --format gguf --output none
says err "model.normalization rmsnorm"
(($(ls -A | grep -c '^none\|tmp-') == 0)) || fail "left over: $(ls -A)"

# A run starts from weights, wherever they are: the same first loss, which differs from a fresh
# start's.
shape=(model.position_embedding=rope model.normalization=rmsnorm model.activation=swiglu
    model.bias=false training.steps=2)
first_loss() { sed -n 's/^{"step": 1, "loss": \([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }
train 0 fresh "${shape[@]}"
for from in run "$(checkpoint run 20)" "$(checkpoint run 20)/model.h5" back/again hf; do
    name=from-${from//[\/.]/-}
    train 0 "$name" "${shape[@]}" init_from="$from"
    says out "starting with the weights of"
    [[ -z ${first:=$(first_loss "$name")} || $(first_loss "$name") == "$first" ]] ||
        fail "init_from $from: first loss $(first_loss "$name"), not $first"
done
[[ $first != "$(first_loss fresh)" ]] || fail "init_from changed nothing: $first"
says from-hf/spec.yaml "init_from: $work/hf"
# On resume its own checkpoint counts, even if the weights are gone.
mv hf gone
train 0 from-hf "${shape[@]}" init_from=hf training.steps=4
says out "after step 2"
mv gone hf

# Models that differ are errors, before anything is written.
refused() {
    train 2 refused "${shape[@]}" init_from=hf "$1"
    says err "init_from: $work/hf: $2" "${@:3}"
    [[ ! -e refused ]] || fail "a refused run has made its output directory"
}
refused model.hidden_size=32 "tensor" "16"
refused model.num_layers=3 "model.num_layers is 2 there, but 3 in this run"
refused model.vocab_size=321 "tensor wte.weight has shape [320, 16] there" "[321, 16] in this run"
refused model.num_attention_heads=4 "model.num_attention_heads is 2 there, but 4"
refused model.tie_embeddings=false "has no tensor head.weight" "[320, 16]"
train 2 refused "${shape[@]}" init_from=nowhere
says err "nowhere: no such folder"
[[ ! -e refused ]] || fail "a refused run has made its output directory"
train 0 theta "${shape[@]}" init_from=hf model.rope_theta=5.0e5
says out "init_from: model.rope_theta is 10000 there and 5e+05 in this run"
says_not out "model.rope_scaling" "model.sliding_window"
# Nor does what changes no shape pass without a line.
sed 's/"rope_type": "default"/"rope_type": "linear", "factor": 32.0/' hf/config.json >config.json
differ hf/config.json config.json
cp -r hf scaled
mv config.json scaled
train 0 unscaled "${shape[@]}" init_from=scaled
says out 'init_from: model.rope_scaling is {"kind":"linear","factor":32' 'there and "none" in this run'
train 0 windowed "${shape[@]}" init_from=hf model.sliding_window=8
says out 'init_from: model.sliding_window is "none" there and 8 in this run'

# A run that takes the tokenizer of the weights keeps it in its checkpoints; otherwise a message
# says so.
cp -r hf named
cp bytes/tokenizer.json named
rm named/tokenizer_config.json named/gptrain.sentencepiece
train 0 unnamed "${shape[@]}" init_from=named data.tokenizer=none
says out "init_from: the run has no tokenizer" "data.tokenizer: $work/named"
expect_exit 0 "$preprocess" --input text.txt --tokenizer named --output-prefix named-text --append-eod
train 0 with-named "${shape[@]}" init_from=named data.tokenizer=named \
    'data.train=[{prefix: named-text_text_document}]'
says_not out "has no tokenizer"
# Without its own tokenizer, a model ends texts as the given one does.
expect_exit 0 "$gptrain" export unnamed --format hf --output given --tokenizer-from bytes
grep -q '"eos_token_id": [0-9]' given/config.json || fail "no end token: $(cat given/config.json)"
mv named gone
expect_exit 0 "$gptrain" generate --checkpoint with-named --prompt "let there" --max-tokens 4
expect_exit 0 "$gptrain" eval --checkpoint with-named --data text.txt
for format in hf gguf; do
    expect_exit 0 "$gptrain" export with-named --format $format --output with-named.$format
    [[ ! -s err ]] || fail "$format: $(cat err)"
done
# Prompts begin with the begin-of-text token where a tokenizer's files say so, and once.
for ((i = 0; i < 40; ++i)); do cat text.txt; done >long.txt
(echo -n "<|endoftext|>" && cat long.txt) >marked.txt
tokens_of() {
    expect_exit 2 "$gptrain" generate --checkpoint marked --prompt-file "$1"
    sed -n 's/.*the prompt has \([0-9]*\) tokens.*/\1/p' err
}
cp -r gone marked
plain=$(tokens_of long.txt)
sed 's/"post_processor":[^,}]*/"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|endoftext|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]}/' \
    bytes/tokenizer.json >marked/tokenizer.json
differ bytes/tokenizer.json marked/tokenizer.json
(($(tokens_of long.txt) == plain + 1)) || fail "$plain tokens, with a post-processor $(tokens_of long.txt)"
(($(tokens_of marked.txt) == plain + 1)) || fail "$plain tokens, with two marks $(tokens_of marked.txt)"
echo '{"add_bos_token": false}' >marked/tokenizer_config.json
(($(tokens_of long.txt) == plain)) || fail "$plain tokens, but without the token $(tokens_of long.txt)"
cp bytes/tokenizer.json marked
echo '{"add_bos_token": true, "bos_token": "<|endoftext|>"}' >marked/tokenizer_config.json
(($(tokens_of long.txt) == plain + 1)) || fail "$plain tokens, with add_bos_token $(tokens_of long.txt)"
rm marked/tokenizer.json
cp tok.model marked/tokenizer.model
spelled=$(tokens_of long.txt)
rm marked/tokenizer_config.json
(($(tokens_of long.txt) == spelled - 1)) || fail "$spelled tokens, without <s> $(tokens_of long.txt)"
# The same of vocab.json and merges.txt.
bpe=$(dirname "$script")/../tokenizer/bpe
cp "$bpe"/{vocab.json,merges.txt} .
expect_exit 0 "$preprocess" --input text.txt --tokenizer vocab.json --output-prefix vocab
train 0 vocab "${shape[@]}" model.vocab_size=480 data.tokenizer=vocab.json \
    'data.train=[{prefix: vocab_text_document}]'
rm vocab.json merges.txt
expect_exit 0 "$gptrain" generate --checkpoint vocab --prompt "let there" --max-tokens 4
expect_exit 0 "$gptrain" export vocab --format gguf --output vocab.gguf
mv gone named

# An imported model has no run to resume.
options=(--resume back/again)
train 2 resumed "${shape[@]}"
says err "is an imported model" "init_from: back/again"
options=()

# An empty list of sources, as in the spec of an imported model, is nothing to train on.
train 2 refused 'data.train=[]'
says err "data.train: is empty"

finish
