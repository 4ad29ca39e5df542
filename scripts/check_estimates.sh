#!/usr/bin/env bash
# Compares estimated with measured step times on this machine's cores: 32 configurations of 1 to 8
# ranks and four models of 2 to 98 million parameters.
#
#   scripts/check_estimates.sh --hardware FILE [--measured FILE] [--only WORDS] [--steps N]
#
#   --hardware FILE  the profile: `mpirun --bind-to none -n 2 gptrain plan --calibrate FILE` writes it
#   --measured FILE  measured seconds, one line a configuration; measures what the file lacks and
#                    adds it (build/estimates/measured.txt)
#   --only WORDS     only configurations whose line contains these words
#   --steps N        timed steps of each run, after two that are not (5)
#
# A configuration's time is the median of its steps. error = estimate / measured - 1. All
# configurations of a model have the same tokens per step, so that their times can be compared:
# `best` is the slowdown of the estimated best against the measured best. Wants an idle machine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

hardware=
measured=
only=
steps=5
take_options hardware measured only steps -- "$@"
[[ -n $hardware ]] || { echo "error: --hardware FILE is missing (--help)" >&2; exit 2; }
hardware=$(realpath "$hardware")
[[ -z $measured ]] || measured=$(realpath -m "$measured")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
measured=${measured:-$PWD/build/estimates/measured.txt}
gptrain=$PWD/build/cpu/app/gptrain
preprocess=$PWD/build/cpu/data_tools/gpt-preprocess
for program in "$gptrain" "$preprocess"; do
    [[ -x $program ]] || { echo "error: no $program: build the preset cpu first" >&2; exit 2; }
done
mkdir -p "$(dirname "$measured")"
touch "$measured"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# For OpenMPI: as root, more ranks than cores, and threads that are not bound to one core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none

# MODEL LAYERS HIDDEN HEADS VOCABULARY SEQUENCE SEQUENCES-PER-STEP
models='
2M   4  192 4  1024  128 32
8M   8  256 4  4096  256 8
29M  8  512 8  8192  256 8
98M  12 768 12 16384 256 4
'
# MODEL RANKS KEY=VALUE...: tensor, pipeline and so on are keys of parallel; micro is
# training.micro_batch_size.
configurations='
2M  1 micro=1
2M  1 micro=8
2M  2 micro=4
2M  2 micro=4 tensor=2
2M  4 micro=2
2M  8 micro=4
8M  1 micro=1
8M  1 micro=4
8M  1 micro=4 recompute=full
8M  2 micro=2
8M  2 micro=2 tensor=2 sequence_parallel=true
8M  2 micro=1 pipeline=2
8M  2 micro=2 context=2
8M  4 micro=1 tensor=2 pipeline=2
8M  4 micro=2 tensor=2
8M  8 micro=1 tensor=2 pipeline=2
29M 1 micro=2
29M 1 micro=2 recompute=none
29M 2 micro=2
29M 2 micro=1 tensor=2
29M 2 micro=1 pipeline=2 virtual_stages=2 schedule=interleaved_1f1b
29M 2 micro=2 context=2 context_method=all_to_all
29M 4 micro=1 pipeline=4
29M 4 micro=2 context=2
29M 8 micro=1 tensor=2 context=2
98M 1 micro=1
98M 1 micro=4 recompute=full
98M 2 micro=1
98M 2 micro=1 tensor=2 sequence_parallel=true
98M 2 micro=1 pipeline=2 schedule=zero_bubble
98M 4 micro=1 pipeline=2
98M 8 micro=1 tensor=2 pipeline=2
'

make_data() {
    awk 'BEGIN {
        count = split("and the earth was without form void darkness upon face deep light day", words)
        seed = 1
        for (line = 1; line <= 20000; ++line) {
            out = ""
            for (i = 0; i < 5 + line % 7; ++i) {
                seed = (seed * 16807) % 2147483647
                out = out (i ? " " : "") words[1 + seed % count]
            }
            print out "."
        }
    }' >text.txt
    "$preprocess" train-tokenizer --input text.txt --type unigram --vocab-size 290 --model-prefix tok &&
        "$preprocess" --input text.txt --tokenizer tok.model --output-prefix text
}

# spec_of MODEL RANKS KEY=VALUE...: writes run.yaml and the options of the configuration, in `set`.
spec_of() {
    local layers hidden heads vocabulary length sequences pair
    read -r _ layers hidden heads vocabulary length sequences < <(grep "^$1 " <<<"$models")
    cat >run.yaml <<END
name: $1
output_dir: run
model: {num_layers: $layers, hidden_size: $hidden, num_attention_heads: $heads, vocab_size: $vocabulary}
data: {train: [{prefix: text_text_document}], split: "100,0,0", tokenizer: tok.model}
training: {seq_length: $length, global_batch_size: $sequences, steps: $((steps + 2)), eval_interval: 0}
optimizer: {lr: 1.0e-4}
checkpoint: {interval: 0}
logging: {interval: 1, tensorboard: false}
device: cpu
END
    set=()
    for pair in "${@:3}"; do
        case $pair in
            micro=*) set+=(--set "training.micro_batch_size=${pair#*=}") ;;
            recompute=* | precision.*) set+=(--set "$pair") ;;
            *) set+=(--set "parallel.$pair") ;;
        esac
    done
}

# measure RANKS: median and range of the step times of the configuration in run.yaml.
measure() {
    rm -rf run
    local launcher=()
    (($1 == 1)) || launcher=(mpirun -n "$1")
    "${launcher[@]}" "$gptrain" --config run.yaml "${set[@]}" --resume never </dev/null >log 2>&1 ||
        { tail -n 5 log >&2; return 1; }
    sed -n 's/.*"step_time_s":\([^,]*\),.*/\1/p' run/metrics.jsonl | tail -n +3 | sort -g |
        awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)], t[1], t[NR] }'
}

# estimate RANKS: seconds of a step.
estimate() {
    "$gptrain" --config run.yaml "${set[@]}" --dry-run --world-size "$1" --hardware "$hardware" \
        --json estimate.json >log || return 1
    sed 's/.*"step_seconds":\([^,]*\),.*/\1/' estimate.json
}

make_data >data.log 2>&1 || { cat data.log >&2; exit 1; }
while read -r -a words; do
    line=${words[*]}
    [[ -n $line && $line == *"$only"* ]] || continue
    spec_of "${words[@]}"
    if ! grep -q "^$line: " "$measured"; then
        seconds=$(measure "${words[1]}")
        echo "$line: $seconds" >>"$measured"
    fi
    echo "$line: $(grep "^$line: " "$measured" | sed 's/.*: //') $(estimate "${words[1]}")"
done <<<"$configurations" | awk -F ': ' '
    BEGIN {
        format = "%-72s %9s %9s %9s %7s\n"
        printf format, "model, ranks, keys", "measured", "spread", "estimate", "error"
    }
    {
        split($2, t, " ")
        error = t[4] / t[1] - 1
        printf format, $1, sprintf("%.3f s", t[1]), sprintf("%.1f %%", 50 * (t[3] - t[2]) / t[1]),
            sprintf("%.3f s", t[4]), sprintf("%+.1f %%", 100 * error)
        if (error < 0) error = -error
        sum += error
        if (error > worst) worst = error
        split($1, word, " ")
        model = word[1]
        if (!(model in estimate) || t[4] < estimate[model]) { estimate[model] = t[4]; chosen[model] = t[1] }
        if (!(model in best) || t[1] < best[model]) best[model] = t[1]
    }
    END {
        printf "%d configurations: mean absolute error %.1f %%, worst %.1f %%\n", NR, 100 * sum / NR, 100 * worst
        for (model in best)
            printf "%s: the estimated best is %.1f %% slower than the measured best\n", model, 100 * (chosen[model] / best[model] - 1)
    }'
