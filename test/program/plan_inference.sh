#!/usr/bin/env bash
# gptrain plan --inference: the time and memory of answers by mesh and batch.
. "$(dirname "$0")/lib.sh"

cat >small.yaml <<'YAML'
name: small
device: cuda
output_dir: runs/small
model: {num_layers: 16, hidden_size: 8192, num_attention_heads: 64, vocab_size: 32000}
data: {train: [{prefix: data/corpus}]}
training: {seq_length: 2048, steps: 1000}
YAML
plan=("$gptrain" plan --inference --config small.yaml --hardware a100-80gb)
question=(--prompt 1000 --tokens 100)

# rows: the table as COPIES TP PP BATCH FIRST TOKEN ANSWER TOKENS/S GIB CACHE.
rows() {
    sed -n 's/ GiB .*//p' out | awk '$1 ~ /^[0-9]+$/ {
        if ($9 == "k") { $8 *= 1000; $9 = "" }
        $1 = $1
        print
    }' | tr -s ' '
}
# row COPIES TP PP BATCH COLUMN: a number of the table.
row() { rows | awk -v key="$1 $2 $3 $4" -v column="$5" '$1 " " $2 " " $3 " " $4 == key { print $column }'; }
# ascend A B...: the numbers do.
ascend() {
    awk 'BEGIN { for (i = 2; i < ARGC; ++i) if (!(ARGV[i - 1] + 0 < ARGV[i] + 0)) exit 1 }' "$@" ||
        fail "do not ascend: $*: $(cat out)"
}

# Every mesh of 4 GPUs: more ranks of tp answer sooner, more copies write more, and stages do not
# work at the same time.
expect_exit 0 "${plan[@]}" --world-size 4 "${question[@]}" --batch 1,16 --json plan.json
says out "answers of 100 tokens to prompts of 1,000 tokens on 4 x a100-80gb"
(($(rows | wc -l) == 12)) || fail "not 12 rows: $(cat out)"
ascend "$(row 1 4 1 1 7)" "$(row 2 2 1 1 7)" "$(row 4 1 1 1 7)" "$(row 1 1 4 1 7)"
ascend "$(row 4 1 1 1 5)" "$(row 4 1 1 16 5)"
ascend "$(row 1 1 4 1 8)" "$(row 4 1 1 1 8)"
ascend "$(row 1 4 1 1 9)" "$(row 1 4 1 16 9)" "$(row 4 1 1 16 9)"
# Keys and values of 1,100 tokens, 16 texts and 16 layers in bf16.
says plan.json '"batch":16' "\"cache_bytes\":$((2 * 1100 * 16 * 16 * 8192 * 2))}" '"token_seconds":'

# Without batches: the shortest answer first, and each next one writes more.
expect_exit 0 "${plan[@]}" --world-size 4 "${question[@]}"
says out "does not fit: tp 1, pp 1, batch "
ascend $(rows | awk '{ print $7 }')
ascend $(rows | awk '{ print $8 }')
(($(rows | wc -l) > 3)) || fail "too few rows: $(cat out)"

# A limit on the time, and on the mesh.
expect_exit 0 "${plan[@]}" --world-size 4 "${question[@]}" --max-latency 2 --fix parallel.tensor=2
rows | awk '$7 > 2 || $2 != 2 { exit 1 }' || fail "beyond the limits: $(cat out)"
expect_exit 0 "${plan[@]}" --world-size 4 "${question[@]}" --max-latency 1e-6
says out "none takes at most 1e-06 s: the shortest answer takes "
expect_exit 0 "${plan[@]}" --world-size 3 "${question[@]}" --batch 1
says out "not possible: tp 3, pp 1: model.num_attention_heads"

# One line that says what to do.
wrong() {
    expect_exit 2 "${plan[@]}" --world-size 1 "${@:2}"
    says err "$1"
}
wrong "the model has 2048 positions (model.max_position_embeddings)" --prompt 2000 --tokens 100
wrong "--prompt is required" --tokens 100
wrong "--inference varies parallel.tensor" "${question[@]}" --fix recompute=full
wrong "fits on a100-80gb" "${question[@]}" --set model.num_layers=2000
wrong "--batch 16777216 with --prompt 1000: a copy of the model reads at most 268,435,456 tokens" \
    "${question[@]}" --batch 1,16777216
wrong "--batch 0" "${question[@]}" --batch 0
wrong "excludes" "${question[@]}" --write x.yaml
expect_exit 2 "$gptrain" plan --config small.yaml --hardware a100-80gb --world-size 1 --prompt 3
says err "--inference"

finish
