#!/usr/bin/env bash
# Usage: new.sh GPTRAIN GPT-PREPROCESS ON-TERMINAL. gptrain new: from token files to a run spec that
# trains.
. "$(dirname "$0")/lib.sh"
on_terminal=$(realpath "$3")
configs=$(dirname "$0")/../../configs
make_data

expect_exit 2 "$gptrain" new
says err --data
expect_exit 3 "$gptrain" new --data missing
says err missing.idx
[[ ! -e missing.yaml ]] || fail "a spec without data"

expect_exit 0 "$gptrain" new --data text_text_document --device cpu --output tiny.yaml
says out "tiny.yaml: " "train with: gptrain train tiny.yaml" \
    "limited by the smallest size that gptrain new suggests; the token budget (20 tokens per parameter) is for"
says err "tokens, fewer than the " " parameters of the smallest model"
says tiny.yaml "name: tiny" "prefix: text_text_document" "tokenizer: tok.model" \
    "vocab_size: 320" "num_layers: 2" "device: cpu"
expect_exit 0 "$gptrain" inspect tiny.yaml
expect_exit 0 "$gptrain" --config tiny.yaml --set training.steps=2 --set checkpoint.interval=2
says out "finished after step 2"
expect_exit 0 "$gptrain" generate --checkpoint runs/tiny --prompt "and" --max-tokens 40

# The ending of the token files need not be typed, and several ranks can train what it wrote.
make_text 2 20000 >longer.txt
"$preprocess" --input longer.txt --tokenizer tok.model --output-prefix longer >out 2>&1
expect_exit 0 "$gptrain" new --data longer --device cpu
expect_exit 0 "$gptrain" train longer.yaml --dry-run --world-size 8

# An existing file is never overwritten.
cp tiny.yaml before
expect_exit 2 "$gptrain" new --data text_text_document --device cpu --output tiny.yaml
says err tiny.yaml
same tiny.yaml before

# A mixture of experts trains as the model that computes as much.
expect_exit 0 "$gptrain" new --data text_text_document --device cpu --experts 4 --output mixture.yaml
says out "parameters, of which each token uses as many as a model of "
says mixture.yaml "--experts 4" "    count: 4 " "    per_token: 2 "
expect_exit 0 "$gptrain" --config mixture.yaml --set training.steps=2 --set output_dir=runs/mixture
says out "finished after step 2"

# More tokens make a larger model.
parameters() { sed -n 's/.*: \([0-9,]*\) parameters.*/\1/p' out | tr -d ,; }
expect_exit 0 "$gptrain" new --data text_text_document --tokens 20B --hardware h100 \
    --ranks 2 --output large.yaml
large=$(parameters)
says large.yaml "device: cuda" "--tokens 20000000000" 'split: "95,5,0"'
says out "--hardware h100 is h100-sxm" "mpirun -n 2 gptrain train large.yaml"
says err "more than 4 times"
expect_exit 0 "$gptrain" --config large.yaml --dry-run --world-size 2 --hardware h100-sxm
says out "fits: "
expect_exit 0 "$gptrain" new --data text_text_document --tokens 100e6 --hardware h100-sxm \
    --output small.yaml
((large > 50 * $(parameters))) || fail "$large parameters for 200 times the tokens of $(parameters)"
# A model that memory limits is smaller where more of it stays free.
sed 's/memory: 84.92e9 /memory: 12e9 /' "$configs/hardware/h100-sxm.yaml" >small_gpu.yaml
for share in 0 50; do
    expect_exit 0 "$gptrain" new --data text_text_document --tokens 20B --hardware small_gpu.yaml \
        --memory-headroom $share% --output free$share.yaml
    says out "limited by the memory"
    says free$share.yaml "--memory-headroom $share%"
    free[$share]=$(parameters)
done
((free[50] < free[0])) || fail "${free[50]} parameters with half of the memory, ${free[0]} with all"
expect_exit 0 "$gptrain" new --data text_text_document --tokens 20B --hardware small_gpu.yaml --output free.yaml
says_not free.yaml "--memory-headroom"
expect_exit 0 "$gptrain" --config free.yaml --dry-run --hardware small_gpu.yaml
says out "fits: "
expect_exit 2 "$gptrain" new --data text_text_document --memory-headroom 5 --output no.yaml
says err "--memory-headroom 5: give a share of the device's memory"
# The estimate of a spec that --hours sized is that of the dry run, and within the hours.
expect_exit 0 "$gptrain" new --data text_text_document --hours 0.01h --hardware cpu --output timed.yaml
says out "times are rough: the profile cpu is a guess"
says timed.yaml "--hours 0.01 --hardware cpu"
expect_exit 0 "$gptrain" --config timed.yaml --dry-run --hardware cpu --json timed.json
days=$(sed -n 's/.*"days": *\([0-9.e-]*\).*/\1/p' timed.json)
awk -v days="$days" 'BEGIN { exit !(days > 0 && days * 24 <= 0.0101) }' || fail "'$days' days for 0.01 hours"

# With a billion tokens, in 1,000 documents, ten million are enough for validation.
awk 'function le(n, bytes) { for (; bytes > 0; --bytes) { printf "\\x%02x", n % 256; n = int(n / 256) } }
    BEGIN {
        printf "MMIDIDX\\x00\\x00"
        le(1, 8); le(8, 1); le(1000, 8); le(1001, 8)
        for (i = 0; i < 1000; ++i) le(1000000, 4)
        for (i = 0; i < 1000; ++i) le(2000000 * i, 8)
        for (i = 0; i <= 1000; ++i) le(i, 8)
    }' >escapes
# shellcheck disable=SC2059
printf "$(cat escapes)" >big_text_document.idx
truncate -s 2000000000 big_text_document.bin
expect_exit 0 "$gptrain" new --data big_text_document --tokenizer tok.model --hardware h100 --output big.yaml
says big.yaml 'split: "99,1,0"'
rm big_text_document.bin

# Names that YAML or a shell would read otherwise.
mkdir "my text"
cp text_text_document.{bin,idx,meta.json} tok.model "my text"
expect_exit 0 "$gptrain" new --data "my text/text_text_document" --device cpu --output null.yaml
says null.yaml 'name: "null"' "gptrain new --data 'my text/text_text_document'"
expect_exit 0 "$gptrain" inspect null.yaml
expect_exit 0 "$gptrain" new --data "my text/text_text_document" --device cpu --output "my text/a.yaml"
says out "train with: gptrain train 'my text/a.yaml'"

# Invalid options.
expect_exit 2 "$gptrain" new --data text_text_document --hours 1 --tokens 5
expect_exit 2 "$gptrain" new --data text_text_document --hours 0
expect_exit 2 "$gptrain" new --data text_text_document --hours nan
says err "'nan' is not a number"
expect_exit 2 "$gptrain" new --data text_text_document --hours 0.5m
for tokens in 20X B 1.5 2e1B 2000T; do
    expect_exit 2 "$gptrain" new --data text_text_document --tokens "$tokens"
    says err "'$tokens' is not a whole number" "300M, 20B or 20e9"
done
# An hour of which the text allows only a little.
expect_exit 0 "$gptrain" new --data text_text_document --hours 1 --device cpu --output hour.yaml
says out "the run takes " " of the 1 h 00 min given: it reads its " " training tokens 4 times"
expect_exit 2 "$gptrain" new --data text_text_document --device cpu --output h4
says err "--output h4: the name must end in .yaml or .yml"
expect_exit 2 "$gptrain" new --data text_text_document --device cpu --output nowhere/x.yaml
says err "nowhere: no such folder" "for --output; create it"
expect_exit 2 "$gptrain" new --data text_text_document --device gpu
says err "cpu or cuda"
expect_exit 2 "$gptrain" new --data text_text_document --device cuda --hardware cpu --output no.yaml
expect_exit 2 "$gptrain" new --data text_text_document --device cuda --output no.yaml
says err --hardware
expect_exit 2 "$gptrain" new --data text_text_document --device cpu --ranks 100000 --output no.yaml
says err "--ranks 100000: this machine has " "for more machines give --hardware FILE"
rm text_text_document.meta.json
expect_exit 2 "$gptrain" new --data text_text_document --device cpu --output no.yaml
says err --tokenizer
expect_exit 0 "$gptrain" new --data text_text_document --device cpu --output given.yaml \
    --tokenizer tok.model
[[ ! -e no.yaml ]] || fail "a refused spec was written"

# A model that exists: the ways in which the machine can train it, and the first that fits.
models=$(dirname "$0")/../interop/models
mkdir tiny
cp "$models/llama/config.json" tiny
expect_exit 0 "$gptrain" plan --model tiny --hardware cpu
says out "full " "lora " "qlora "
expect_exit 0 "$gptrain" plan --model tiny --hardware rtx-4090 --world-size 2 --seq-length 16
expect_exit 2 "$gptrain" plan --model tiny --hardware cpu --config tiny.yaml
expect_exit 3 "$gptrain" plan --model runs --hardware cpu
says err "runs/config.json"
expect_exit 2 "$gptrain" new --data longer --model tiny --way half --device cpu --output half.yaml
says err "--way half: give one of full"
expect_exit 2 "$gptrain" new --data longer --model tiny --hardware rtx-4090 --host-memory 1MB \
    --way full --output half.yaml
says err "cannot be trained"
[[ ! -e half.yaml ]] || fail "a refused spec was written"
expect_exit 0 "$gptrain" import "$models/gpt2" --output imported
expect_exit 0 "$gptrain" new --data longer --model "$models/gpt2" --way lora --device cpu --output lora.yaml
says out "LoRA" "train with: gptrain train lora.yaml"
says lora.yaml "--way lora" "on the CPU of this machine" "adapter:" "tokenizer: tok.model"
expect_exit 2 "$gptrain" new --output a.yaml --output b.yaml
says err "--output: give it once (gptrain new --help)"
expect_exit 0 "$gptrain" inspect lora.yaml

# A terminal is asked for what is missing.
printf 'text_text_document\n\ncpu\n\nasked.yaml\n' >answers
ask() {
    "$on_terminal" --talk "$gptrain" new --tokenizer tok.model "$@" <answers >out 2>err ||
        fail "on a terminal: $(tail -n 3 out err)"
}
ask
says out "Token files" "Hours" "Ranks" "asked.yaml: "
# A wrong answer is answered at once, and asked for again.
printf '%s\n' "" missing text_text_document soon nan "" gpu cpu 0 100000 1 h4 asked.yaml again.yaml >answers
ask
says out "a path is needed" "missing.idx" "'soon' is not a number" "'nan' is not a number" \
    "give cpu or cuda" "'0' is not a whole number" "--ranks 100000: this machine has" \
    "--output h4: the name must end" "asked.yaml: exists" "again.yaml: "
expect_exit 0 "$gptrain" inspect again.yaml
# Values that the command line gives are not asked for.
printf 'text_text_document\n' >answers
ask --ranks 1 --tokens 100000 --device cpu --output told.yaml
says_not out "Ranks" "Hours" "Device" "File to write"
expect_exit 0 "$gptrain" inspect asked.yaml

finish
