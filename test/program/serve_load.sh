#!/usr/bin/env bash
# gptrain serve under load: 64 clients at a time, among them some that go away, hang, send garbage
# or ask for too much. Every good request gets exactly its answer, no place is lost, and memory does
# not grow.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
command -v curl >/dev/null || not_run "curl is missing"
make_data
make_spec
train 0 run training.steps=5 data.tokenizer=none data.eod_id=auto model.position_embedding=rope

clients=64
seconds=5
! soak || seconds=600
kinds=8  # of good requests

serve --checkpoint run --answers 24 --context 256 --waiting 200 --read-seconds 3
port=${url##*:}
good() { # NUMBER: the members of a good request
    echo "\"prompt\":\"$(($1 * 31 % 300)) $(($1 * 17 % 300))\",\"max_tokens\":$((5 + $1 * 7)),\"seed\":$1"
}
for ((i = 0; i < kinds; ++i)); do
    complete 200 "$(good $i)"
    texts reply >"expected$i"
done

# client NUMBER UNTIL: sends one request after the other; prints one line for each good one.
client() {
    local turn=0 kind
    while ((SECONDS < $2)); do
        ((++turn))
        kind=$((($1 + turn) % kinds))
        case $((($1 * 7 + turn) % 12)) in
        0) # goes away
            curl -s -m 0.02 "$url/v1/completions" -d "{\"prompt\":\"1\",\"max_tokens\":250,\"n\":4}" ;;
        1) # goes away from a stream
            curl -s -m 0.05 "$url/v1/completions" -d "{\"prompt\":\"1\",\"max_tokens\":250,\"stream\":true}" ;;
        2) # garbage
            head -c 300 /dev/urandom >"/dev/tcp/127.0.0.1/$port" ;;
        3) # not JSON
            curl -s -m 20 "$url/v1/completions" -d "{\"prompt\":" ;;
        4) # hangs within its request
            { exec 3<>"/dev/tcp/127.0.0.1/$port" &&
                printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{' >&3 &&
                sleep "$((turn % 2)).1" && exec 3>&-; } 2>/dev/null ;;
        5) # too much
            curl -s -m 20 "$url/v1/completions" -d "{\"prompt\":\"1\",\"max_tokens\":9999}" ;;
        6) # a stream
            curl -s -m 60 "$url/v1/completions" -d "{$(good $kind),\"stream\":true}" >"stream$1"
            if [[ $(texts "stream$1" | tr -d '\n') == "$(cat "expected$kind")" ]]; then
                echo right >&4
            else
                echo "wrong: $(head -c 300 "stream$1")" >&4
            fi ;;
        *)
            curl -s -m 60 "$url/v1/completions" -d "{$(good $kind)}" >"whole$1"
            if [[ $(texts "whole$1") == "$(cat "expected$kind")" ]]; then
                echo right >&4
            elif grep -q '"code":429' "whole$1"; then
                echo busy >&4
            else
                echo "wrong: $(head -c 300 "whole$1")" >&4
            fi ;;
        esac >/dev/null 2>&1
    done
}
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }
# run_clients SECONDS
run_clients() {
    local jobs=() i
    for ((i = 0; i < clients; ++i)); do
        client "$i" $((SECONDS + $1)) 4>>results &
        jobs+=($!)
    done
    wait "${jobs[@]}"
}

run_clients $((seconds / 2))  # until every buffer has its size
first=$(resident)
run_clients "$seconds"
has_metric gptrain_answers_running 0
has_metric gptrain_answers_waiting 0
last=$(resident)
rights=$(grep -c '^right' results)
(($(grep -cv '^right\|^busy' results) == 0)) || fail "$(grep -v '^right\|^busy' results | head -n 3)"
((rights >= clients)) || fail "only $rights right answers"
# An arena of malloc is 64 MiB of address space, but few of its pages are used.
((last - first < 8192)) || fail "memory grew from $first KiB to $last KiB"
complete 200 "$(good 3)"
texts reply >again
same expected3 again
(($(metric gptrain_disconnects_total) > 0)) || fail "no client went away"
proof "serve under load" "$clients clients, $seconds s, $rights right answers, $(metric gptrain_disconnects_total) clients gone, resident memory $first to $last KiB"
ends_well
finish
