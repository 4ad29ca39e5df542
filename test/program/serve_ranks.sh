#!/usr/bin/env bash
# Usage: serve_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. gptrain serve on several ranks writes what one
# rank writes, and a mesh that it cannot use is an error.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
command -v curl >/dev/null || not_run "curl is missing"
make_data
make_spec
train 0 run training.steps=5 data.tokenizer=none data.eod_id=auto model.position_embedding=rope \
    model.num_layers=4 model.num_attention_heads=4 model.num_query_groups=2

prompts=("5 6 7" "8" "200 3 200 3 200" "1 2")
for i in "${!prompts[@]}"; do
    expect_exit 0 "$gptrain" generate --checkpoint run --prompt "${prompts[i]}" --max-tokens $((12 - i)) --temperature 0
    cat out
done >expected

ask_all() { # TO: all prompts at the same time, with fewer places than prompts
    local i asking=()
    for i in "${!prompts[@]}"; do
        curl -s -m 60 "$url/v1/completions" \
            -d "{\"prompt\":\"${prompts[i]}\",\"max_tokens\":$((12 - i)),\"temperature\":0}" >"reply$i" &
        asking+=($!)
    done
    wait "${asking[@]}"
    for i in "${!prompts[@]}"; do texts "reply$i"; done >"$1"
}

logprobs='"prompt":[5,6,7,8,9,10,11],"max_tokens":3,"temperature":0,"echo":true,"logprobs":1'
serve --checkpoint run --answers 2 --context 32
ask_all alone
same expected alone
complete 200 "$logprobs"
grep -o '"token_logprobs":[^]]*' reply | tr ',[' '\n\n' >alone_logprobs
ends_well

for mesh in "2 tensor=2" "2 pipeline=2" "4 tensor=2 pipeline=2" "4 tensor=4"; do
    keys=()
    for key in ${mesh#* }; do keys+=(--set "parallel.$key"); done
    launch=("$mpirun" -n "${mesh%% *}")
    serve --checkpoint run --answers 2 --context 32 "${keys[@]}"
    ask_all together
    same expected together
    complete 200 "$logprobs"
    grep -o '"token_logprobs":[^]]*' reply | tr ',[' '\n\n' | paste - alone_logprobs |
        awk '$1 != "null" && NR > 2 { d = $1 - $2; if (d * d > 1e-8) exit 1 }' ||
        fail "$mesh: other log-probabilities"
    curl -s -m 1 "$url/v1/completions" -d '{"prompt":"5","max_tokens":31,"n":200}' >cut
    kill -USR1 "$server"
    wait "$server"
    ran 0 $? "$mesh"
done

for mesh in "data=2" "context=2" "tensor=2 sequence_parallel=true"; do
    keys=()
    for key in $mesh; do keys+=(--set "parallel.$key"); done
    timeout --signal=KILL 60 "$mpirun" -n 2 "$gptrain" serve --checkpoint run --port 0 "${keys[@]}" >out 2>err
    ran 2 $? "$mesh"
    says err "serve splits one text over parallel.tensor x parallel.pipeline ranks"
done

finish
