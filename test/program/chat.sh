#!/usr/bin/env bash
# Usage: chat.sh GPTRAIN GPT-PREPROCESS ON-TERMINAL. gptrain generate --chat, and prompts typed at a
# terminal.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$script")/serve_lib.sh"
on_terminal=$(realpath "$3")
make_data
make_spec
train 0 run model.max_position_embeddings=128 model.position_embedding=rope training.steps=40
train 0 ids training.steps=5 data.tokenizer=none data.eod_id=auto model.position_embedding=rope
chat=("$gptrain" generate --checkpoint run --chat --temperature 0)

# Each line of stdin is a turn. The model reads the earlier turns before each answer.
answer() {
    local to=$1
    shift
    expect_exit 0 "${chat[@]}" --max-tokens 8 --template plain "$@"
    mv out "$to"
}
answer first --prompt "and the"
printf 'and the\nand the\n' >turns
answer both <turns
head -n "$(wc -l <first)" both >begin
same first begin
printf 'User: and the\nAssistant:%s\nUser: and the\nAssistant:' "$(cat first)" >whole.txt
expect_exit 0 "$gptrain" generate --checkpoint run --temperature 0 --max-tokens 8 \
    --prompt-file whole.txt --stop $'\nUser:'
tail -n "+$(($(wc -l <first) + 1))" both >second
same second out
answer system --prompt "and the" --system "was without form"
printf 'was without form\n\nUser: and the\nAssistant:' >whole.txt
expect_exit 0 "$gptrain" generate --checkpoint run --temperature 0 --max-tokens 8 \
    --prompt-file whole.txt --stop $'\nUser:'
same system out

# A template from a file, and what a template refuses.
printf "{%% for m in messages %%}{{ 'User: ' + m.content + '\\nAssistant:' }}{%% endfor %%}" >own.jinja
expect_exit 0 "${chat[@]}" --max-tokens 8 --template own.jinja --prompt "and the" --stop $'\nUser:'
same first out
refused() {
    local code=$1 words=$2
    shift 2
    expect_exit "$code" "${chat[@]}" "$@" </dev/null
    says err "$words"
}
expect_exit 2 "$gptrain" generate --checkpoint ids --chat --template plain </dev/null
says err "has no tokenizer, which --chat needs"
refused 2 "run/checkpoints/step-000040: has no chat template"
refused 2 "--template none: neither a file nor a built-in template (chatml, llama3, mistral, plain)" \
    --template none
echo "{% import 'a' %}" >import.jinja
refused 3 "import.jinja: line 1: {% import %} is not supported" --template import.jinja
# Variables for the template.
printf "{%% for m in messages %%}{{ start + m.content + '\\nAssistant:' }}{%% endfor %%}" >start.jinja
expect_exit 0 "${chat[@]}" --max-tokens 8 --template start.jinja --prompt "and the" --stop $'\nUser:' \
    --chat-template-kwargs '{"start": "User: "}'
same first out
refused 3 "has 'begin', which the chat template does not use" --template start.jinja \
    --chat-template-kwargs '{"begin": "User: "}'
refused 2 "must not have 'messages'" --template start.jinja --chat-template-kwargs '{"messages": []}'
refused 2 "must be an object, such as" --template start.jinja --chat-template-kwargs '[]'
echo "{{ raise_exception('no') }}" >no.jinja
refused 3 "no.jinja: line 1: the template refuses the conversation: no" --template no.jinja --prompt a
refused 2 "does not go with --chat" --template plain --samples 2 --prompt a
refused 2 "only 20 fit together with the answer" --template plain --context 20 --prompt "$(head -n 3 text.txt)"
refused 2 "--context 999999999: the model has only 8192 positions" --template plain --context 999999999
expect_exit 0 "${chat[@]}" --template plain </dev/null
[[ ! -s out ]] || fail "an answer to nobody: $(cat out)"

# Special tokens of a sentencepiece model are found in what a template writes: 4 tokens, not 20.
cp -r "$(dirname "$script")/../chat/marked" spm
expect_exit 0 "$preprocess" --input text.txt --tokenizer spm --output-prefix marked --append-eod
train 0 spm-run data.tokenizer=spm/tokenizer.model 'data.train=[{prefix: marked_text_document}]' \
    model.vocab_size=400 training.steps=2
printf '%s' '{% for m in messages %}[INST] {{ m.content }}[/INST]{% endfor %}' >inst.jinja
marks=("$gptrain" generate --checkpoint spm-run --chat --context 6 --max-tokens 2)
expect_exit 0 "${marks[@]}" --template inst.jinja --prompt "the light"
sed 's/\[INST/[inst/' inst.jinja >letters.jinja
expect_exit 2 "${marks[@]}" --template letters.jinja --prompt "the light"
says err "only 6 fit together with the answer"
if command -v curl >/dev/null; then
    serve --checkpoint spm-run --template inst.jinja
    ask 200 /v1/chat/completions -d \
        '{"messages": [{"role": "user", "content": "the light"}], "max_tokens": 1}'
    says reply '"usage":{"prompt_tokens":4,'
    ends_well
    # Variables for the template, a message that it refuses, and one that cannot render a question.
    printf '%s' "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}[INST]{{ m.content if short else m.content * 2 }}[/INST]{% endfor %}" >kwargs.jinja
    user='{"role": "user", "content": "light"}'
    serve --checkpoint spm-run --template kwargs.jinja
    ask 200 /tokenize -d "{\"messages\": [$user]}"
    twice=$(<reply)
    ask 200 /tokenize -d "{\"messages\": [$user], \"chat_template_kwargs\": {\"short\": true}}"
    [[ $twice != "$(<reply)" ]] || fail "the same tokens: $twice"
    ask 200 /v1/chat/completions -d "{\"messages\": [$user], \"max_tokens\": 1, \"chat_template_kwargs\": {\"short\": true}}"
    ask 400 /tokenize -d "{\"messages\": [$user], \"chat_template_kwargs\": {\"long\": true}}"
    says reply "has 'long', which the chat template does not use"
    ask 400 /tokenize -d "{\"messages\": [$user, {\"role\": \"system\", \"content\": \"x\"}]}"
    says reply "messages[1]: kwargs.jinja: line 1: the template refuses the conversation: no"
    says_not reply "--template"
    ends_well
    echo "{{ missing.name }}" >broken.jinja
    serve --checkpoint spm-run --template broken.jinja
    ask 400 /v1/chat/completions -d "{\"messages\": [$user]}"
    says reply "broken.jinja: line 1: 'missing' is undefined; start the server with --template"
    ask 200 /v1/completions -d '{"prompt": "the light", "max_tokens": 1}'
    ends_well
fi

# The oldest turns of a conversation that grows too long are forgotten.
for ((i = 0; i < 9; ++i)); do echo "and the"; done >long
expect_exit 0 "${chat[@]}" --template plain --context 60 <long
says err "warning: the conversation no longer fits into 60 tokens; its oldest turns are forgotten"
(($(grep -c "no longer fits" err) == 1)) || fail "warned more than once: $(cat err)"

# On a terminal: a prompt, the answer, the next prompt, and Ctrl-D.
talk() {
    # Each line is typed when the program asks: `asked` counts the prompts that it has shown.
    local asked=0 line
    {
        while IFS= read -r line; do
            ((++asked))
            for ((i = 0; i < 3000; ++i)); do
                (($(tr -cd '>' <out | wc -c) >= asked)) && break
                sleep 0.01
            done
            printf '%b' "$line"
        done
    } | timeout --signal=KILL 60 "$on_terminal" --talk "$@" >out 2>err
    check_exit 0 $? "$*"
}
: >out
talk "${chat[@]}" --max-tokens 8 --template plain <<'END'
and the\n
and the\n
\0004
END
{ printf '> ' && cat first && printf '> ' && cat second && printf '> \n'; } >expected
same expected out

# Without --chat a terminal asks for prompts; a prompt that cannot be read ends nothing.
expect_exit 0 "$gptrain" generate --checkpoint run --prompt "and the" --max-tokens 8 --temperature 0
mv out alone
: >out
talk "$gptrain" generate --checkpoint run --max-tokens 8 --temperature 0 --context 40 <<END
and the\\n
$(head -c 300 text.txt | tr '\n' ' ')\\n
and the\\n
\\0004
END
says err "warning: the prompt has" "only 40 fit together with its continuation"
{ printf '> ' && cat alone && printf '> > ' && cat alone && printf '> \n'; } >expected
same expected out

# Ctrl-C ends an answer, not the conversation.
: >out
{
    wait_for out '>' && printf '5 6 7\n'
    for ((i = 0; i < 1000; ++i)); do (($(wc -c <out) > 40)) && break; sleep 0.01; done
    printf '\003'
    for ((i = 0; i < 3000; ++i)); do (($(tr -cd '>' <out | wc -c) >= 2)) && break; sleep 0.01; done
    printf '\004'
} | timeout --signal=KILL 60 "$on_terminal" --talk "$gptrain" generate --checkpoint ids \
    --max-tokens 1000 --context 1024 --samples 100000 >out 2>err
check_exit 0 $? "a conversation with Ctrl-C"
(($(tr -cd '>' <out | wc -c) >= 2)) || fail "no second prompt after Ctrl-C: $(tail -c 200 out)"

finish
