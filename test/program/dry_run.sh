#!/usr/bin/env bash
# What a step takes on meshes of any size, told without them: the shipped specs of large models.
. "$(dirname "$0")/lib.sh"
configs=$(dirname "$0")/../../configs

# share VALUE OF: VALUE / OF in thousandths.
share() { echo $((1000 * $1 / $2)); }
# bytes_of ROW: the exact bytes of a row of the last dry run.
bytes_of() { awk -v name="$1" 'index($0, "  " name "  ") == 1 { print $NF }' out; }

while read -r name ranks stages; do
    began=$SECONDS
    for picture in svg json; do
        expect_exit 0 "$gptrain" --config "$configs/$name.yaml" --dry-run --world-size "$ranks" \
            --timeline "$name.$picture"
    done
    ((SECONDS - began < 60)) || fail "$name took $((SECONDS - began)) s"
    says out "memory per rank" "saved activations" "sent on tp"
    ((ranks == 8 * stages)) || says out "sent on dp x cp"
    if ((stages > 1)); then
        says out "stages, each of $((ranks / stages)) ranks" "bubble" "sent on pp"
        [[ $(grep -c '^ *[0-9]* .*FLOP.* to ' out) == "$stages" ]] ||
            fail "$name: not $stages stages in the table"
    fi
    [[ $(tail -n 1 "$name.svg") == *"</svg>" ]] || fail "$name.svg is not whole"
    grep -q '"traceEvents"' "$name.json" || fail "$name.json is no trace"
    # It needs its ranks.
    expect_exit 2 "$gptrain" --config "$configs/$name.yaml"
    says err parallel "ranks"
done <<END
gpt22b 8 1
gpt175b 1024 8
gpt530b 2240 35
gpt1t 3072 64
END
expect_exit 2 "$gptrain" --config "$configs/gpt22b.yaml" --dry-run --world-size 8 --timeline step.png
says err step.png .svg .json
[[ ! -e step.png ]] || fail "a refused picture was written"

# The step of a 1F1B pipeline of p equal stages idles (p - 1) / m of its time.
cat >equal.yaml <<END
name: equal
output_dir: run
model: {num_layers: 8, hidden_size: 4096, num_attention_heads: 32, vocab_size: 8}
data: {train: [{prefix: none}]}
training: {seq_length: 2048, global_batch_size: 32, steps: 1}
parallel: {pipeline: 8, layers: [1, 1, 1, 1, 1, 1, 1, 1]}
END
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8
says out "bubble 21.9 %"

# With tensor and sequence parallelism a rank keeps an eighth of the activations.
settings parallel.pipeline=1 parallel.layers=auto
expect_exit 0 "$gptrain" --config equal.yaml --dry-run "${set[@]}"
whole=$(bytes_of "saved activations")
expect_exit 0 "$gptrain" --config equal.yaml --dry-run "${set[@]}" --world-size 8 \
    --set parallel.tensor=8 --set parallel.sequence_parallel=true
part=$(share "$(bytes_of "saved activations")" "$whole")
((part >= 124 && part <= 126)) || fail "saved activations on 8 ranks: $part thousandths of one's"

finish
