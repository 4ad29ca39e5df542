#!/usr/bin/env bash
# gptrain eval --task: the numbers of lm-evaluation-harness, examples and limits, and errors that
# name what is wrong.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks_lib.sh"
make_tasks

eval_tasks() {
    expect_exit 0 "$gptrain" eval --checkpoint "$model" --json results --details details --task "$@"
}

wanted="hellaswag arc piqa winogrande lambada wikitext questions"
eval_tasks hellaswag.yaml arc.yaml arc_flat.yaml piqa.yaml winogrande.yaml lambada.yaml \
    wikitext.yaml questions.yaml
found "" >all
as_expected all
says err "warning: 4 texts of the tasks lost tokens at the beginning" "reads 96 at a time"
grep -qE '^hellaswag +acc_norm +16 +0.3125 +0.1197$' out || fail "no table: $(cat out)"
[[ $(tail -n 1 out) == '{"hellaswag":{"documents":16,"few_shot":0,"acc":0.0625,"acc_stderr":0.0625,'* ]] ||
    fail "no results in the last line: $(tail -n 1 out)"
# Both forms of ARC's files are the same questions.
sed -n 's/^arc_flat\t/arc\t/p' all >flat
grep "^arc	" all >listed
same listed flat

# Solved examples come before the question, never the document itself.
wanted="piqa_2"
eval_tasks piqa.yaml --few-shot 2
found _2 >all
as_expected all
wanted="winogrande_1 questions_1"
eval_tasks winogrande.yaml questions.yaml --few-shot 1
found _1 >all
as_expected all

# A task of the program, by its name.
mkdir -p data/winogrande_1.1
cp winogrande.jsonl data/winogrande_1.1/dev.jsonl
wanted="winogrande"
eval_tasks winogrande --task-data data
found "" >all
as_expected all

# The same passages as lines of a plain text.
sed 's/^{"text": "\(.*\)"}$/\1\n/' lambada.jsonl >lambada_test_plain_text.txt
eval_tasks lambada.yaml lambada_standard --task-data .
for task in lambada lambada_standard; do
    found "" | sed -n "s/^$task\t//p" >$task.found
done
(($(grep -c ^document lambada.found) == 20)) || fail "not 20 passages: $(cat lambada.found)"
same lambada.found lambada_standard.found

# Examples that are lines, too.
mkdir plain
sed 's/^{"question": "\([^"]*\)", "answer": "\([^"]*\)"}$/\1|\2/' questions.jsonl >plain/questions.txt
sed 's/^data: .*/data: questions.txt\nexamples: questions.txt\ndocuments: lines/
    s/question }}/text.split('"'|'"')[0] }}/; s/answer }}/text.split('"'|'"')[1] }}/' questions.yaml >plain/questions.yaml
wanted="questions_1"
eval_tasks plain/questions.yaml --few-shot 1
found _1 >all
as_expected all

# The first documents only; a document has no standard error.
eval_tasks arc.yaml --limit 1
[[ $(tail -n 1 out) == '{"arc":{"documents":1,"few_shot":0,"acc":'*',"acc_stderr":null,'* ]] ||
    fail "not one document: $(tail -n 1 out)"
(($(wc -l <details) == 1)) || fail "not one line of details: $(cat details)"

# The examples of the page work as printed: its files, and the shape of what it shows.
page=$tests/../../docs/evaluation.md
# page_block FILE: the block after a paragraph that begins with the name of the file.
page_block() {
    awk -v name="\`$1\`" '
        /^```/ { inside = !inside; wanted = inside && index(paragraph, name) == 1; next }
        wanted
        !inside && NF { paragraph = $0 }' "$page"
}
# shape FILE: the part of the results that all models have in common.
shape() { sed -n '/^{/s/\("few_shot":[0-9]*\).*/\1/p; /^[a-z]/s/ *[^ ]* *[^ ]*$//p' "$1"; }
for file in capitals.jsonl capitals.yaml sums.jsonl sums.yaml; do
    page_block $file >$file
    [[ -s $file ]] || fail "$page has no $file"
done
mapfile -t examples < <(sed -n 's/^\$ gptrain eval .* --task //p' "$page")
((${#examples[@]} == 2)) || fail "not two examples in $page: ${examples[*]}"
for options in "${examples[@]}"; do
    # shellcheck disable=SC2086
    eval_tasks $options
    sed -n "/^\\$ .* --task $options\$/,/^{/p" "$page" >printed
    same <(shape printed) <(shape out)
done

# A plain text is one document. Megatron's perplexity has other words and no first token.
printf 'and the earth was without form\nvoid darkness upon' >text.txt
printf 'kind: perplexity\ndata: text.txt\ntext: "{{ text }}"\n' >text.yaml
eval_tasks text.yaml
awk -F '"' '{ gsub(/[:, ]/, "", $3); value[$2] = $3 }
    END {
        loss = log(value["word_perplexity"]) * 9
        same = value["byte_perplexity"] / exp(loss / 49) + value["bits_per_byte"] / (loss / log(2) / 49)
        adjusted = log(value["adjusted_perplexity"]) * 7
        exit !(same > 1.99999 && same < 2.00001 && adjusted > 0 && adjusted < loss)
    }' results || fail "perplexities of a text: $(cat results)"
echo >>text.txt
eval_tasks text.yaml
says details '"bytes":50'

# A text of one word has none of Megatron's.
echo -n light >text.txt
eval_tasks text.yaml
says results word_perplexity
says_not results adjusted_perplexity inf 'perplexity": null' 'per_byte": null'
printf 'and the earth was without form\nvoid darkness upon' >text.txt

# Answers compare as the task says.
answers() {
    {
        printf 'kind: exact_match\ndata: answers.jsonl\nprompt: "{{ question }}"\ntarget: "{{ answer }}"\n'
        printf 'stop: ["\\n"]\nmax_tokens: 6\n'
        printf '%s\n' "$@"
    } >answers.yaml
    eval_tasks answers.yaml
    sed -n 's/.*"exact_match": \([0-9.]*\),.*/\1/p' results
}
echo '{"question": "and the earth was", "answer": ""}' >answers.jsonl
answers >score
wrote=$(sed 's/.*"written":" *\(.*[^ ]\) *","target".*/\1/' details)
[[ $(cat score) == 0.0 && $wrote == *[a-z]* ]] || fail "an empty answer: $(cat score details)"
printf '{"question": "and the earth was", "answer": "  %s!"}\n' "${wrote^^}" >answers.jsonl
[[ $(answers) == 0.0 ]] || fail "other letters are equal"
[[ $(answers "ignore_case: true" "ignore_punctuation: true") == 1.0 ]] ||
    fail "case and punctuation count: $(cat details)"
[[ $(answers "ignore_case: true" "ignore_punctuation: true" "match: exact") == 0.0 ]] ||
    fail "blanks do not count: $(cat details)"

# Errors.
fault() {
    local code=$1
    shift
    expect_exit "$code" "$gptrain" eval --checkpoint "$model" "$@"
}
bad_task() {
    printf '%b' "$1" >bad.yaml
    shift
    fault "$1" --task bad.yaml
    says err "${@:2}"
}
fault 2 --task nothing
says err "--task nothing: no such file" "arc_challenge, arc_easy, hellaswag" "winogrande"
fault 2
says err "give either --data or --task"
fault 2 --task arc.yaml --data text.txt
says err "give either --data or --task"
fault 2 --data text.txt --limit 3
fault 2 --task arc.yaml arc.yaml
says err "two tasks are called arc"
fault 2 --task arc.yaml --json missing/results
says err "missing: no such folder"
fault 2 --task lambada.yaml --few-shot 1
says err "task lambada of kind last_word takes no examples"
fault 3 --task piqa
says err "physicaliqa-train-dev/dev.jsonl: no such data file" "--task-data"
fault 3 --task piqa.yaml --few-shot 12
says err "piqa.jsonl:1: needs 1 more solved example"
bad_task 'kind: last_word\ndata: arc.jsonl\ntxt: a\n' 2 "bad.yaml:3:1: txt: unknown key" "text"
bad_task 'kind: last_word\ndata: arc.jsonl\n' 2 "text: missing key of kind last_word"
bad_task 'kind: last_word\ndata: arc.jsonl\ntext: a\nstop: [b]\n' 2 "bad.yaml:4" \
    "stop: kind last_word has no such key"
bad_task 'kind: last_word\ndata: arc.jsonl\ntext: "{{ a b }}"\n' 2 "bad.yaml: text: line 1"
bad_task 'kind: last_word\ndata: arc.jsonl\ntext: "{{ nothing }}"\n' 3 \
    "arc.jsonl:1: bad.yaml: text: line 1: 'nothing' is undefined"
head='kind: multiple_choice\ndata: piqa.jsonl\nprompt: a\n'
bad_task "${head}choices: [a, b]\nanswer: '2'\n" 3 "piqa.jsonl:1: the answer '2' is not an index from 0 to 1"
bad_task "${head}choices: [a, b]\nanswer: c\nanswer_names: [a, b]\n" 3 "the answer 'c' is none of"
bad_task "${head}choices: [a]\nanswer: '0'\n" 3 "has 1 choices"
bad_task "${head}choices: a{{ goal }}\nanswer: '0'\n" 2 "bad.yaml: choices: must be a list"
bad_task "${head}choices: '{{ goal }}'\nanswer: '0'\n" 3 "must give a list, not a string"
bad_task "${head}choices: [a, b]\nanswer: '0'\nlabels: text.txt\n" 3 "text.txt: has 2 labels, but there are 12"
printf '{"text": "a b"}\n{"text": \n' >broken.jsonl
bad_task 'kind: last_word\ndata: broken.jsonl\ntext: "{{ text }}"\n' 3 "broken.jsonl:2"
printf '{"text": "a \377"}\n' >broken.jsonl
bad_task 'kind: last_word\ndata: broken.jsonl\ntext: "{{ text }}"\n' 3 "broken.jsonl:1: invalid UTF-8"
: >broken.jsonl
bad_task 'kind: last_word\ndata: broken.jsonl\ntext: "{{ text }}"\n' 3 "broken.jsonl: has no documents"
mkfifo pipe
for file in /dev/zero pipe; do
    bad_task "kind: perplexity\ndata: $file\ntext: '{{ text }}'\n" 3 "$file: a device or a pipe; write"
done
bad_task 'kind: perplexity\ndata: plain\ntext: "{{ text }}"\n' 3 "plain: a folder, not a text file"
printf 'a b\n\na \377\n' >broken.txt
bad_task 'kind: last_word\ndata: broken.txt\ndocuments: lines\ntext: "{{ text }}"\n' 3 "broken.txt:3: invalid UTF-8"
printf '\n \n' >broken.txt
bad_task 'kind: last_word\ndata: broken.txt\ndocuments: lines\ntext: "{{ text }}"\n' 3 "broken.txt: has no documents"
bad_task 'kind: last_word\ndata: broken.txt\ndocuments: line\ntext: a\n' 2 "bad.yaml:3" "documents: found line" "lines"
echo '{"text": ""}' >broken.jsonl
bad_task 'kind: perplexity\ndata: broken.jsonl\ntext: "{{ text }}"\n' 3 "broken.jsonl:1: the text is empty"
expect_exit 2 "$gptrain" eval --checkpoint "$tests/../interop/models/gpt2" --task arc.yaml
says err "the model has no tokenizer"

finish
