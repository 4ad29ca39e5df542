#!/usr/bin/env bash
# gptrain serve with a model of texts: the options of the server, conversations, characters, long texts.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
command -v curl >/dev/null || not_run "curl is missing"
make_data
make_spec
# The model has more tokens than the tokenizer, and a chat template that is no Jinja.
echo '{% no such block %}' >chat_template.jinja
train 0 run training.steps=40 training.global_batch_size=8 lr_schedule.decay_steps=60 \
    model.max_position_embeddings=64 model.vocab_size=400
rm chat_template.jinja

# ---- the command line ----

echo "secret-1" >token
expect_exit 2 "$gptrain" serve --checkpoint run --host 0.0.0.0
says err "needs --token-file"
expect_exit 2 "$gptrain" serve --checkpoint run --host example.org --token-file token
says err "is not a numeric address"
expect_exit 2 "$gptrain" serve --checkpoint run --host example.org
says err "is not a numeric address"
says_not err "needs --token-file"
expect_exit 2 "$gptrain" serve --checkpoint run --context 65
says err "--context 65: the model has only 64 positions"
expect_exit 3 "$gptrain" serve --checkpoint run --token-file /dev/null

# ---- a token, and limits of requests ----

serve --checkpoint run --answers 1 --waiting 1 --token-file token --max-body 2000 --read-seconds 2 --answer-seconds 2
says err "warning: the model cannot chat: " "chat_template.jinja: line 1: "
ask 200 /health
ask 401 /v1/models
ask 401 /v1/models -H 'Authorization: Bearer secret-2'
ask 401 /v1/completions -d '{"prompt":"the"}'
auth=(-H 'Authorization: Bearer secret-1')
# As through a proxy that adds TLS.
ask 200 /v1/models "${auth[@]}" -H 'Host: llm.example.org' -H 'Origin: https://llm.example.org'
ask 200 /v1/models "${auth[@]}"
ask 400 /v1/chat/completions "${auth[@]}" -d '{"messages":[{"role":"user","content":"5"}]}'
says reply "the model's chat template cannot be used: " "start the server with --template"
ask 200 /tokenizer_info "${auth[@]}"
says reply '"eos_token":"</s>"' '"vocab_size":320'
ask 200 /tokenize "${auth[@]}" -d '{"prompt":"and the earth"}'
tokens=$(grep -o '"tokens":\[[^]]*\]' reply)
ask 200 /detokenize "${auth[@]}" -d "{$tokens}"
same <(echo -n '{"prompt":"and the earth"}') reply
head -c 3000 /dev/zero | tr '\0' ' ' >blanks
complete 413 "$(cat blanks)" "${auth[@]}"
complete 413 "$(cat blanks)" "${auth[@]}" -H 'Transfer-Encoding: chunked'
# A client that sends everything before it looks for a reply, or never stops sending, also gets it.
port=${url##*:}
sends() { # STATUS BYTES HEADER...: the status that it reads after so many bytes of a body
    local status
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\n' >&3
    printf '%s\r\n' "${@:3}" '' >&3
    { ! [[ $* == *chunked* ]] || printf '%x\r\n' 1000000000; head -c "$2" /dev/zero; } >&3 ||
        fail "cut off within its body: ${*:2}"
    read -r -t 10 _ status _ <&3
    exec 3>&-
    [[ $status == "$1" ]] || fail "status '$status' instead of $1: ${*:2}"
}
secret='Authorization: Bearer secret-1'
sends 413 60000000 "$secret" 'Content-Length: 60000000'
sends 413 10000000 "$secret" 'Content-Length: 60000000'
sends 413 60000000 "$secret" 'Transfer-Encoding: chunked'
sends 413 3000 "$secret" 'Transfer-Encoding: chunked'
sends 401 60000000 'Content-Length: 60000000'
sends 401 1900 'Content-Length: 2000'
sends 400 60000000 "$secret" 'Content-Length: 60000000' 'Transfer-Encoding: chunked'
ask 401 /tokenize --data-binary @blanks -H 'Expect:'
ask 413 /tokenize --data-binary @blanks "${auth[@]}" -H 'Expect: 100-continue'

ask 431 /health -H "X-Long: $(head -c 40000 /dev/zero | tr '\0' x)"

# A connection that has been idle has all the time for its next request.
(
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
    sleep 1.2
    printf 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-1\r\n' >&3
    printf 'Connection: close\r\nContent-Length: 16\r\n\r\n' >&3
    sleep 1.2
    printf '{"prompt":"the"}' >&3
    cat <&3
) >kept 2>kept.err &
client=$!

# A client that sends its request too slowly is cut off, however often it sends a byte.
begin=$SECONDS
(
    trap '' PIPE
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /health HTTP/1.1\r\n' >&3
    while printf 'X' >&3 && ((SECONDS - begin < 10)); do sleep 0.2; done
) 2>/dev/null
((SECONDS - begin < 6)) || fail "a slow client held its connection for $((SECONDS - begin)) seconds"
wait "$client"
says kept '"count":'
ends_well
auth=()

# ---- texts ----

# eval scores a text with the head that writes it, and with the same share for tokens without a
# text.
printf 'the' >short.txt
expect_exit 0 "$gptrain" eval --checkpoint run --data short.txt --set precision.frozen=int8
loss=$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out)
serve --checkpoint run --set precision.frozen=int8
complete 200 '"prompt":"the","max_tokens":0,"echo":true,"logprobs":0'
numbers token_logprobs | awk -v loss="$loss" 'NR > 1 { sum -= $1 }
    END { apart = sum / (NR - 1) / loss - 1; exit !(NR > 1 && NR < 10 && apart < 1e-6 && apart > -1e-6) }' ||
    fail "eval: $loss, serve: $(numbers token_logprobs | tr '\n' ' ')"
ends_well

# Conversations.
serve --checkpoint run --template plain --host localhost
common='"messages":[{"role":"user","content":"light"}],"max_tokens":6,"temperature":0'
ask 200 /v1/chat/completions -d "{$common}"
says reply '"id":"chatcmpl-'
says reply '"object":"chat.completion"' '"message":{"role":"assistant","content":"'
expect_exit 0 "$gptrain" generate --checkpoint run --chat --template plain --prompt light --max-tokens 6 --temperature 0
said=$(sed -n 's/.*"content":"\([^"]*\)".*/\1/p' reply)
[[ "$(printf '%b' "$said")" == "$(cat out)" ]] || fail "not what generate says: $said, $(cat out)"
ask 200 /v1/chat/completions -d "{$common,\"stream\":true,\"stream_options\":{\"include_usage\":true},\"logprobs\":true,\"top_logprobs\":2}"
says reply '"delta":{"role":"assistant"' 'data: [DONE]' '"completion_tokens":6' '"top_logprobs":[{'
[[ $(grep -o '"content":"[^"]*"' reply | sed 's/^"content":"//; s/"$//' | tr -d '\n') == "$said" ]] ||
    fail "the stream says something else: $(cat reply)"
ask 400 /v1/chat/completions -d '{"messages":[]}'
ask 200 /tokenize -d '{"messages":[{"role":"user","content":"light"}]}'
counted=$(sed -n 's/.*"count":\([0-9]*\).*/\1/p' reply)
ask 200 /v1/chat/completions -d "{$common}"
says reply "\"prompt_tokens\":$counted,"
ask 400 /tokenize -d '{"messages":[{"role":"user","content":"light"}],"prompt":"light"}'

# Tokens that are no whole characters: spelled as bytes, at the character that they are a part of.
complete 200 '"prompt":"é€a","max_tokens":0,"echo":true,"logprobs":1'
says reply '"tokens":["bytes:\\xc3","bytes:\\xa9","bytes:\\xe2","bytes:\\x82","bytes:\\xac","a"]' \
    '"bytes:\\xa9":-' '"text_offset":[0,0,1,1,1,2]' '"text":"é€a"'
complete 200 '"prompt":[2,20,2,20],"max_tokens":0,"echo":true,"logprobs":1'
says reply '"</s>"' '"text_offset":[0,0,1,1]'
# A character that the prompt leaves open is shown once, with the answer.
ask 200 /tokenize -d '{"prompt":"é"}'
first=$(sed 's/.*"tokens":\[\([0-9, ]*\),[^,]*\].*/\1/' reply)
complete 200 "\"prompt\":[$first],\"echo\":true,\"max_tokens\":1,\"temperature\":0"
(($(grep -o $'\xef\xbf\xbd' reply | wc -l) <= 1)) || fail "a part of a character is shown twice: $(cat reply)"
complete 200 "\"prompt\":[$first],\"echo\":true,\"max_tokens\":0"
says reply $'\xef\xbf\xbd'
ask 200 /v1/chat/completions -d '{"messages":[{"role":"user","content":"é"}],"temperature":1000,"seed":1,"max_tokens":30,"logprobs":true}'
says reply '"token":"bytes:\\x'
says_not reply '"bytes":[239,191,189]'  # U+FFFD

# A template that fails answers the conversation that it fails for, and no other request.
cat >strict.jinja <<'END'
{%- for message in messages %}{% if message.role == "tool" %}{{ raise_exception("no tools here") }}{% endif %}
{%- if message.role == "system" %}{{ message.content + 1 }}{% endif %}
{%- if message.role == "many" %}{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}{% endif %}
{{- message.content }}{% endfor %}
END
ends_well
serve --checkpoint run --template strict.jinja
for role in tool system many; do
    ask 400 /v1/chat/completions -d "{\"messages\":[{\"role\":\"$role\",\"content\":\"light\"}],\"stream\":true}"
    says reply '"code":400' 'strict.jinja: line '
done
ask 400 /tokenize -d '{"messages":[{"role":"tool","content":"light"}]}'
says reply 'no tools here'
ask 200 /v1/chat/completions -d "{$common}"
ask 200 /health

# Very many marks in a conversation take no more time than other texts.
{ printf '{"messages":[{"role":"user","content":"'; yes '</s>' | tr -d '\n' | head -c 800000; printf '"}]}'; } >marks
ask 200 /tokenize -d @marks
says reply '"count":200000,'

# A long text, which is slow to encode, holds up nobody else.
yes 'and the earth ' | tr -d '\n' | head -c 3000000 >earth
{ printf '{"prompt":"'; cat earth; printf '"}'; } >long
curl -s -m 60 -o long_reply -w '%{time_total}' "$url/tokenize" -d @long >long_time &
client=$!
sleep 0.2
health_time=$(curl -s -m 60 -o reply -w '%{time_total}' "$url/health")
wait "$client"
says long_reply '"count":'
# A prompt that cannot fit is not encoded.
{ printf '{"messages":[{"role":"user","content":"'; cat earth; printf '"}]}'; } >chat
for body in "/v1/completions -d @long" "/v1/chat/completions -d @chat"; do
    ask 400 $body
    grep -q 'at least [0-9]* tokens, but with the answer there is room for 64 together' reply ||
        fail "a prompt of 3 MB: $(cat reply)"
done
awk "BEGIN { exit !($health_time * 3 < $(cat long_time)) }" ||
    fail "/health took $health_time s during a prompt of $(cat long_time) s"
ends_well

finish
