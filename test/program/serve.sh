#!/usr/bin/env bash
# gptrain serve: what it answers, whom it refuses, and that nobody holds it up.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
command -v curl >/dev/null || not_run "curl is missing"
make_data
make_spec
train 0 run training.steps=40 training.global_batch_size=8 lr_schedule.decay_steps=60 \
    model.max_position_embeddings=64
# Texts of this model are ids, which need no quoting in JSON. It has room for long texts.
train 0 ids training.steps=5 data.tokenizer=none data.eod_id=auto model.position_embedding=rope \
    model.max_position_embeddings=4096

# ---- answers ----

# generated TO OPTION...: what `generate` writes with the same model.
generated() {
    expect_exit 0 "$gptrain" generate --checkpoint ids "${@:2}"
    head -c -1 out >"$1"  # without its last line feed
    echo >>"$1"
}
prompts=("5 6 7" "8" "200 3 200 3 200 3 200 3 200" "11 12" "9 9 9 9" "1 2" "30 31 32" "4")
lengths=(40 7 25 1 60 33 12 50)
for i in "${!prompts[@]}"; do
    generated "greedy$i" --prompt "${prompts[i]}" --max-tokens "${lengths[i]}" --temperature 0
    generated "drawn$i" --prompt "${prompts[i]}" --max-tokens "${lengths[i]}" --seed "$i"
done

# All at the same time, with more answers than places: each as if it were alone.
serve --checkpoint ids --answers 3
for i in "${!prompts[@]}"; do
    common="\"prompt\":\"${prompts[i]}\",\"max_tokens\":${lengths[i]}"
    curl -s -m 60 "$url/v1/completions" -d "{$common,\"temperature\":0}" >"reply-greedy$i" &
    curl -s -m 60 "$url/v1/completions" -d "{$common,\"seed\":$i,\"stream\":true}" >"reply-drawn$i" &
done
for job in $(jobs -p); do [[ $job == "$server" ]] || wait "$job"; done
for i in "${!prompts[@]}"; do
    for kind in greedy drawn; do
        { texts "reply-$kind$i" | tr -d '\n'; echo; } >texts
        same "$kind$i" texts
    done
done
has_metric gptrain_answers_running 0

# Several prompts and choices in one request, as texts and as ids.
complete 200 '"prompt":["5 6 7","8"],"n":2,"max_tokens":7,"seed":1'
[[ $(texts reply | wc -l) == 4 ]] || fail "not four choices: $(cat reply)"
texts reply >as_text
complete 200 '"prompt":[[5,6,7],[8]],"n":2,"max_tokens":7,"seed":1'
texts reply >as_ids
same as_text as_ids
says reply '"usage":{"prompt_tokens":4,"completion_tokens":28,"total_tokens":32}'
says reply '"index":3' '"finish_reason":"length"' '"model":"tiny"'
sed -n 2p as_text >second
generated samples --prompt "5 6 7" --max-tokens 7 --seed 1 --samples 2
sed -n '/2 of 2/{n;p}' samples >sample2
same sample2 second

# Where texts end.
text=$(texts reply-greedy0)
complete 200 '"prompt":"5 6 7","temperature":0,"max_tokens":40,"stop":["never","'"${text:7:6}"'"]'
[[ $(texts reply) == "${text%%"${text:7:6}"*}" ]] || fail "not stopped: $(cat reply)"
says reply '"finish_reason":"stop"'
complete 200 '"prompt":"5 6 7","max_tokens":0'
says reply '"text":""' '"completion_tokens":0'

# Log-probabilities: of the tokens, whose likeliest is the one that greedy sampling takes; with echo
# also of the prompt, and the same for a text whether it is prompt or answer.
complete 200 '"prompt":"5 6 7","temperature":0,"max_tokens":5,"logprobs":2'
texts reply | tr -d '\n' >five
numbers() { grep -o "\"$1\":\[[^]]*\]" reply | tr ',' '\n' | tr -d '][' | sed "s/\"$1\"://"; }
numbers token_logprobs >answered
(($(wc -l <answered) == 5)) || fail "not five log-probabilities: $(cat reply)"
awk '!($1 < 0) { exit 1 }' answered || fail "log-probabilities: $(cat reply)"
numbers tokens | paste -d : - answered >taken
grep -o '"top_logprobs":\[.*\]' reply | grep -o '{"[^}]*}' | sed 's/^{//; s/[,}].*//' >likeliest
same taken likeliest
complete 200 "\"prompt\":\"5 6 7 $(cat five)\",\"max_tokens\":0,\"logprobs\":0,\"echo\":true"
[[ $(texts reply) == "5 6 7 $(cat five)" ]] || fail "no echo: $(cat reply)"
numbers token_logprobs >echoed
[[ $(head -n 1 echoed) == null && $(wc -l <echoed) == 8 ]] || fail "echo: $(cat reply)"
tail -n 5 echoed | paste - answered | awk '{ d = $1 - $2; if (d * d > 1e-8) exit 1 }' ||
    fail "not the same log-probabilities: $(tail -n 5 echoed | paste - answered)"

# The other paths.
ask 200 /health
same <(echo -n '{"status":"ok"}') reply
ask 200 /v1/models
says reply '"id":"tiny"' '"max_model_len":2048'
ask 200 /v1/models/tiny
says reply '{"id":"tiny","object":"model"'
ask 404 /v1/models/other%2F1
says reply "there is no model 'other/1'; the server has 'tiny'"
has_metric 'gptrain_requests_total{path="/v1/models",status="404"}' 1
ask 404 /v1/models/
ask 200 / && says reply '<title>gptrain serve</title>'
# Enter sends, but not while an input method composes; to start over stops the answer.
if command -v node >/dev/null; then
    cat >page.js <<'EOF'
const elements = {};
const element = () => ({append() {}, replaceChildren() {}, value: '', requestSubmit() { ++sent; }});
let sent = 0, stopped = 0;
globalThis.document = {getElementById: id => elements[id] ??= element(), createElement: element};
globalThis.location = {hash: ''};
globalThis.fetch = () => new Promise(() => {});
globalThis.AbortController = class { abort() { ++stopped; } };
const page = require('fs').readFileSync('reply', 'utf8');
new Function(page.match(/<script>([^]*)<\/script>/)[1])();
const enter = {key: 'Enter', preventDefault() {}};
elements.text.onkeydown({...enter, isComposing: true});
elements.text.onkeydown({...enter, isComposing: false});
elements.text.value = 'light';
elements.form.onsubmit(enter);
elements.clear.onclick();
console.log(sent, stopped);
EOF
    [[ $(node page.js) == "1 1" ]] || fail "the page: $(node page.js 2>&1 | tail -n 3)"
fi
has_metric 'gptrain_requests_total{path="/v1/completions",status="200"}' 22
has_metric gptrain_prompt_tokens_total 83

# ---- bad requests ----

refused() { # STATUS WORDS JSON
    complete "$1" "$3"
    says reply "$2" "\"code\":$1"
}
refused 400 "key 'prompt' is missing" ''
refused 400 "unknown key 'max_token'" '"prompt":"5","max_token":3'
refused 400 "'temperature' must be a number from 0" '"prompt":"5","temperature":-1'
refused 400 "'temperature' must be a number" '"prompt":"5","temperature":"hot"'
refused 400 "is not a token id" '"prompt":[5,-1]'
refused 400 "outside the vocabulary of 320" '"prompt":[5,99999]'
refused 400 "there is room for 2048 together" '"prompt":"5","max_tokens":2048'
refused 400 "prompts x 'n' must be at most 256" '"prompt":["5","6"],"n":200'
refused 400 "'best_of' is not supported" '"prompt":"5","best_of":4'
refused 400 "see 'repetition_penalty'" '"prompt":"5","frequency_penalty":1'
refused 404 "'model' must be 'tiny', or left out" '"prompt":"5","model":"other"'
refused 400 "not valid JSON" '"prompt":'
ask 400 /v1/chat/completions -d '{"messages":[{"role":"user","content":"5"}]}'
says reply "the model has no tokenizer, which a chat needs"
for path in /%00 /health%00x /%0a /v1/models%7f; do
    ask 400 $path
    says reply "the path has a control character"
done
complete 400 '"prompt":"5","temperature":1e999'
says reply "a number is too large for double precision"
says_not reply json.exception
ask 404 /v2/completions -d '{}'
ask 405 /v1/completions
ask 405 /health -X DELETE
[[ $(curl -s -m 60 -D - -o reply -X DELETE "$url/health" | tr -d '\r' | grep '^Allow') == "Allow: GET, HEAD" ]] ||
    fail "405 without what is allowed"
ask 405 /tokenize -D headers
says headers 'Allow: POST'

# Heads whose end or host is in doubt.
port=${url##*:}
head_gets() { # STATUS HEAD: the status of a request with these lines
    local status
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf "$2\\r\\n" >&3
    read -r -t 10 _ status _ <&3
    exec 3>&-
    [[ $status == "$1" ]] || fail "status $status instead of $1: $2"
}
head_gets 200 'GET /health HTTP/1.1\r\nHost: LocalHost\r\n'
head_gets 200 'GET /health HTTP/1.0\r\n'
head_gets 400 'GET /health HTTP/1.1\r\n'
head_gets 400 'GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n'
head_gets 400 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 9\r\n'
post='POST /tokenize HTTP/1.1\r\nHost: localhost\r\n'
head_gets 400 "${post}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"
head_gets 501 "${post}Transfer-Encoding: gzip, chunked\r\n"
head_gets 501 "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
head_gets 200 'GET HTTP://localhost:1/health HTTP/1.1\r\nHost: example.org\r\n'
head_gets 200 'GET http://localhost HTTP/1.1\r\nHost: localhost\r\n'
head_gets 403 'GET http://example.org/health HTTP/1.1\r\nHost: localhost\r\n'

# ---- who may ask ----

ask 403 /health -H 'Host: example.org'
ask 403 /v1/completions -H 'Origin: http://example.org' -d '{"prompt":"5"}'
ask 200 /v1/completions -H "Origin: $url" -d '{"prompt":"5"}'
ask 200 /health -H 'Host: localhost:80'

# ---- clients that go away ----

# The answer of a client that goes away leaves its place to the next one.
complete 200 '"prompt":"5","max_tokens":2000,"temperature":0'
for stream in true false true; do
    curl -s -m 0.3 "$url/v1/completions" -d "{\"prompt\":\"5\",\"max_tokens\":2000,\"n\":3,\"stream\":$stream}" >cut
done
has_metric gptrain_answers_running 0
has_metric gptrain_disconnects_total 3
complete 200 '"prompt":"5 6 7","max_tokens":40,"temperature":0'
[[ $(texts reply) == "$text" ]] || fail "another text than before: $(cat reply)"

# A server that is asked to stop finishes what it has begun, and takes no more.
curl -s -m 60 "$url/v1/completions" -d '{"prompt":"5 6 7","max_tokens":1500,"temperature":0,"stream":true}' >last &
client=$!
wait_for last '"text"'
kill -TERM "$server"
wait_for err "SIGTERM: the server finishes"
refused 503 "the server stops" '"prompt":"5"'
ask 503 /health
says reply '{"status":"stopping"}'
wait "$client"
wait "$server"
check_exit 0 $? "the server"
says last 'data: [DONE]'
(($(texts last | wc -l) == 1500)) || fail "$(texts last | wc -l) of 1500 tokens"

# ---- limits ----

echo "secret-1" >token
serve --checkpoint run --answers 1 --waiting 1 --token-file token --max-body 2000 --read-seconds 2 --answer-seconds 2
ask 200 /health
ask 401 /v1/models
ask 401 /v1/models -H 'Authorization: Bearer secret-2'
ask 401 /v1/completions -d '{"prompt":"the"}'
auth=(-H 'Authorization: Bearer secret-1')
# As through a proxy that adds TLS.
ask 200 /v1/models "${auth[@]}" -H 'Host: llm.example.org' -H 'Origin: https://llm.example.org'
ask 200 /v1/models "${auth[@]}"
ask 400 /v1/chat/completions "${auth[@]}" -d '{"messages":[{"role":"user","content":"5"}]}'
says reply "start the server with --template"
ask 200 /tokenizer_info "${auth[@]}"
says reply '"eos_token":"</s>"' '"vocab_size":320'
ask 200 /tokenize "${auth[@]}" -d '{"prompt":"and the earth"}'
tokens=$(grep -o '"tokens":\[[^]]*\]' reply)
ask 200 /detokenize "${auth[@]}" -d "{$tokens}"
same <(echo -n '{"prompt":"and the earth"}') reply
head -c 3000 /dev/zero | tr '\0' ' ' >blanks
complete 413 "$(cat blanks)" "${auth[@]}"
complete 413 "$(cat blanks)" "${auth[@]}" -H 'Transfer-Encoding: chunked'
ask 431 /health -H "X-Long: $(head -c 40000 /dev/zero | tr '\0' x)"

# A connection that has been idle has all the time for its next request.
port=${url##*:}
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

# Clients that go away within their requests leave their connections to others at once.
auth=()
serve --checkpoint ids --connections 8
port=${url##*:}
for ((i = 0; i < 40; ++i)); do
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n{"prompt":' >&3
    exec 3>&-
done
begin=$SECONDS
ask 200 /health
((SECONDS - begin < 10)) || fail "clients that had gone held their connections for $((SECONDS - begin)) seconds"
ends_well

# An answer that takes too long is given up, and so is what waits too long for a place.
auth=()
long='"prompt":"5","max_tokens":2000,"n":64'
serve --checkpoint ids --answers 1 --waiting 1 --answer-seconds 1
complete 503 "$long"
says reply "the answer took too long"
complete 200 "$long,\"stream\":true"
says reply '"code":503'
says_not reply 'data: [DONE]'
curl -s -m 60 "$url/v1/completions" -d "{$long}" >late &
has_metric gptrain_answers_waiting 63
refused 429 "too many answers are waiting" '"prompt":"5"'
wait $!
says late '"code":503'
complete 200 '"prompt":"5"'
ends_well

# With --waiting 0 an answer has a place at once, or it is refused.
serve --checkpoint ids --answers 2 --waiting 0
complete 200 '"prompt":"5","n":2'
curl -s -m 60 "$url/v1/completions" -d '{"prompt":"5","max_tokens":2000,"n":2}' >both &
client=$!
has_metric gptrain_answers_running 2
refused 429 "too many answers are waiting" '"prompt":"5"'
wait "$client"
says both '"finish_reason":"length"'
complete 200 '"prompt":"5"'
ends_well

# A full server says so, and is healthy: it accepts more connections than it has answers.
serve --checkpoint ids --answers 2 --waiting 268
curl -s -Z --parallel-immediate --parallel-max 300 -m 60 "$url/v1/completions?[1-270]" \
    -d '{"prompt":"5","max_tokens":2000}' >full 2>&1 &
client=$!
has_metric gptrain_answers_waiting 268
refused 429 "too many answers are waiting" '"prompt":"5"'
ask 200 /health
kill "$client"
wait "$client"
ends_well

# No more connections than the system allows.
launch=(bash -c 'ulimit -n 200 && exec "$@"' _)
serve --checkpoint ids
launch=()
says err "the limit of open files leaves 136 of 1104 connections"
ask 200 /health
ends_well

# ---- the command line ----

expect_exit 2 "$gptrain" serve --checkpoint run --host 0.0.0.0
says err "needs --token-file"
expect_exit 2 "$gptrain" serve --checkpoint run --host example.org --token-file token
says err "is not a numeric address"
expect_exit 2 "$gptrain" serve --checkpoint run --host example.org
says err "is not a numeric address"
says_not err "needs --token-file"
expect_exit 2 "$gptrain" serve --checkpoint run --context 65
says err "--context 65: the model has only 64 positions"
expect_exit 2 "$gptrain" serve --checkpoint ids --template chatml
says err "the model has no tokenizer"
expect_exit 2 "$gptrain" serve --checkpoint ids --answers 1024 --context 200000
says err "what would fit: --answers "
expect_exit 3 "$gptrain" serve --checkpoint run --token-file /dev/null

# eval scores a text with the head that writes it.
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

# A long text, which takes long to encode, holds up nobody else.
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
    fail "/health took $health_time s beside a prompt of $(cat long_time) s"
ends_well

finish
