#!/usr/bin/env bash
# eval_tasks: a run measures itself on tasks, with the numbers of gptrain eval --task.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks_lib.sh"
make_data
make_spec
cat >choices.jsonl <<'END'
{"context": "and the earth was", "choices": ["without form", "midst midst midst"], "answer": 0}
{"context": "let there be", "choices": ["void void", "light day", "face"], "answer": 1}
{"context": "evening", "choices": ["morning", "the"], "answer": 0}
END
cat >choices.yaml <<'END'
kind: multiple_choice
data: choices.jsonl
prompt: "{{ context }}"
choices: "{{ choices }}"
answer: "{{ answer }}"
END
head -n 1 text.txt >line.txt
printf 'kind: perplexity\ndata: line.txt\ntext: "{{ text }}"\n' >words.yaml
tasks="eval_tasks={tasks: [choices.yaml, ./words.yaml], interval: 10}"

# results OUTPUT-DIR STEP: TASK METRIC VALUE of the line in metrics.jsonl.
results() {
    grep "^{\"step\": $2, \"tasks\"" "$1/metrics.jsonl" | tail -n 1 | metrics_of
}
metrics_of() {
    awk 'BEGIN { RS = "[{},]" }
        { gsub(/"/, ""); split($0, part, ":") }
        part[2] == "" { task = part[1]; next }
        part[1] !~ /_stderr|documents|few_shot|step|tasks/ { print task, part[1], part[2] }'
}
# close A B: two lists of results are equal but for rounding.
close() {
    paste -d ' ' "$1" "$2" | awk '
        function size(x) { return x < 0 ? -x : x }
        $1 != $4 || $2 != $5 || $3 == "null" || size($3 - $6) > 1e-5 * (1 + size($3)) { print }
        END { if (NR < 8) print NR " results" }' >apart
    [[ ! -s apart ]] || fail "results differ: $(cat apart)"
}

# The results of a step are those of its checkpoint, wherever they are shown.
train 0 run "$tasks" logging.prometheus=run.prom
for step in 10 20; do
    results run $step >shown
    expect_exit 0 "$gptrain" eval --checkpoint "$(checkpoint run $step)" --task choices.yaml words.yaml
    tail -n 1 out | metrics_of >measured
    close shown measured
done
(($(grep -c '"tasks"' run/metrics.jsonl) == 2)) || fail "not two lines of tasks"
train 0 ten "$tasks" training.steps=10
says out "step 10/10  choices  acc 0." "step 10/10  words  word_perplexity "
says run.prom 'gptrain_task{run="tiny",task="choices",metric="acc"} ' 'metric="bits_per_byte"} '
grep -q 'tasks/choices/acc_norm' run/events.out.tfevents.* || fail "no tag in TensorBoard"
expect_exit 0 "$gptrain" report run --output report.html
says report.html "choices, acc_bytes" "words, adjusted_perplexity"
expect_exit 0 "$gptrain" report run --format csv
says out ",tasks.choices.acc,"

# A conversation about a question is the text that its template makes of it, and choices follow
# without a space.
cat >spaced.jsonl <<'END'
{"context": "and the earth was", "choices": [" without form", " midst midst midst"], "answer": 0}
{"context": "let there be", "choices": [" void void", " light day", " face"], "answer": 1}
{"context": "evening", "choices": [" morning", " the"], "answer": 0}
END
cat >asked.yaml <<'END'
kind: multiple_choice
data: spaced.jsonl
description: "Choose."
prompt: "{{ context }}"
choices: "{{ choices }}"
answer: "{{ answer }}"
END
cat >spelled.yaml <<'END'
kind: multiple_choice
data: choices.jsonl
prompt: "(system) Choose.; (user) {{ context }}; answer:"
choices: "{{ choices }}"
answer: "{{ answer }}"
END
printf '%s' '{% for m in messages %}({{ m.role }}) {{ m.content }}{{ end }} {% endfor %}answer:' >chat.jinja
log_likelihoods() { grep -o '"log_likelihoods": *\[[^]]*\]' "$1"; }
expect_exit 0 "$gptrain" eval run --task asked.yaml --chat --template chat.jinja \
    --chat-template-kwargs '{"end": ";"}' --details details.jsonl
log_likelihoods details.jsonl >asked
expect_exit 0 "$gptrain" eval run --task spelled.yaml --details details.jsonl
log_likelihoods details.jsonl >spelled
(($(wc -l <asked) == 3)) || fail "log-likelihoods: $(head -c 300 asked)"
same asked spelled
expect_exit 2 "$gptrain" eval run --task words.yaml --chat --template chat.jinja
says err "--chat: task words of kind perplexity has no prompt that a user could write"
expect_exit 2 "$gptrain" eval run --task asked.yaml --template chat.jinja
says err "--template" "--chat"

# Training is the same without them, and the memory is what the dry run says.
train 0 plain
losses() { sed -n 's/.*"loss": \([^,]*\),.*"grad_norm": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
losses plain >without
losses run >with
(($(wc -l <without) == 20)) || fail "not 20 losses"
same without with
same "$(checkpoint plain 20)/shard-00000.h5" "$(checkpoint run 20)/shard-00000.h5"
settings "$tasks"
expect_exit 0 "$gptrain" --config run.yaml "${set[@]}" --dry-run
[[ $(grep -o '"memory_bytes": [0-9]*' run/metrics.jsonl | tail -n 1) == "\"memory_bytes\": $(predicted_bytes)" ]] ||
    fail "memory: $(grep -o '"memory_bytes": [0-9]*' run/metrics.jsonl | tail -n 1), predicted $(predicted_bytes)"

# The model writes in training what its checkpoints write. Every other answer is what the last one
# wrote.
make_questions
train 0 writing "${writer[@]}"
expect_exit 0 "$gptrain" eval --checkpoint "$(checkpoint writing 20)" --task write.yaml --details written
answer_with written
# wrote RUN STEP: the file `matched` is what the run measured, the same as of its checkpoint.
wrote() {
    results "$1" "$2" | grep '^write exact_match ' >matched
    expect_exit 0 "$gptrain" eval --checkpoint "$(checkpoint "$1" "$2")" --task write.yaml
    tail -n 1 out | metrics_of >measured
    same measured matched
}
writing='eval_tasks={tasks: [choices.yaml, ./write.yaml], interval: 10}'
rm -r writing
train 0 writing "$writing" "${writer[@]}"
wrote writing 10
wrote writing 20
[[ $(cat matched) == "write exact_match 0.5" ]] || fail "not half of the answers: $(cat matched)"

# Texts end where the files next to the tokenizer say: here at every token with an even id.
mkdir shared
cp tok.model shared/tokenizer.model
echo "{\"eos_token_id\": [$(seq -s , 0 2 318)]}" >shared/generation_config.json
train 0 ended "$writing" "${writer[@]}" data.tokenizer=shared/tokenizer.model
wrote ended 20
[[ $(cat matched) == "write exact_match 0."[123]* ]] || fail "texts did not end: $(cat matched)"
echo '{"eos_token_id": "x"}' >shared/generation_config.json
train 3 refused "$writing" data.tokenizer=shared/tokenizer.model
says err "shared/generation_config.json: 'eos_token_id'"

# Evaluations that a stop or a crash left out are caught up on, and nothing is measured twice.
cp run/metrics.jsonl all
grep -v '^{"step": 20, "tasks"' all >run/metrics.jsonl
train 0 run "$tasks"
says out "nothing left to do"
results run 20 >again
close shown again
cp run/metrics.jsonl before
train 0 run "$tasks"
same run/metrics.jsonl before
train 0 plain "$tasks"
results plain 20 >later
close shown later

# A signal in the middle of an evaluation saves the run, which makes the evaluation up.
for i in {1..2000}; do cat choices.jsonl; done >many.jsonl
sed 's/choices.jsonl/many.jsonl/' choices.yaml >many.yaml
sed 's/questions.jsonl/many.jsonl/; s/question }}/context }}/; s/{{ answer }}/a/' write.yaml >writes.yaml
for task in many writes; do
    start "stopped-$task" "eval_tasks={tasks: [./$task.yaml], interval: 10}"
    wait_for "stopped-$task/metrics.jsonl" '{"step": 10, '
    kill -TERM $pid
    ends 75
    says_not "stopped-$task/metrics.jsonl" '"tasks"'
    train 0 "stopped-$task" "eval_tasks={tasks: [./$task.yaml], interval: 10, limit: 3}"
    evaluated=$(sed -n 's/^{"step": \([0-9]*\), "tasks".*/\1/p' "stopped-$task/metrics.jsonl" | tr '\n' ' ')
    [[ $evaluated == "10 20 " ]] || fail "not one line for each evaluation of $task: $evaluated"
done

# Longer texts lose their beginning.
for i in 1 2 3; do cat line.txt; done | tr '\n' ' ' >long.txt
printf 'kind: last_word\ndata: long.txt\ntext: "{{ text }}"\n' >long.yaml
train 0 long 'eval_tasks={tasks: [./long.yaml], interval: 100, limit: 1}' training.steps=1
says err "1 text of eval_tasks lost tokens at the beginning: training.seq_length is 16"

# Documents restart attention and positions in the data, not in a task's text.
train 0 reset data.reset_at_eod=true "$tasks" precision.compute=bf16 model.position_embedding=rope model.sliding_window=9
(($(grep -c '"tasks".*"acc":[01]' reset/metrics.jsonl) == 2)) || fail "no results with documents"

# Nothing is known of a model that is not finite.
train 0 diverged training.steps=1 optimizer.lr=1e30 'eval_tasks={tasks: [./write.yaml], interval: 1}'
says diverged/metrics.jsonl '"write":{"exact_match":null,"exact_match_stderr":null}'

# Mistakes cost nothing.
refused() {
    train "$1" refused "${@:3}"
    says err "$2"
    [[ ! -e refused ]] || fail "an output directory in spite of an error"
}
sed 's/max_tokens: 6/max_tokens: 16/' write.yaml >much.yaml
refused 2 "eval_tasks.tasks: max_tokens of much is 16, but the model reads only 16 tokens at a time; lower it to at most 15" \
    'eval_tasks={tasks: [./much.yaml], interval: 1}'
refused 2 "eval_tasks.tasks nothing: no such file, and the tasks of this program are" \
    'eval_tasks={tasks: [nothing], interval: 1}'
refused 2 "eval_tasks.tasks: two tasks are called choices" \
    'eval_tasks={tasks: [./choices.yaml, ./choices.yaml], interval: 1}'
refused 3 "physicaliqa-train-dev/dev.jsonl: no such data file" 'eval_tasks={tasks: [piqa], interval: 1}'
says err "; see eval_tasks.data"
refused 2 "--set eval_tasks.few_shot: eval_tasks.few_shot 1: task long of kind last_word takes no examples" \
    'eval_tasks={tasks: [./long.yaml], interval: 1, few_shot: 1}'
refused 2 "eval_tasks.interval: missing key" 'eval_tasks={tasks: [piqa]}'
refused 2 "eval_tasks.tasks: found a list of 0, must be a list of 1 to 100" 'eval_tasks={tasks: [], interval: 1}'
refused 2 "eval_tasks needs data.tokenizer" "$tasks" data.tokenizer=none
echo 'kind: last_word' >bad.yaml
refused 2 "bad.yaml:1:1: data: missing key" 'eval_tasks={tasks: [./bad.yaml], interval: 1}'

finish
