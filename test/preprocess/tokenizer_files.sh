#!/usr/bin/env bash
# gpt-preprocess with the tokenizers of others: their files, folders and ends of documents.
. "$(dirname "$0")/common.sh"
fixture=$here/../tokenizer/bpe

printf '{"text": "don'"'"'t I'"'"'ll 1234 na\\u00efve <|mark|> cafe\\u0301"}\n' >one.jsonl
encode() { expect "$1" "$tool" --input one.jsonl --output-prefix "$2" --tokenizer "${@:3}"; }

# A folder, as models are shared, holds one.
mkdir shared
cp "$fixture/qwen2.json" shared/tokenizer.json
encode 0 file shared/tokenizer.json
encode 0 folder shared
same file_text_document.bin folder_text_document.bin
grep -q '"tokenizer":{"file":"tokenizer.json",' folder_text_document.meta.json ||
  fail "it says: $(cat folder_text_document.meta.json)"
# If it holds several, the first that gptrain can read.
make_text 300 >corpus.txt
expect 0 "$tool" train-tokenizer --type bpe --input corpus.txt --vocab-size 320 --model-prefix own
mkdir several
cp own.model several/tokenizer.model
echo '{"model": {"type": "BPE", "byte_fallback": true, "vocab": {}, "merges": []}}' >several/tokenizer.json
encode 3 no several/tokenizer.json
encode 0 model own.model
encode 0 several several
same model_text_document.bin several_text_document.bin
says several_text_document.meta.json '"file":"tokenizer.model"'
echo 'no model' >several/tokenizer.model
encode 3 no several
says err "several/tokenizer.json: "
mkdir empty
encode 3 no empty
says err "empty: a folder without a tokenizer.json, a tokenizer.model, or vocab.json and merges.txt"

# vocab.json and merges.txt are GPT-2's, or Qwen2's if tokenizer_config.json says so.
cp "$fixture"/{vocab.json,merges.txt} .
encode 0 plain vocab.json --append-eod
encode 0 merges merges.txt --append-eod
same plain_text_document.bin merges_text_document.bin
encode 0 gpt2 "$fixture/gpt2.json" --append-eod
mkdir qwen
cp vocab.json merges.txt qwen
cat >qwen/tokenizer_config.json <<'END'
{"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|stop|>", "added_tokens_decoder": {
"475": {"content": "<|stop|>", "special": true, "lstrip": false, "rstrip": false,
"single_word": false, "normalized": false}}}
END
sed -i 's/<|endoftext|>/<|stop|>/' qwen/vocab.json
encode 0 qwen qwen --append-eod
expect 0 "$tool" inspect qwen_text_document --tokenizer qwen
says out " 475"
sed -i 's/Qwen2Tokenizer/BertTokenizer/' qwen/tokenizer_config.json
encode 3 no qwen
says err "qwen/tokenizer_config.json: tokenizer_class"
echo 'three words here' >>merges.txt
encode 3 no vocab.json
says err "merges.txt:"

# The end of a document: by its usual names, else as tokenizer_config.json says.
sed 's/<|endoftext|>/<|otherwise|>/g' "$fixture/gpt2.json" >tokenizer.json
encode 2 no tokenizer.json --append-eod
says err "has no end-of-document token; name it as eos_token in a tokenizer_config.json next to it"
echo '{"eos_token": {"content": "<|otherwise|>"}}' >tokenizer_config.json
encode 0 otherwise tokenizer.json --append-eod
same otherwise_text_document.bin gpt2_text_document.bin
echo '{"eos_token": 5}' >tokenizer_config.json
encode 3 no tokenizer.json --append-eod
says err "tokenizer_config.json: 'eos_token' must be a string"

rm tokenizer_config.json
# A sentencepiece model names its own.
LC_ALL=C sed 's#</s>#<-s>#' own.model >noend.model
encode 2 no noend.model --append-eod
says err "has no end-of-document token; a sentencepiece model must be trained with one (eos_id)"

# Bytes that have no token are left out, with a warning, as the library tokenizers does.
printf '{"text": "a\\u0013 \\u0014b"}\n{"text": "a b"}\n{"text": "\\u0013"}\n' >one.jsonl
encode 0 gaps "$fixture/gaps.json"
says err "gaps.json: has no token for byte 19 of the text; leaves out all bytes without a token"
(($(grep -c warning err) == 1)) || fail "it warns $(grep -c warning err) times"
says out "3 documents, 6 tokens"
expect 0 "$tool" inspect gaps_text_document --tokenizer "$fixture/gaps.json"
says out "a b"
sed 's/"unk_token":null/"unk_token":"<|mark|>"/' "$fixture/gaps.json" >unknown.json
encode 3 no unknown.json
says err 'unknown.json: model.unk_token: "<|mark|>" with a vocabulary that lacks byte 0: not supported'

# A file of tiktoken does not say how to split text.
printf 'IQ== 0\nIg== 1\n' >some.tiktoken
encode 3 no some.tiktoken
says err "some.tiktoken: a tiktoken file of 2 ranks"
nothing_left no_

finish
