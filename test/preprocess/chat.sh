#!/usr/bin/env bash
# gpt-preprocess chat: conversations become token files with a loss mask. Fourth argument: MPIRUN.
. "$(dirname "$0")/common.sh"
mpirun=${4:-mpirun}

make_text 3000 >corpus.txt
expect 0 "$tool" train-tokenizer --input corpus.txt --vocab-size 330 --model-prefix tok
chat() { expect 0 "$tool" chat --tokenizer tok.json "$@"; }
refused() {
  local status=$1
  shift
  expect "$status" "$tool" chat --tokenizer tok.json --output-prefix refused "$@"
  nothing_left refused
}

awk 'NF { q = NR * 7 % 13; printf "{\"id\": %d, \"messages\": [{\"role\": \"system\", \"content\": \"Be %d.\"},", NR, q
  printf " {\"role\": \"user\", \"content\": \"line %d?\"}, {\"role\": \"assistant\", \"content\": \"%s\"},", NR, $0
  printf " {\"role\": \"user\", \"content\": \"and then?\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", $1 }' \
  corpus.txt >chats.jsonl
head -n 300 corpus.txt >few.txt
awk 'NF { printf "{\"prompt\": \"line %d:\", \"response\": \" %s\"}\n", NR, $0 }' few.txt >pairs.jsonl

# Conversations with a template; any number of workers gives the same bytes.
chat --input chats.jsonl --template chatml --output-prefix w1 --workers 1
says out "wrote w1_text_document.bin, .idx, .mask, .chat_template.jinja and .meta.json: 3000 documents"
says out "of them learned"
chat --input chats.jsonl --template chatml --output-prefix w3 --workers 3
for suffix in bin idx mask meta.json chat_template.jinja; do same w1_text_document.$suffix w3_text_document.$suffix; done
says w1_text_document.meta.json '"append_eod":true'
says w1_text_document.meta.json '"mask":{"crc32c":'
nothing_left 'w1_text_document.*tmp'

# inspect shows what is learned: the text and the marks of the assistant, and the end of document.
expect 0 "$tool" inspect w1_text_document --tokenizer tok.json --sample-tokens 4096
says out "learned: "
first=$(head -n 1 corpus.txt)
cat >wanted <<EOF
<|im_start|>system
Be 7.<|im_end|>
<|im_start|>user
line 1?<|im_end|>
<|im_start|>assistant
{+$first<|im_end|>
+}<|im_start|>user
and then?<|im_end|>
<|im_start|>assistant
{+${first%% *}<|im_end|>
<|endoftext|>+}
EOF
tail -n 11 out >shown
same shown wanted

# Compressed, from a pipe, and from a folder, whose text files are left out.
mkdir folder
zstd -q -c chats.jsonl >folder/a.jsonl.zst
echo "no JSON" >folder/b.txt
chat --input folder --template chatml --output-prefix zst
same w1_text_document.mask zst_text_document.mask
chat --input - --template chatml --output-prefix pipe <chats.jsonl
same w1_text_document.mask pipe_text_document.mask

# Pairs without a template: the response and the end of document are learned.
chat --input pairs.jsonl --output-prefix pairs
expect 0 "$tool" inspect pairs_text_document --tokenizer tok.json --sample-tokens 4096
tail -n 1 out >shown
printf '%s\n' "line 1:{+ $first<|endoftext|>+}" >wanted
same shown wanted
# Their tokens are those of the same texts without masks.
awk 'NF { printf "{\"text\": \"line %d: %s\"}\n", NR, $0 }' few.txt >texts.jsonl
expect 0 "$tool" --tokenizer tok.json --append-eod --input texts.jsonl --output-prefix texts
same texts_text_document.bin pairs_text_document.bin
same texts_text_document.idx pairs_text_document.idx
sed 's/"prompt"/"q"/; s/"response"/"a"/' pairs.jsonl >named.jsonl
chat --input named.jsonl --prompt-key q --response-key a --output-prefix named
same pairs_text_document.mask named_text_document.mask

# A named template becomes a file that makes the same documents: of llama3 and mistral it sets the
# tokens that this tokenizer does not have.
nothing_left pairs_text_document.chat
for name in chatml llama3 mistral plain; do
  chat --input pairs.jsonl --template $name --output-prefix $name
  chat --input pairs.jsonl --template ${name}_text_document.chat_template.jinja --output-prefix file
  for suffix in bin mask chat_template.jinja; do same ${name}_text_document.$suffix file_text_document.$suffix; done
done
says llama3_text_document.chat_template.jinja "{% set bos_token = '<|begin_of_text|>' %}{{ bos_token }}"
says mistral_text_document.chat_template.jinja "{% set bos_token = '<s>' %}{% set eos_token = '</s>' %}{{"
[ "$(head -c 24 plain_text_document.chat_template.jinja)" = "{% for message in messag" ] ||
  fail "plain: $(cat plain_text_document.chat_template.jinja)"

# The template next to the tokenizer, and its own marks of a turn.
mkdir model
cp tok.json model/tokenizer.json
cat >model/tokenizer_config.json <<'EOF'
{"eos_token": "<|endoftext|>", "chat_template": "{% for m in messages %}{{ m.role + ': ' + m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"}
EOF
expect 0 "$tool" chat --tokenizer model --input pairs.jsonl --output-prefix own
expect 0 "$tool" inspect own_text_document --tokenizer model --sample-tokens 4096
[ "$(cat own_text_document.chat_template.jinja)" = "$(printf '%b' "$(sed 's/.*"chat_template": "//; s/"}$//' \
  model/tokenizer_config.json)")" ] || fail "another template: $(cat own_text_document.chat_template.jinja)"
says out "user: line 1:" "assistant: {+ $first<|endoftext|>"
head -n 300 chats.jsonl >few.jsonl
expect 0 "$tool" chat --tokenizer model --input few.jsonl --output-prefix own
says err "warning: 300 documents have the end-of-document token inside, where data.reset_at_eod"
printf '%s' "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}|{% endfor %}" >model/chat_template.jinja
expect 0 "$tool" chat --tokenizer model --input pairs.jsonl --output-prefix own
expect 0 "$tool" inspect own_text_document --tokenizer model --sample-tokens 4096
says out "{+line 1:+}|{+ $first+}|<|endoftext|>"
same model/chat_template.jinja own_text_document.chat_template.jinja

# Special tokens of a sentencepiece model are found as transformers finds them: 5 tokens before the
# answer. Its ids: transformers 5.23.
cp -r "$here/../chat/marked" spm
cat >spm/tokenizer_config.json <<'EOF'
{"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}[/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"}
EOF
echo '{"messages": [{"role": "user", "content": "the deep"}, {"role": "assistant", "content": "light"}]}' >marks.jsonl
expect 0 "$tool" chat --tokenizer spm --input marks.jsonl --output-prefix marks
expect 0 "$tool" inspect marks_text_document
says out "document 0 starts with 1 3 306 311 4 327 2"
echo '{"text": "[INST] the deep[/INST]"}' >letters.jsonl
expect 0 "$tool" --tokenizer spm --input letters.jsonl --output-prefix letters
expect 0 "$tool" inspect letters_text_document
says_not out "starts with 3 "

# A prompt that repeats the user's first message, as in UltraChat.
echo '{"prompt": "the deep", "messages": [{"role": "user", "content": "the deep"}, {"role": "assistant", "content": "light"}]}' >again.jsonl
expect 0 "$tool" chat --tokenizer spm --input again.jsonl --output-prefix again
same marks_text_document.bin again_text_document.bin
says_not out "prompt"

# ShareGPT and Alpaca: the same documents as with messages. Keys that no form has are named.
template=chatml
shown() {
  chat --template $template --output-prefix shown "$@"
  cp out wrote
  expect 0 "$tool" inspect shown_text_document --tokenizer tok.json --sample-tokens 4096
  sed 1,/starts/d out >shown
}
echo '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\n2"}, {"role": "assistant", "content": "a"}]}' >one.jsonl
shown --input one.jsonl
mv shown wanted
echo '{"id": NaN, "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q\n2"}, {"from": "gpt", "value": "a"}], "tools": [], "system": ""}' >one.jsonl
shown --input one.jsonl
same shown wanted
says wrote 'lines have keys that are not used: "id"'
echo '{"turns": [{"who": "system", "says": "s"}, {"who": "human", "says": "q\n2"}, {"who": "gpt", "says": "a"}]}' >one.jsonl
shown --input one.jsonl --messages-key turns --role-key who --content-key says
same shown wanted
says_not wrote "not used"
echo '{"messages": [{"role": "user", "content": "q\n2"}, {"role": "assistant", "content": "a"}]}' >one.jsonl
shown --input one.jsonl
mv shown wanted
echo '{"instruction": "q", "input": "2", "output": "a", "score": Infinity}' >one.jsonl
shown --input one.jsonl
same shown wanted
says wrote 'lines have keys that are not used: "score"'
echo '{"instruction": "q\n2", "input": "", "output": "a"}' >one.jsonl
shown --input one.jsonl
same shown wanted
refused 2 --input one.jsonl
says err "one.jsonl:1: byte 0: a conversation needs a chat template"

# tools go to a template that uses them; a message of the weight 0 is not learned.
tools='"tools": [{"type": "function", "function": {"name": "f"}}]'
turns='{"role": "user", "content": "q"}, {"role": "assistant", "content": "bad", "weight": 0}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "good", "weight": 1}'
echo "{\"messages\": [$turns], $tools}" >one.jsonl
refused 3 --template chatml --input one.jsonl
says err "one.jsonl:1: byte 0: has 'tools', which the template chatml does not use"
echo "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}|{{ m.content }}{% endfor %}" >tools.jinja
template=tools.jinja
shown --input one.jsonl
cat >wanted <<'EOF'
[{"type": "function", "function": {"name": "f"}}]|q|bad|r{+|good<|endoftext|>+}
EOF
same shown wanted

# Weights between 0 and 1 have a file; one of a message that is no number from 0 to 1 is refused.
says_not wrote ".weights"
nothing_left shown_text_document.weights
weighted() { echo "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\", \"weight\": $1}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", \"content\": \"b\", \"weight\": ${2:-1}}]}" >one.jsonl; }
weighted 0.25 0.5
template=chatml
shown --input one.jsonl
says wrote "wrote shown_text_document.bin, .idx, .mask, .weights, .chat_template.jinja and .meta.json: 1 documents"
says shown_text_document.meta.json '"weights":{"crc32c":'
says shown_text_document.meta.json '"runs":2}'
expect 0 "$tool" inspect shown_text_document
counted=$(sed -n 's/^learned: \([0-9]*\) tokens.*/\1/p' out)
says out "weights: $counted of them count less than 1"
mv shown wanted
cp shown_text_document.mask wanted.mask
weighted 1 1.0
shown --input one.jsonl
same shown wanted
same shown_text_document.mask wanted.mask
nothing_left shown_text_document.weights
says_not shown_text_document.meta.json weights
for bad in -0.5 1.5 NaN Infinity 1e-40 '"1"' true '[1]'; do
  weighted 1
  cp one.jsonl two.jsonl
  weighted "$bad"
  cat two.jsonl one.jsonl >three.jsonl
  refused 3 --template chatml --input three.jsonl
  says err "three.jsonl:2: byte $(stat -c %s two.jsonl): messages[1]: its 'weight' "
done
weighted 0 0
refused 3 --template chatml --input one.jsonl
says err "has no message of the assistant with a weight above 0"
weighted 1 0.5
sed 's/"user", "content": "r"/&, "weight": 0.5/' one.jsonl >two.jsonl
refused 3 --template chatml --input two.jsonl
says err "messages[2]: 'weight' is 0.5, but only the assistant's messages are learned"

# A template that writes the last answer otherwise makes a document of each; variables of the line go
# to the template.
printf '%s' "{% for m in messages %}<{{ m.role }}>{% if loop.last and m.role == 'assistant' and think %}!{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}" >last.jinja
template=last.jinja
turns='{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}'
echo "{\"messages\": [$turns], \"chat_template_kwargs\": {\"think\": true}}" >one.jsonl
shown --input one.jsonl
says wrote "1 conversation became several documents each, because the template writes a message of the"
says wrote ": 2 documents, "
echo '<user>q<assistant>{+!a<|endoftext|>+}' >wanted
same shown wanted
sed 's/true/false/' one.jsonl >two.jsonl
shown --input two.jsonl
says_not wrote "several documents"
echo '<user>q<assistant>{+a+}<user>r<assistant>{+b<|endoftext|>+}' >wanted
same shown wanted
sed 's/"content": "a"/&, "weight": 0/' one.jsonl >two.jsonl
shown --input two.jsonl
says wrote ": 1 documents, "
echo '<user>q<assistant>a<user>r<assistant>{+!b<|endoftext|>+}' >wanted
same shown wanted
refused 3 --template chatml --input one.jsonl
says err "one.jsonl:1: byte 0: has 'think', which the template chatml does not use"

# merge carries masks, all or none.
head -n 1000 chats.jsonl >a.jsonl
tail -n +1001 chats.jsonl >b.jsonl
for part in a b; do chat --input $part.jsonl --template chatml --output-prefix $part; done
expect 0 "$tool" merge --input a_text_document b_text_document --output-prefix merged
says out "wrote merged.bin, .idx, .mask, .chat_template.jinja and .meta.json: 3000 documents"
for suffix in bin idx mask meta.json chat_template.jinja; do same w1_text_document.$suffix merged.$suffix; done
expect 3 "$tool" merge --input a_text_document texts_text_document --output-prefix mixed
says err "texts_text_document: has no loss mask, but a_text_document has one"
nothing_left mixed

# It carries weights, also of some inputs alone.
weighted 0.25 0.5
chat --input one.jsonl --template chatml --output-prefix two
cat a.jsonl one.jsonl b.jsonl >all.jsonl
chat --input all.jsonl --template chatml --output-prefix all
expect 0 "$tool" merge --input a_text_document two_text_document b_text_document --output-prefix merged
for suffix in bin idx mask weights meta.json; do same all_text_document.$suffix merged.$suffix; done

# It keeps a common template, names files without one, and refuses another one.
expect 0 "$tool" merge --input pairs_text_document a_text_document b_text_document --output-prefix kept
says out "pairs_text_document: has no chat template; the merged files get a_text_document.chat_template.jinja"
same w1_text_document.chat_template.jinja kept.chat_template.jinja
expect 3 "$tool" merge --input a_text_document plain_text_document --output-prefix mixed
says err "plain_text_document.chat_template.jinja: is another chat template than a_text_document.chat_template.jinja"
printf '{%% if x %%}' >b_text_document.chat_template.jinja
expect 3 "$tool" merge --input a_text_document b_text_document --output-prefix mixed
says err "b_text_document.chat_template.jinja: line 1: expected '{% endif %}'"
nothing_left mixed

# Files without a mask and a template in the place of files with them take them away.
expect 0 "$tool" --tokenizer tok.json --append-eod --input texts.jsonl --output-prefix plain
nothing_left plain_text_document.mask
nothing_left plain_text_document.chat

# Each faulty line gives one clear line of error. The first line is good.
good='{"prompt": "a", "response": "b"}'
faulty() {
  printf '%s\n%s\n' "$good" "$1" >faulty.jsonl
  refused 3 --template chatml --input faulty.jsonl
  says err "faulty.jsonl:2: byte 33: "
  says err "$2"
}
faulty '{"messages": [{"content": "a"}, {"role": "assistant", "content": "b"}]}' "messages[0] has no role"
faulty '{"messages": [{"role": "", "content": "a"}]}' "messages[0] has no role"
faulty '{"messages": [{"role": 3, "content": "a"}]}' "messages[0] has no role"
faulty '{"messages": ["a"]}' "messages[0] must be an object"
faulty '{"messages": {"role": "user"}}' "'messages' must be a list"
faulty '{"messages": "a"}' "'messages' must be a list"
faulty '{"messages": []}' "no message of the assistant"
faulty '{"messages": [{"role": "user", "content": "a"}]}' "no message of the assistant"
faulty '{"messages": [{"role": "user"}, {"role": "assistant", "content": "b"}]}' "messages[0] has no content"
faulty '{"messages": [{"role": "user", "content": 3}]}' "messages[0]: its content must be a string"
faulty '{"messages": [{"role": "assistant", "content": ""}]}' "messages[0]: the assistant's content is empty"
faulty '{"messages": [{"role": "assistant", "content": []}]}' "messages[0]: the assistant's content is empty"
faulty '{"messages": [{"role": "assistant", "content": [{"type": "image"}]}]}' \
  "messages[0]: its content must be a string for --template chatml"
faulty '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": []}]}' \
  "messages[1]: its content must be a string for --template chatml"
faulty '{"messages": [], "prompt": "a"}' "has 'messages' and 'prompt' or 'response'"
faulty '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "prompt": "b"}' \
  "has 'messages' and 'prompt' or 'response'"
faulty '{"prompt": "a"}' "has neither 'messages' nor 'prompt' and 'response'"
faulty '{"prompt": "a", "response": ""}' "'response' is empty"
faulty '{"prompt": "a", "response": ["b"]}' "the value of 'response' must be a string"
faulty '{"prompt": null, "response": "b"}' "the value of 'prompt' must be a string"
faulty '{"messages": [{"role": "user", "content": "a", "name": "Ann"}, {"role": "assistant", "content": "b"}]}' \
  "messages[0]: has 'name', which the template chatml does not use"
faulty '{"messages": [{"role": "assistant", "content": "b", "weight": 1.5}]}' "messages[0]: its 'weight' is 1.5, but must be from 0 to 1"
faulty '{"messages": [{"role": "assistant", "content": "b"}], "system": "Be kind."}' "has 'system', which is not read"
faulty '{"conversations": [{"from": "bing", "value": "a"}]}' "conversations[0]: 'from' must be one of human"
faulty '[]' "must be a JSON object"
faulty '{"prompt": "a", "prompt": "b", "response": "c"}' "duplicate key"
faulty '{"prompt": "a", "response": "b"' "the line ends inside the JSON object"
# So many turns are more than a template may take.
awk 'BEGIN { printf "%s\n{\"messages\": [", "{\"prompt\": \"a\", \"response\": \"b\"}"
  for (i = 0; i < 200000; i++) printf "%s{\"role\": \"assistant\", \"content\": \"x\"}", i ? "," : ""
  print "]}" }' >turns.jsonl
refused 3 --template chatml --input turns.jsonl
says err "turns.jsonl:2: byte 33: has 200000 messages of the assistant"
printf '%s' '{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}' >tags.jinja
refused 3 --template tags.jinja --input turns.jsonl
says err "turns.jsonl:2: byte 33: tags.jinja: line 1: the template does too much work"

# With skip, what is right remains.
{ echo "$good"; echo '{"messages": []}'; echo '{"prompt": "a"}'; echo "$good"; } >skip.jsonl
chat --template chatml --input skip.jsonl --output-prefix skip --on-error skip
says out "2 documents"
says err "skipped 2 documents: 2 with an unusable conversation"

# Mistakes of the command line.
refused 2 --input chats.jsonl
says err "chats.jsonl:1: byte 0: a conversation needs a chat template"
refused 2 --template nosuch --input pairs.jsonl
says err "--template nosuch: neither a file nor a built-in template (chatml, llama3, mistral, plain)"
refused 3 --template corpus.txt --input texts.jsonl
says err "has neither 'messages'"
printf '{%% if x %%}' >bad.jinja
refused 3 --template bad.jinja --input pairs.jsonl
says err "bad.jinja: line 1: expected '{% endif %}'"
refused 3 --input missing.jsonl
sed 's/<|endoftext|>/<|other|>/g' tok.json >noend.json
expect 2 "$tool" chat --tokenizer noend.json --input pairs.jsonl --output-prefix refused
says err "noend.json has no end-of-document token"
expect 2 "$tool" chat --tokenizer tok.json --input pairs.jsonl

# A conversation that begins with the assistant, a template that refuses one, a pointer of git-LFS and
# a variable of a shell are named.
echo '{"messages": [{"role": "assistant", "content": "a"}]}' >one.jsonl
chat --template chatml --input one.jsonl --output-prefix one
echo "{{ messages[0].content }}" >first.jinja
refused 3 --template first.jinja --input one.jsonl
says err "one.jsonl:1: byte 0: messages[0]: the conversation begins with the assistant, and the template"
says err "(first.jinja: line 1: '0' is undefined)"
echo "{{ raise_exception('turn ' ~ messages[0].role) }}" >raise.jinja
refused 3 --template raise.jinja --input one.jsonl
says err "one.jsonl:1: byte 0: messages[0]: raise.jinja: line 1: the template refuses the conversation: turn assistant; the template cannot render a plain question with its answer either: give another one with --template"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n' >lfs.jsonl
mkdir lfs
for name in tokenizer.json tokenizer.model vocab.json x.bin x.idx; do cp lfs.jsonl lfs/$name; done
refused 3 --template chatml --input lfs.jsonl
says err "lfs.jsonl: is a git-LFS pointer, not the file itself; fetch that with \`git lfs pull\`"
for tokenizer in lfs lfs/tokenizer.json lfs/tokenizer.model lfs/vocab.json; do
  expect 3 "$tool" chat --tokenizer $tokenizer --template chatml --input one.jsonl --output-prefix refused
  says err "is a git-LFS pointer"
done
expect 3 "$tool" inspect lfs/x
says err "lfs/x.idx: is a git-LFS pointer"
for name in '${OUT}' '$OUT'; do
  expect 2 "$tool" chat --tokenizer tok.json --template chatml --input one.jsonl --output-prefix "$name/x"
  says err "$name: $name is not expanded; write the path that it stands for"
  expect 2 "$tool" train-tokenizer --input corpus.txt --vocab-size 300 --model-prefix "$name"
  expect 2 "$tool" merge --input a_text_document a_text_document --output-prefix "$name"
  nothing_left '[$]'
done

# Several ranks write the bytes of one process.
if command -v "$mpirun" >/dev/null; then
  . "$here/../openmpi.sh"
  head -n 700 chats.jsonl >a.jsonl
  sed -n 701,1500p chats.jsonl | gzip >b.jsonl.gz
  tail -n +1501 chats.jsonl >c.jsonl
  for ranks in 2 3; do
    expect 0 "$mpirun" -n $ranks "$tool" chat --tokenizer tok.json --template chatml \
      --input a.jsonl b.jsonl.gz c.jsonl --output-prefix ranks
    for suffix in bin idx mask meta.json chat_template.jinja; do same w1_text_document.$suffix ranks_text_document.$suffix; done
    nothing_left 'ranks_text_document.*\(tmp\|rank\)'
    [ "$(grep -c 'keys that are not used: "id"' out)" = 1 ] || fail "keys of ranks: $(cat out)"
  done
  weighted 0.25 0.5
  expect 0 "$mpirun" -n 2 "$tool" chat --tokenizer tok.json --template chatml \
    --input a.jsonl one.jsonl --output-prefix ranks
  chat --template chatml --input a.jsonl one.jsonl --output-prefix alone
  for suffix in bin idx mask weights meta.json; do same alone_text_document.$suffix ranks_text_document.$suffix; done
  nothing_left 'ranks_text_document.*\(tmp\|rank\)'
  echo '{"prompt": 1, "response": "b"}' >>c.jsonl
  expect 3 "$mpirun" -n 2 "$tool" chat --tokenizer tok.json --template chatml \
    --input a.jsonl c.jsonl --output-prefix refused
  says err "c.jsonl:1501: byte "
  nothing_left refused
fi

finish
