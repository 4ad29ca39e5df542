#!/usr/bin/env bash
# Usage: task_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. Tasks on several ranks give what
# lm-evaluation-harness gives, whatever the mesh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
. "$(dirname "$0")/tasks_lib.sh"
make_tasks

# on_mesh CODE RANKS "KEY=VALUE..." TASK...
on_mesh() {
    local code=$1 ranks=$2 keys=() key
    for key in $3; do keys+=(--set "parallel.$key"); done
    timeout --signal=KILL 60 "$mpirun" -n "$ranks" "$gptrain" eval --checkpoint "$model" --json results \
        --details details --task "${@:4}" "${keys[@]}" >out 2>err
    ran "$code" $? "$ranks ranks, $3: ${*:4}"
}

wanted="hellaswag lambada wikitext questions"
for mesh in "2 data=2" "2 tensor=2" "2 pipeline=2" "4 data=2 pipeline=2" "4 pipeline=2 tensor=2" \
    "2 context=2" "2 context=2 context_method=all_to_all" "2 tensor=2 sequence_parallel=true" \
    "2 pipeline=2 schedule=zero_bubble" "4 tensor=2 context=2" "4 context=2 data=2"; do
    on_mesh 0 "${mesh%% *}" "${mesh#* }" hellaswag.yaml lambada.yaml wikitext.yaml questions.yaml
    found "" >all
    as_expected all
    (($(grep -c '"hellaswag":{' out) == 1)) || fail "not one result: $(cat out)"
done

# More ranks than documents.
wanted="none"
on_mesh 0 4 "data=4" questions.yaml hellaswag.yaml --limit 1
(($(wc -l <details) == 2)) || fail "not two documents: $(cat details)"

on_mesh 3 2 "data=2" piqa
says err "no such data file"
on_mesh 2 2 "data=2" nothing
says err "--task nothing"

finish
