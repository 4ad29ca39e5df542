#!/usr/bin/env bash
# A run with byte-level BPE: its checkpoints hold tokenizer.json and generate without anything else.
. "$(dirname "$0")/lib.sh"
make_text 1 1000 >text.txt
expect_exit 0 "$preprocess" train-tokenizer --input text.txt --vocab-size 320 --model-prefix tok
expect_exit 0 "$preprocess" --input text.txt --tokenizer tok.json --output-prefix text --append-eod
make_spec
sed -i 's/tok\.model/tok.json/' run.yaml
train 0 run training.steps=10 checkpoint.interval=10
checkpoint=$(checkpoint run 10)
cmp -s tok.json "$checkpoint/tokenizer.json" || fail "no tokenizer.json in: $(ls "$checkpoint")"
says run/spec.yaml "eod_id: 319"

cp -r "$checkpoint" copy
mv tok.json away.json
expect_exit 0 "$gptrain" generate --checkpoint copy --prompt "and the earth" --max-tokens 20
(($(wc -c <out) > 5)) || fail "it wrote: $(cat out)"
expect_exit 0 "$gptrain" eval --checkpoint copy --data text.txt
expect_exit 0 "$gptrain" eval --checkpoint copy --data text_text_document
mv away.json tok.json

# The files next to the tokenizer of a shared model are saved in checkpoints and exported.
mkdir shared
cp tok.json shared/tokenizer.json
cat >shared/tokenizer_config.json <<'END'
{"eos_token": "<|endoftext|>", "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}
END
echo '{"top_k": 7}' >shared/generation_config.json
llama=(model.position_embedding=rope model.normalization=rmsnorm model.activation=swiglu model.bias=false)
train 0 with-shared "${llama[@]}" training.steps=10 data.tokenizer=shared
rm -r shared
expect_exit 0 "$gptrain" generate --checkpoint with-shared --chat --prompt "and the" --max-tokens 4
expect_exit 0 "$gptrain" export with-shared --format hf --output exported
says exported/tokenizer_config.json '"chat_template"'
says exported/tokenizer_config.json '"tokenizer_class": "PreTrainedTokenizerFast"'
says exported/generation_config.json '"top_k": 7' '"eos_token_id": 319'
expect_exit 0 "$gptrain" inspect "$(checkpoint with-shared 10)" --verify

# The same for a tokenizer with an unusual name. Its end of text is the template's eos_token.
mkdir own
cp tok.json own/stories.json
echo '{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}' >own/chat_template.jinja
echo '{"messages": [{"role": "user", "content": "let"}, {"role": "assistant", "content": "there"}]}' >chat.jsonl
expect_exit 0 "$preprocess" chat --input chat.jsonl --tokenizer own/stories.json --output-prefix chat
says err "1 document has the end-of-document token inside"
train 0 with-own "${llama[@]}" training.steps=10 data.tokenizer=own/stories.json
# Next to another tokenizer the template is that one's.
cp tok.json own/tokenizer.json
train 0 beside "${llama[@]}" training.steps=1 data.tokenizer=own/stories.json
[[ ! -e $(checkpoint beside 1)/chat_template.jinja ]] || fail "kept the template of another tokenizer"
rm -r own
expect_exit 0 "$gptrain" generate --checkpoint with-own --chat --prompt "and the" --max-tokens 4

# Another end of document than the tokenizer's is an error, before anything is written.
train 2 other training.steps=10 data.eod_id=5
says err "data.eod_id is 5, but the tokenizer's end-of-document id is 319"

# Another tokenizer too.
expect_exit 0 "$preprocess" train-tokenizer --input text.txt --vocab-size 310 --model-prefix tok2
train 2 other training.steps=10 data.tokenizer=tok2.json
says err "tok2.json" "names tok.json"

# An error names a tokenizer that gptrain cannot read, and the feature it lacks.
printf '{"model": {"type": "Unigram", "vocab": []}}' >uni.json
train 3 other training.steps=10 data.tokenizer=uni.json
says err 'uni.json: model.type: "Unigram": not supported'

# In a folder a tokenizer.model may take its place, which a line says, but not vocab.json, which does
# not say how text is split.
expect_exit 0 "$preprocess" train-tokenizer --type bpe --input text.txt --vocab-size 320 \
    --model-prefix pieces
mkdir folder
mv uni.json folder/tokenizer.json
cp pieces.model folder/tokenizer.model
encode() {
    "$preprocess" --input text.txt --tokenizer folder --output-prefix "$2" >out 2>err
    local got=$?
    ((got == $1)) || fail "exit code $got instead of $1: $(tail -c 400 err)"
}
encode 0 pieces
says err 'warning: folder/tokenizer.json: model.type: "Unigram": not supported' \
    "; uses folder/tokenizer.model instead"
rm folder/tokenizer.model
cp "$(dirname "$script")/../tokenizer/bpe"/{vocab.json,merges.txt} folder
encode 3 none
says err 'folder/tokenizer.json: model.type: "Unigram": not supported'
rm folder/tokenizer.json
encode 0 vocab
[[ ! -s err ]] || fail "$(cat err)"

# Tokens that other files add to a sentencepiece model are read where it is of Llama's kind; a token
# for padding is in no text.
rm -r folder
mkdir folder
cp pieces.model folder/tokenizer.model
echo '{"<pad>": 320}' >folder/added_tokens.json
echo '{"pad_token": "<pad>"}' >folder/tokenizer_config.json
encode 0 padded
echo '{"<|im_end|>": 320}' >folder/added_tokens.json
encode 3 none
says err 'folder/tokenizer.model: the added token "<|im_end|>": gptrain reads tokens that are added'
rm folder/added_tokens.json
cat >folder/tokenizer_config.json <<'END'
{"added_tokens_decoder": {"2": {"content": "</s>", "special": true}, "321": {"content": "<|x|>", "special": true}}}
END
encode 3 none
says err 'folder/tokenizer.model: the added token "<|x|>": gptrain reads'
cp "$(dirname "$script")/../chat/marked/tokenizer.model" folder
echo '{"added_tokens_decoder": {"400": {"content": "<|x|>", "special": true}}}' >folder/tokenizer_config.json
encode 0 added
expect_exit 0 "$preprocess" inspect added --tokenizer folder
finish
