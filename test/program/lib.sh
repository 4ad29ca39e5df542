# Shared by the scripts of this folder, which run the programs as a user does.
# Usage of each: SCRIPT GPTRAIN GPT-PREPROCESS
# A script ends with `finish`: exit code 0 if all checks passed, 1 if not, 77 if it could not run
# here.
set -u
script=$(realpath "$0")
gptrain=$(realpath "$1")
preprocess=$(realpath "$2")
# One thread under the thread sanitizer, which does not see how OpenMP's threads wait for each
# other.
export LC_ALL=C OMP_NUM_THREADS=${GPTRAIN_TEST_THREADS:-2} OMP_WAIT_POLICY=passive
work=$(mktemp -d)
clean_up() {
    local jobs
    jobs=$(jobs -p)
    [[ -z $jobs ]] || { kill -KILL $jobs && wait; } 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work" || exit 1
failures=0

fail() {
    echo "FAILED (line ${BASH_LINENO[-2]}): $*"
    failures=$((failures + 1))
}

finish() {
    ((failures)) || echo "all passed"
    exit $((failures > 0))
}

not_run() {
    echo "not run: $*"
    exit 77
}

# True in a soak (scripts/soak.sh), in which proofs repeat their work far more often.
soak() { [[ ${GPTRAIN_SOAK:-} == 1 ]]; }

# proof NAME FIGURES...: prints the result of a proof that passed.
proof() {
    ((failures)) || echo "proof $1: ${*:2}"
}

# expect_exit CODE COMMAND...: the exit code, within a minute; stdout and stderr go to the files out
# and err. An error is one line on stderr; otherwise stderr may have only warnings.
expect_exit() {
    local code=$1
    shift
    timeout --signal=KILL 60 "$@" >out 2>err
    check_exit "$code" $? "$*"
}

# check_exit CODE GOT COMMAND: the same for a command that has ended.
check_exit() {
    (($2 == $1)) || fail "exit code $2 instead of $1: $3: $(tail -c 400 err)"
    local faults=0
    (($1 == 0 || $1 == 75)) || faults=1
    (($(grep -c '^gptrain: error: .' err) == faults && $(grep -vc '^warning: .' err) == faults)) ||
        fail "not $faults error lines on stderr: $3: $(head -c 800 err)"
}

# says FILE WORDS...: the file contains each of the words.
says() {
    local file=$1 words
    shift
    for words in "$@"; do
        grep -qF -- "$words" "$file" || fail "'$words' is missing in $file: $(tail -c 600 "$file")"
    done
}

# says_not FILE WORDS...: the file is there and contains none of the words.
says_not() {
    local file=$1 words
    shift
    [[ -e $file ]] || fail "there is no $file"
    for words in "$@"; do
        if grep -qsF -- "$words" "$file"; then fail "'$words' is in $file: $(tail -c 600 "$file")"; fi
    done
}

same() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ: $(diff "$1" "$2" | head -c 600)"
}

differ() {
    if cmp -s "$1" "$2"; then fail "$1 and $2 are the same: $(head -c 200 "$1")"; fi
}

# make_text SEED LINES: paragraphs of four lines of words, the same on every machine.
make_text() {
    awk -v seed="$1" -v lines="$2" 'BEGIN {
        count = split("and the earth was without form void darkness upon face deep light day " \
                      "evening morning waters under heaven let there be firmament midst", words)
        for (line = 1; line <= lines; ++line) {
            out = ""
            for (i = 0; i < 5 + line % 7; ++i) {
                seed = (seed * 16807) % 2147483647
                out = out (i ? " " : "") words[1 + seed % count]
            }
            print out "."
            if (line % 4 == 0) print ""
        }
    }'
}

# Makes tok.model and the token data set "text" (text_text_document) of 250 documents.
make_data() {
    make_text 1 1000 >text.txt
    if ! {
        "$preprocess" train-tokenizer --type unigram --input text.txt --vocab-size 320 --model-prefix tok &&
            "$preprocess" --input text.txt --tokenizer tok.model --output-prefix text --append-eod
    } >out 2>&1; then
        fail "no data: $(tail -n 3 out)"
        finish
    fi
}

# A run spec, run.yaml, over that data, for the CPU or the requested device: the expected results
# must not depend on the machine.
make_spec() {
    cat >run.yaml <<END
name: tiny
output_dir: run
model: {num_layers: 2, hidden_size: 16, num_attention_heads: 2, vocab_size: 320}
data: {train: [{prefix: text_text_document}], split: "80,20,0", tokenizer: tok.model, num_samples: 60}
training: {seq_length: 16, micro_batch_size: 1, global_batch_size: 2, steps: 20, eval_interval: 0}
optimizer: {lr: 0.01}
lr_schedule: {decay_steps: 20}
checkpoint: {interval: 10}
logging: {interval: 1}
device: ${GPTRAIN_TEST_DEVICE:-cpu}
END
}

# predicted_bytes: the memory that the dry run in `out` predicts, on device and host.
predicted_bytes() {
    awk 'index($0, "  on the device  ") == 1 || index($0, "  on the host  ") == 1 { sum += $NF }
        END { printf "%.0f\n", sum }' out
}

# settings KEY=VALUE...: sets the array `set` to the --set options for these.
settings() {
    local setting
    set=()
    for setting in "$@"; do
        set+=(--set "$setting")
    done
}

# train CODE OUTPUT-DIR [KEY=VALUE...]: a run of run.yaml; `options` holds further options.
options=()
train() {
    local code=$1
    settings output_dir="$2" "${@:3}"
    expect_exit "$code" "$gptrain" --config run.yaml "${set[@]}" "${options[@]}"
}

# start OUTPUT-DIR [KEY=VALUE...]: the same in the background, as the process $pid.
start() {
    settings output_dir="$1" "${@:2}"
    : >out  # the process may start later than something reads what another one left
    "$gptrain" --config run.yaml "${set[@]}" "${options[@]}" >out 2>err &
    pid=$!
}

# ends CODE: waits for the process that `start` started.
ends() {
    wait "$pid"
    check_exit "$1" $? "the run in the background"
}

# wait_for FILE WORDS: waits until the file contains the words.
wait_for() {
    local i
    for ((i = 0; i < 6000; ++i)); do
        if grep -qsF -- "$2" "$1"; then return; fi
        sleep 0.01
    done
    fail "'$2' did not appear in $1"
}

checkpoint() { printf '%s/checkpoints/step-%06d' "$1" "$2"; }

# others OUTPUT-DIR: everything in its folder of checkpoints that is no checkpoint.
others() { ls -A "$1/checkpoints" | grep -vx 'step-[0-9]*'; }
# nothing_left OUTPUT-DIR: no save or removal has left anything unfinished there.
nothing_left() { [[ -z $(others "$1") ]] || fail "left over: $(others "$1")"; }

# newest_step OUTPUT-DIR: the step of the newest committed checkpoint, 0 if there is none.
newest_step() {
    local name
    name=$(ls "$1/checkpoints" 2>/dev/null | grep -x 'step-[0-9]*' | tail -n 1)
    echo $((10#0${name#step-}))
}

# needs_gpu: skips the script if run.yaml's device is missing.
needs_gpu() {
    settings output_dir=probe training.steps=1 checkpoint.interval=0
    "$gptrain" --config run.yaml "${set[@]}" >out 2>err
    (($? != 2)) || ! grep -qE 'built without|no NVIDIA driver|driver is too old|sees no GPU|capability' err ||
        not_run "$(sed 's/^gptrain: error: //' err)"
}

# history OUTPUT-DIR: the lines of metrics.jsonl that count, sorted by step, without measured times.
history() {
    awk -F '[:,}]' '/^\{"step": / {
        sub(/"tokens_per_s": [^,]*, "step_time_s": [^,]*, "tflops_per_device": [^,]*, /, "")
        gsub(/, "seconds": [^,}]*/, "")
        sub(/, "goodput": \{[^}]*\}/, "")
        lines[$2 "\t" ($3 ~ /val_loss/)] = $0
    } END { for (key in lines) print key "\t" lines[key] }' "$1/metrics.jsonl" | sort -n -k 1,1 -k 2,2
}

# same_run A B STEP: two output directories have the same metrics and checkpoint after that step,
# bit for bit.
same_run() {
    history "$1" >"$1.history"
    history "$2" >"$2.history"
    (($(grep -c loss "$1.history") >= $3)) || fail "$1 has no $3 lines"
    same "$1.history" "$2.history"
    same "$(checkpoint "$1" "$3")/shard-00000.h5" "$(checkpoint "$2" "$3")/shard-00000.h5"
}

# crc32c: the checksum of stdin, in decimal.
crc32c() {
    local table=() byte bit value crc=$((0xFFFFFFFF))
    for ((byte = 0; byte < 256; ++byte)); do
        value=$byte
        for ((bit = 0; bit < 8; ++bit)); do
            ((value = value & 1 ? (value >> 1) ^ 0x82F63B78 : value >> 1))
        done
        table[byte]=$value
    done
    for byte in $(od -An -v -tu1); do ((crc = (crc >> 8) ^ table[(crc ^ byte) & 255])); done
    echo $((crc ^ 0xFFFFFFFF))
}

# edit_manifest CHECKPOINT SED-SCRIPT: changes its manifest and corrects the checksum.
edit_manifest() {
    local manifest=$1/manifest.json
    sed -i "$2"'; /^"crc32c":/d' "$manifest"
    printf '"crc32c":%s}\n' "$(crc32c <"$manifest")" >>"$manifest"
}

# make_old CHECKPOINT: as programs saved it before checkpoints contained their tokenizer.
make_old() {
    rm "$1/tokenizer.model"
    edit_manifest "$1" '/^{"name":"model.h5"/s/,$//; /^{"name":"tokenizer.model"/d'
}
