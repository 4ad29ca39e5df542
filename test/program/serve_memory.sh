#!/usr/bin/env bash
# Bodies and replies that take as much memory as they can: gptrain serve stays below the formula of
# docs/serve.md, gives the memory back, and keeps answering small requests and other clients.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
command -v curl >/dev/null || not_run "curl is missing"
make_data
make_spec
train 0 run training.steps=5 model.max_position_embeddings=64

max_body=1048576
connections=8
serve --checkpoint run --max-body $max_body --connections $connections
memory() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$server/status"; } # of VmRSS or VmHWM, in KiB
complete 200 '"prompt":"the","max_tokens":2'
first=$(memory VmRSS)

# words BYTES FILE: a body with one word of that length, each of whose bytes is a token.
words() { { printf '{"prompt":"'; head -c "$1" /dev/zero | tr '\0' 'q'; printf '"}'; } >"$2"; }
# list ELEMENT KEY FILE: a body with as many elements as fit.
list() { { printf '{"%s":[' "$2"; yes "$1" | tr '\n' ',' | head -c 1048000 | sed 's/,[^,]*$//'; printf ']}'; } >"$3"; }
words 200000 word
words 1000000 long_word
{ printf '{"prompt":"'; yes 'and the earth ' | tr -d '\n' | head -c 1000000; printf '"}'; } >texts
list '[]' prompt lists
list '""' prompt strings
list 1 tokens few_bytes
longest=0 # of the tokens
for ((id = 260; id < 320; ++id)); do
    ask 200 /detokenize -d "{\"tokens\":[8,$id]}"
    (($(wc -c <reply) <= longest)) || { longest=$(wc -c <reply) && list $id tokens ids; }
done

# ---- memory ----

at_once() { # STATUS PATH FILE: in the background
    local reply=got${#clients[@]}
    (
        status=$(curl -s -m 60 -o "$reply" -w '%{http_code}' "$url$2" --data-binary "@$3")
        [[ $status == "$1" ]] || echo "status $status instead of $1: $2 $3: $(head -c 300 "$reply")" >>wrong
    ) &
    clients+=($!)
}
: >wrong
for round in 1 2 3; do
    clients=()
    at_once 200 /tokenize word
    at_once 400 /tokenize long_word
    at_once 200 /tokenize texts
    at_once 400 /v1/completions lists
    at_once 400 /v1/completions strings
    at_once 200 /detokenize few_bytes
    at_once 200 /tokenize word
    wait "${clients[@]}"
done
[[ ! -s wrong ]] || fail "$(head -n 3 wrong)"
ask 400 /tokenize --data-binary @long_word
says reply "the text has 1000000 bytes; encoding it could take" "64.00 MiB are used for it; send parts of it"
ask 400 /detokenize --data-binary @ids
says reply "but at most 1048576 are given at once; send fewer tokens"
# Whole replies have their own limits: 262,144 log-probabilities, and bytes.
complete 200 '"prompt":"the","n":190,"max_tokens":60,"logprobs":20'
(($(wc -c <reply) > 1000000)) || fail "a reply of $(wc -c <reply) bytes"
complete 400 '"prompt":"the","n":220,"max_tokens":60,"logprobs":20'
says reply "at most 262144 are given at once"

allowed=$((8 * max_body / 1024 * (connections + 16)))
peak=$(($(memory VmHWM) - first))
((peak < allowed)) || fail "$peak KiB more than at the start; allowed are $allowed"
stays=$(($(memory VmRSS) - first))
((stays < 32768)) || fail "$stays KiB stay of $peak"
echo "memory: $first KiB at the start, $peak more at most (allowed: $allowed), $stays at the end"

# ---- time ----

# flood: six clients of one address with long words; $before counts the answers until then.
tokenized='gptrain_requests_total{path="/tokenize",status="200"}'
flood() {
    local i
    before=$(metric "$tokenized")
    clients=()
    for ((i = 0; i < 6; ++i)); do
        curl -s -m 60 -o "flood$i" "$url/tokenize" --data-binary @word &
        clients+=($!)
    done
    sleep 0.1
}

# A short request waits for none of them; on a busy machine, one of four does not.
flood
waited=()
for ((i = 0; i < 4; ++i)); do
    begin=$(metric "$tokenized")
    complete 200 '"prompt":"the","max_tokens":2'
    waited+=($(($(metric "$tokenized") - begin)))
    ((begin >= before + 6 || waited[i] > 0)) || break
done
((i < 4)) || fail "completions of two tokens waited for ${waited[*]} long prompts"
wait "${clients[@]}"

# Another client waits for its turn, not for all that came before it.
flood
begin=$(metric "$tokenized")
curl -s -m 60 -o other --interface 127.0.0.2 "$url/tokenize" --data-binary @word
others=$(($(metric "$tokenized") - begin - 1))
((others <= 3)) || fail "another client waited for $others of 6 long prompts"
says other '"count":'
wait "${clients[@]}"
ends_well
finish
