# Shared by the scripts about tasks: the program's own tasks over the files of test/tasks, and the
# results of lm-evaluation-harness on them (test/tasks/make_lm_eval.py).
tests=$(dirname "$script")/../tasks
model=$tests/model

# task NAME FILE DATA: NAME.yaml is configs/tasks/FILE.yaml with another data file.
task() {
    sed "s/^data: .*/data: $3/; s/^labels: .*/labels: piqa-labels.lst/" \
        "$tests/../../configs/tasks/$2.yaml" >"$1.yaml"
}

make_tasks() {
    cp "$tests"/*.jsonl "$tests"/*.lst "$tests"/*.raw .
    task hellaswag hellaswag hellaswag.jsonl
    task arc arc_challenge arc.jsonl
    task arc_flat arc_easy arc_flat.jsonl
    task piqa piqa piqa.jsonl
    task winogrande winogrande winogrande.jsonl
    task lambada lambada lambada.jsonl
    task wikitext wikitext wikitext.raw
    cat >questions.yaml <<'END'
kind: exact_match
data: questions.jsonl
prompt: "Q: {{ question }}\nA:"
target: "{{ answer }}"
stop: ["\n", "wat"]
max_tokens: 12
END
}

# found SUFFIX: the files `results` and `details` as lines like those of expected.tsv, with the
# suffix behind the names of tasks.
found() {
    awk -F '"' -v suffix="$1" '
        / {$/ { name = $2 suffix }
        NF == 3 && !/{$/ {
            gsub(/[:, ]/, "", $3)
            print name "\tmetric\t" $2 "\t" $3
        }' results
    local start='s/^{"task":"\([^"]*\)","document":\([0-9]*\),'
    sed -n "$start"'"log_likelihoods\{0,1\}":\[\{0,1\}\([-0-9.e,]*\).*/\1'"$1"'\tdocument\t\2\t\3/p' details |
        tr ',' ' '
    sed -n "$start"'"written":" *\(.*[^ ]\) *","target":".*/\1'"$1"'\twritten\t\2\t"\3"/p' details
}

# as_expected FILE: each line of expected.tsv about the tasks in `wanted` is in FILE: texts are
# equal, log-likelihoods within 1e-4 and metrics within 1e-5 of their size. The harness draws its
# perplexity's error, so that is not compared.
as_expected() {
    awk -F '\t' -v wanted=" $wanted " '
        function size(x) { return x < 0 ? -x : x }
        FNR == NR { got[$1, $2, $3] = $4; next }
        index(wanted, " " $1 " ") == 0 || $3 == "perplexity_stderr" { next }
        {
            ++lines
            count = split($4, expected, " ")
            tolerance = $2 == "metric" ? 1e-5 * (1 + size($4)) : 1e-4
            right = $2 == "written" ? got[$1, $2, $3] == $4 : split(got[$1, $2, $3], values, " ") == count
            for (i = 1; right && $2 != "written" && i <= count; ++i)
                right = size(values[i] - expected[i]) <= tolerance
            if (!right) print $0 ", not " got[$1, $2, $3]
        }
        END { if (lines == 0) print "nothing is expected of " wanted }' "$1" "$tests/expected.tsv" >wrong
    [[ ! -s wrong ]] || fail "$(head -n 5 wrong)"
}

# A run whose untrained model writes another text after each prompt.
writer=(model.init_std=0.5 optimizer.lr=0.001)
# make_questions: write.yaml asks for what follows eight beginnings of text.txt, and questions.jsonl
# has no right answer yet.
make_questions() {
    cat >write.yaml <<'END'
kind: exact_match
data: questions.jsonl
prompt: "{{ question }}"
target: "{{ answer }}"
match: exact
stop: ["\r", "s w"]
max_tokens: 6
END
    grep . text.txt | awk 'NR <= 8 {
        printf "{\"question\": \"%s %s %s\", \"answer\": \"0\"}\n", $1, $2, (NR > 4 ? $3 : "") }' >questions.jsonl
}
# answer_with DETAILS: every other question is answered with what was written.
answer_with() {
    sed -n 's/.*"written":"\(.*\)","target":.*/\1/p' "$1" >texts
    (($(sort -u texts | grep -c .) >= 5)) || fail "too few different texts: $(cat texts)"
    paste questions.jsonl texts | awk -F '\t' '
        NR % 2 { print substr($1, 1, length($1) - 3) $2 "\"}"; next }
        { print $1 }' >answered
    mv answered questions.jsonl
}
