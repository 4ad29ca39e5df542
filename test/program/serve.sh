#!/usr/bin/env bash
# gptrain serve with a model of ids: its answers, its refusals, and its limits.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
command -v curl >/dev/null || not_run "curl is missing"
make_data
make_spec
# Texts of this model are ids, which need no quoting in JSON. It has room for long texts.
train 0 ids training.steps=5 data.tokenizer=none data.eod_id=auto model.position_embedding=rope \
    model.max_position_embeddings=4096

# ---- answers ----

# generated TO OPTION...: writes the output of `generate` with the same model to TO.
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

# Clients that go away within their requests leave their connections to others at once.
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

# ---- limits ----

# An answer that takes too long is given up, and so is what waits too long for a place.
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

expect_exit 2 "$gptrain" serve --checkpoint ids --template chatml
says err "the model has no tokenizer"
expect_exit 2 "$gptrain" serve --checkpoint ids --answers 1024 --context 200000
says err "what would fit: --answers "

finish
