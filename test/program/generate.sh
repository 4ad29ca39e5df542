#!/usr/bin/env bash
# gptrain generate: the effect of its options, prompts of every kind, and where texts end.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 run training.steps=40 training.global_batch_size=8 lr_schedule.decay_steps=60 \
    model.max_position_embeddings=40
train 0 ids training.steps=5 data.tokenizer=none data.eod_id=auto model.position_embedding=rope

# generate TO OPTION...: continues a prompt with the model in `run`; stdout goes to the file TO.
model=run
generate() {
    local to=$1
    shift
    expect_exit 0 "$gptrain" generate --checkpoint $model "$@"
    mv out "$to"
}
prompt=(--prompt "and the earth" --max-tokens 20)

# How tokens are chosen.
generate seed1 "${prompt[@]}" --seed 1
generate seed1_again "${prompt[@]}" --seed 1
generate seed2 "${prompt[@]}" --seed 2
same seed1 seed1_again
differ seed1 seed2
generate greedy "${prompt[@]}" --temperature 0
for choice in "--temperature 0 --seed 5" "--top-k 1 --seed 5" "--top-p 1e-9 --seed 6" \
    "--temperature 1e-6 --seed 7"; do
    generate same_as_greedy "${prompt[@]}" $choice
    same greedy same_as_greedy
done
differ greedy seed1
generate all_tokens "${prompt[@]}" --seed 1 --top-k 1000000 --top-p 1
same seed1 all_tokens
generate cooler "${prompt[@]}" --seed 1 --temperature 0.3
differ seed1 cooler

generate likely "${prompt[@]}" --seed 1 --min-p 1
same greedy likely
generate unrepeated "${prompt[@]}" --temperature 0 --repetition-penalty 100
differ greedy unrepeated

# In a precision other than the run's.
for precision in compute=bf16 compute=fp16 frozen=int8; do
    generate in_$precision "${prompt[@]}" --temperature 0 --set precision.$precision
    [[ -s in_$precision ]] || fail "no text in $precision"
done
# Few rows read a copy of the head in int8.
generate int8 --prompt "and" --max-tokens 2 --temperature 0 --set precision.frozen=int8
generate exact --prompt "and" --max-tokens 2 --temperature 0
same exact int8
expect_exit 2 "$gptrain" generate --checkpoint run "${prompt[@]}" --set training.steps=1
says err "--set training.steps=1: only device, precision.compute, precision.frozen, precision.nf4_double and parallel.*"
expect_exit 0 "$gptrain" eval --checkpoint run --data text_text_document
loss=$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out)
for precision in compute=bf16 frozen=int8; do
    expect_exit 0 "$gptrain" eval --checkpoint run --data text_text_document \
        --set precision.$precision
    awk -v a="$loss" -v b="$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out)" \
        'BEGIN { apart = a / b - 1; exit !(apart != 0 && apart < 0.01 && apart > -0.01) }' ||
        fail "loss $loss, with $precision: $(cat out)"
done

# A vocabulary that is larger than the tokenizer's: ids without a text are never chosen.
train 0 padded training.steps=1 model.vocab_size=2048 model.init_std=0.5
for sampling in "--temperature 0" "--temperature 5 --seed 1" "--temperature 5 --seed 2"; do
    expect_exit 0 "$gptrain" generate --checkpoint padded "${prompt[@]}" $sampling
done

# A stop text ends the output before it, wherever its tokens begin.
model=ids
ids_prompt=(--prompt "5 6 7" --max-tokens 20 --seed 1)
generate ids_alone "${ids_prompt[@]}"
text=$(cat ids_alone)
for begin in 2 5 11; do
    stop=${text:begin:7}
    generate stopped "${ids_prompt[@]}" --stop "never this" --stop "$stop"
    printf '%s\n' "${text%%"$stop"*}" >expected
    same expected stopped
done
generate unstopped "${ids_prompt[@]}" --stop "${text}and more"
same ids_alone unstopped
model=run

# Several continuations: each as if it were alone, with a line before it.
generate three "${prompt[@]}" --seed 1 --samples 3
generate two "${prompt[@]}" --seed 1 --samples 2
[[ $(grep -c '^--- sample [123] of 3 ---$' three) == 3 ]] || fail "not three samples: $(cat three)"
sample() { awk -v wanted="$2" '/^--- sample / { number = $3; next } number == wanted' "$1"; }
for number in 1 2; do
    sample two $number >of-two
    sample three $number >of-three
    same of-two of-three
done
sample three 1 >first
same seed1 first
sample three 2 >second
differ first second

# Output comes token by token, and a signal ends it within a second with what was written.
mkfifo pipe
set -m  # else a program in the background ignores SIGINT
"$gptrain" generate --checkpoint ids --prompt "5 6 7" --max-tokens 1000 --samples 100000 \
    >pipe 2>err &
pid=$!
set +m
exec 3<pipe
read -r -u 3 line
read -r -n 1 -u 3 first
[[ $line == "--- sample 1 of 100000 ---" && $first == [0-9] ]] || fail "no token came: $line $first"
kill -INT "$pid"
timeout 60 cat <&3 >rest || fail "output goes on after SIGINT"
exec 3<&-
wait "$pid"
check_signal=$?
((check_signal == 130)) || fail "exit code $check_signal after SIGINT"
says err "interrupted by SIGINT"

# Prompts.
printf 'and the earth' >prompt.txt
generate by_file --prompt-file prompt.txt --max-tokens 20 --seed 1
same seed1 by_file
for file in - <(cat prompt.txt); do
    generate by_pipe --prompt-file "$file" --max-tokens 20 --seed 1 < <(cat prompt.txt)
    same seed1 by_pipe
done
expect_exit 3 "$gptrain" generate --checkpoint run --prompt-file /dev/zero
says err "/dev/zero: exceeds the limit of 64.00 MiB"
expect_exit 3 "$gptrain" generate --checkpoint run --prompt-file .
says err "not a regular file"
printf 'an\377' >latin1.txt
expect_exit 3 "$gptrain" generate --checkpoint run --prompt-file latin1.txt
says err "latin1.txt: is not UTF-8 at byte 2"
generate empty --prompt "" --max-tokens 5
(($(wc -c <empty) > 5)) || fail "an empty prompt gives: $(cat empty)"
generate foreign --prompt $'\303\244\340\270\201 \360\237\230\200' --max-tokens 5 --temperature 0
generate none --prompt and --max-tokens 0
[[ $(cat none) == "" ]] || fail "no token was asked for, and there is: $(cat none)"
generate to_the_end --prompt and --max-tokens 1000 --seed 3
(($(wc -w <to_the_end) < 80)) || fail "more tokens than positions: $(cat to_the_end)"
cat text.txt >long.txt
expect_exit 2 "$gptrain" generate --checkpoint run --prompt-file long.txt
says err "40" "prompt"

# Token ids if the run has no tokenizer; rope continues beyond the trained positions.
model=ids
generate twelve --prompt "5 6 7" --max-tokens 12 --temperature 0
[[ ! -s err ]] || fail "a text of the trained length is warned of: $(cat err)"
[[ $(cat twelve) =~ ^([0-9]+\ +){11}[0-9]+\ *$ ]] || fail "not twelve ids: $(cat twelve)"
read -ra tokens <twelve
# Giving the generated text as the prompt gives the same result: the key/value cache changes
# nothing.
generate rest --prompt "5 6 7 ${tokens[*]:0:8}" --max-tokens 4 --temperature 0
read -ra rest <rest
[[ ${rest[*]} == "${tokens[*]:8}" ]] || fail "after ${tokens[*]:0:8}: ${rest[*]}, not ${tokens[*]:8}"
generate long --prompt "$(seq -s ' ' 1 100)" --max-tokens 3 --samples 2
says err "warning: the text has 103 tokens, more than the 16 positions that the model was trained for"
(($(grep -c "trained for" err) == 1)) || fail "warned more than once: $(cat err)"
for bad in "5 320" "5 six" "-1" "" "99999999999"; do
    expect_exit 2 "$gptrain" generate --checkpoint ids --prompt "$bad"
done

# Without an end of document, a text ends at the last learned position.
train 0 learned training.steps=1 data.tokenizer=none model.max_position_embeddings=40
model=learned
generate up_to_there --prompt "5 6 7" --max-tokens 37
[[ ! -s err ]] || fail "what was asked for is warned of: $(cat err)"
generate no_further --prompt "5 6 7" --max-tokens 38
same up_to_there no_further
says err "warning: stopped after 37 of 38 tokens" "last position is 40"

# A text with rope ends as well, much later, and takes no memory for tokens that cannot come.
expect_exit 0 bash -c 'ulimit -v 1500000; exec "$@"' - "$gptrain" generate --checkpoint ids \
    --prompt "5 6 7" --max-tokens 16777216
(($(wc -w <out) == 64 * 16 - 3)) || fail "with rope $(wc -w <out) tokens"
says err "stopped after 1021 of 16777216 tokens" "last position is 1024 (64 times model.max_position_emb"
numbers=$(seq -s ' ' 1 300)
expect_exit 2 "$gptrain" generate --checkpoint ids \
    --prompt "$numbers $numbers $numbers $numbers" --max-tokens 1
says err "the prompt has 1200 tokens, but the model has only 1024 positions (64 times model."

# The end of a document ends the text.
for ((i = 0; i < 300; ++i)); do echo "and the"; done >lines.txt
expect_exit 0 "$preprocess" --input lines.txt --documents line --tokenizer tok.model \
    --output-prefix lines --append-eod
train 0 short "data.train=[{prefix: lines_text_document}]" training.steps=40 \
    training.global_batch_size=4 optimizer.lr=0.02 lr_schedule.kind=constant \
    model.tie_embeddings=false model.num_layers=1 model.max_position_embeddings=200
model=short
generate ends --prompt "and" --max-tokens 1000 --temperature 0
[[ ! -s err ]] || fail "the end of a document is warned of: $(cat err)"
[[ $(cat ends) == " the" ]] || fail "the document does not end: $(cat ends)"

# Errors.
bad() { expect_exit 2 "$gptrain" generate --checkpoint "$@"; }
bad nowhere --prompt and
says err "nowhere: no such folder (relative to $work, where the program was started)"
bad run/cache --prompt and
says err "run/cache: no checkpoint found"
bad run.yaml --prompt and
says err "run.yaml: is a YAML file, not a folder; give a checkpoint (step-...)"
bad tok.model --prompt and
says err "tok.model: is a file, not a folder; give a checkpoint (step-...)"
for temperature in -1 nan inf -inf 1e7 warm; do
    bad run --prompt and --temperature $temperature
    says err "--temperature: '$temperature' is not a number from 0 to 1"
done
for top_p in 1.5 -0.1 nan; do
    bad run --prompt and --top-p $top_p
    says err "--top-p: '$top_p' is not a number from 0 to 1"
done
for seed in -1 1.5 nan 18446744073709551616; do
    bad run --prompt and --seed $seed
    says err "--seed: '$seed' is not a whole number from 0 to 18446744073709551615"
done
generate largest_seed "${prompt[@]}" --seed 18446744073709551615
bad run --prompt and --top-k -2
bad run --prompt and --max-tokens -1
bad run --prompt and --seed x
bad run --prompt and --prompt-file prompt.txt
bad run --prompt and --word
expect_exit 2 "$gptrain" generate --prompt and
expect_exit 3 "$gptrain" generate --checkpoint run --prompt-file missing.txt
says err "missing.txt: no such file (relative to $work,"

for bad_option in "--stop=" "--samples 0" "--min-p 1.5" "--min-p nan" "--repetition-penalty 0" \
    "--repetition-penalty nan" "--system x" "--template plain" "--context 1" "--context 50"; do
    bad run --prompt and $bad_option
done

# The text from a pipe is the prompt, without the end of its last line.
model=run
generate named "${prompt[@]}" --seed 1
for line_end in '' '\n' '\r\n'; do
    printf "and the earth$line_end" | "$gptrain" generate run --max-tokens 20 --seed 1 >piped
    same named piped
done
printf 'and the earth\n\n' | "$gptrain" generate run --max-tokens 20 --seed 1 >piped
printf 'and the earth\n' >line.txt
generate from_file --prompt-file line.txt --max-tokens 20 --seed 1
same from_file piped
expect_exit 2 "$gptrain" generate --checkpoint run </dev/null
says err "stdin holds no prompt"
expect_exit 2 "$gptrain" generate run --context 30 < <(echo and)
says err "--context"

# A checkpoint's model.h5 and an exported Hugging Face model folder are the same model.
model=$(checkpoint run 40)/model.h5
generate by_index "${prompt[@]}" --seed 1
same seed1 by_index
train 0 llama model.position_embedding=rope model.normalization=rmsnorm model.activation=swiglu \
    model.bias=false
model=llama
generate by_run "${prompt[@]}" --seed 1
expect_exit 0 "$gptrain" export llama --format hf --output hf
model=hf
generate by_hf "${prompt[@]}" --seed 1
same by_run by_hf
expect_exit 0 "$gptrain" eval --checkpoint llama --data text.txt
mv out by_run
expect_exit 0 "$gptrain" eval --checkpoint hf --data text.txt
same by_run out
expect_exit 2 "$gptrain" export hf --format hf --output again
says err "hf: is a Hugging Face model folder"
rm hf/gptrain.sentencepiece hf/tokenizer*.json
generate ids_of_hf --prompt "5 6 7" --max-tokens 3
says err "warning: hf: has no tokenizer; the model reads and writes token ids"
bad hf --chat
says err "no chat template"
mv hf/config.json away.json
bad hf --prompt 5
says err "hf: has model.safetensors, but no config.json"
mv away.json hf/config.json
rm hf/model.safetensors
expect_exit 3 "$gptrain" generate --checkpoint hf --prompt 5
says err "hf: has neither model.safetensors nor model.safetensors.index.json"
bad tok/model.h5 --prompt and

# A checkpoint contains its tokenizer: a folder copied to another machine is enough.
expect_exit 0 "$preprocess" train-tokenizer --type unigram --input text.txt --vocab-size 300 --model-prefix other
cp -r "$(checkpoint run 40)" step-000040
cmp -s tok.model step-000040/tokenizer.model || fail "not the tokenizer's bytes"
mv tok.model away.model
model=step-000040
generate copied "${prompt[@]}" --seed 1
same seed1 copied
# A template that makes nothing of a message: the text begins as a document does.
echo -n '{% for m in messages %}{{ m.content | trim }}{% endfor %}' >trim.jinja
generate trimmed --chat --template trim.jinja --prompt " " --max-tokens 3
generate given "${prompt[@]}" --seed 1 --tokenizer away.model
same seed1 given
bad step-000040 --prompt and --tokenizer other.model
says err "other.model" "step-000040/tokenizer.model"
bad step-000040 --prompt and --tokenizer run.yaml
says err "run.yaml: is a YAML file, not a tokenizer; give a tokenizer.json or a sentencepiece model"
bad ids --prompt 5 --tokenizer away.model
says err "without a tokenizer"
expect_exit 3 "$gptrain" generate --checkpoint step-000040 --prompt and --tokenizer missing.model
says err "missing.model: no such file (relative to $work,"

# An older one does not: the path in the spec is used, or the given file.
make_old step-000040
expect_exit 3 "$gptrain" generate --checkpoint step-000040 --prompt and
says err "$work/tok.model" "--tokenizer FILE"
expect_exit 0 "$gptrain" eval --checkpoint step-000040 --data text_text_document
generate given "${prompt[@]}" --seed 1 --tokenizer away.model
same seed1 given
bad step-000040 --prompt and --tokenizer other.model
says err "other.model" "not the tokenizer"
cp other.model tok.model
bad step-000040 --prompt and
says err "$work/tok.model" "not the tokenizer"
cp away.model tok.model
generate by_path "${prompt[@]}" --seed 1
same seed1 by_path

# Token files of another tokenizer have another meaning.
expect_exit 0 "$preprocess" --input lines.txt --tokenizer other.model --output-prefix other
expect_exit 2 "$gptrain" eval --checkpoint step-000040 --data other_text_document
says err "trained with" "other_text_document" "other.model"
rm other_text_document.meta.json
expect_exit 0 "$gptrain" eval --checkpoint step-000040 --data other_text_document
says out "other_text_document: no .meta.json"

finish
