#!/usr/bin/env bash
# Usage: eval_tasks_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. Every mesh measures the same results on
# tasks during training.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
. "$(dirname "$0")/tasks_lib.sh"
make_data
make_spec
sed -i 's/num_layers: 2/num_layers: 4/; s/global_batch_size: 2/global_batch_size: 4/' run.yaml
make_text 7 12 | grep . >lines.txt
sed 's/.*/{"text": "&"}/' lines.txt >lines.jsonl
printf 'kind: last_word\ndata: lines.jsonl\ntext: "{{ text }}"\n' >last.yaml
make_questions
tasks="eval_tasks={tasks: [./last.yaml, ./write.yaml], interval: 10}"

# Every other answer is what a rank alone writes in the end.
train_ranks 0 1 one "${writer[@]}"
expect_exit 0 "$gptrain" eval --checkpoint "$(checkpoint one 20)" --task write.yaml --details written
answer_with written
rm -r one
train_ranks 0 1 one "$tasks" "${writer[@]}"
# Random words: some are right in some steps, and the perplexity shows each of them.
perplexities() { sed -n 's/.*"tasks".*"perplexity":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
(($(perplexities one | wc -l) == 2)) || fail "not two results: $(cat one/metrics.jsonl)"
matches() { sed -n 's/.*"exact_match":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '; }
[[ $(matches one) == "0"*" 0.5 " ]] || fail "one rank: matches $(matches one)"
for mesh in "2 data=2" "2 tensor=2" "2 tensor=2 sequence_parallel=true" "2 context=2" \
    "2 context=2 context_method=all_to_all" "2 pipeline=2 schedule=zero_bubble" \
    "4 pipeline=2 virtual_stages=2 schedule=interleaved_1f1b data=2" "4 tensor=2 pipeline=2"; do
    keys=()
    for key in ${mesh#* }; do keys+=("parallel.$key"); done
    rm -rf several
    train_ranks 0 "${mesh%% *}" several "$tasks" "${writer[@]}" "${keys[@]}"
    paste <(perplexities one) <(perplexities several) | awk '
        { apart = $1 / $2 - 1; if (apart > 1e-3 || apart < -1e-3) print }
        END { if (NR != 2) print NR " results" }' >apart
    [[ ! -s apart ]] || fail "$mesh: $(cat apart)"
    [[ $(matches several) == "$(matches one)" ]] || fail "$mesh: matches $(matches several)"
done

finish
