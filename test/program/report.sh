#!/usr/bin/env bash
# gptrain report: a page, tables and a view on the terminal. The third argument is ON_TERMINAL.
. "$(dirname "$0")/lib.sh"
on_terminal=$(realpath "$3")
make_data
make_spec
evaluating="training.eval_interval=5 training.eval_steps=3"

# A run with everything that can happen: a skipped step, a failed save, a kill and a resume.
train 0 calm $evaluating
settings output_dir=wild $evaluating checkpoint.interval=4 checkpoint.async=false
echo "faults: [{kind: nan, step: 3}, {kind: no_space, step: 7, call: 1}, {kind: kill, step: 15}]" >inject.yaml
"$gptrain" --config run.yaml --inject inject.yaml "${set[@]}" >out 2>err
train 0 wild $evaluating checkpoint.interval=4 checkpoint.async=false logging.interval=2

# The page of one run, and of several.
expect_exit 0 "$gptrain" report wild --output one.html
[[ ! -s out && ! -s err ]] || fail "words: $(cat out err)"
says one.html "<h1>tiny</h1>" "perplexity" "<figcaption>Loss" "<figcaption>Gradient norm" "update skipped: non-finite" \
    "save failed: " "No space left on device" "resumed after this step" "Plan and measurement" "num_layers: 2" \
    "logged steps done again"
expect_exit 0 "$gptrain" --config run.yaml --dry-run --timeline step.svg
expect_exit 0 "$gptrain" report calm wild --output two.html --hardware cpu --timeline step.svg
says two.html "<h1>2 training runs</h1>" "<th>checkpoint.interval</th><td>10</td><td>4</td>" "estimated on cpu" \
    "step, on 1 x cpu" ">rough<" "Planned times are rough" "data:image/svg+xml,%3Csvg"
says_not two.html "no plan: "
# The plan is the program: the memory of the run is exactly what its plan says.
grep -A3 '<th>memory of the largest rank</th>' one.html | tr -d '\n' | grep -q '>1\.000<' ||
    fail "planned memory is not the measured one: $(grep -A3 '>memory of the largest rank<' one.html)"

# The summary of one run, and of several.
expect_exit 0 "$gptrain" report wild
says out "wild: tiny" "  state             finished" "  steps             20 (of 20)" "  training loss     " \
    "  validation loss   " "  throughput        " "  running time      " "goodput " "  restarts          1" \
    "  checkpoints       after step 20, 16" "  step 3            update skipped: non-finite" "No space left on device"
if grep -q $'\033' out || (($(wc -l <out) > 25)); then fail "a summary of $(wc -l <out) lines: $(cat out)"; fi
expect_exit 0 "$gptrain" report --checkpoint calm wild
says out "calm: tiny" "wild: tiny"
cp -r calm stopped
sed -i 's/steps: 20/steps: 40/' stopped/spec.yaml
touch -d '2 hours ago' stopped/metrics.jsonl
expect_exit 0 "$gptrain" report stopped
says out "not finished; the log is 2 h 00 min old"
mkdir begun
: >begun/metrics.jsonl
expect_exit 0 "$gptrain" report begun
says out "begun" "not finished; the log is " "  checkpoints       none"

# A copy of metrics.jsonl alone, and a run that has only begun.
mkdir alone new
cp wild/metrics.jsonl alone
expect_exit 0 "$gptrain" report alone --output alone.html
says err "warning: alone/spec.yaml: missing"
: >new/metrics.jsonl
cp wild/spec.yaml new
expect_exit 0 "$gptrain" report new --output new.html

# The model's results on tasks.
cp -r wild measured
echo '{"capitals": {"documents": 8, "few_shot": 2, "acc": 0.75, "acc_stderr": 0.16366}}' >measured/tasks.json
expect_exit 0 "$gptrain" report calm measured --output tasks.html
says tasks.html "<th>capitals, acc</th><td></td><td>0.75 <small>"

# The tables: each step that counts once, in order.
expect_exit 0 "$gptrain" report wild --format csv
awk -F, 'NR == 1 { if ($1 != "run" || $2 != "step" || $3 != "loss") exit 1; next }
    $1 != "wild" || $2 <= last { exit 1 } { last = $2 } END { exit last != 20 }' out || fail "$(cat out)"
expect_exit 0 "$gptrain" report wild --format json --output wild.json
says wild.json '"run": "wild", "name": "tiny"' '"event":"skip","step":3' '"event":"save_failed"' '"event":"resume"'
expect_exit 0 "$gptrain" report wild --format csv --output wild.csv
[[ $(head -c 9 wild.csv) == run,step, ]] || fail "$(head -n 1 wild.csv)"

# One line for each mistake.
refused() {
    expect_exit "$1" "$gptrain" report "${@:3}"
    says err "$2"
}
refused 2 "gptrain: error: report: give OUTPUT-DIR" --output x.html
refused 2 "report: give --output FILE.html" wild --format html
refused 2 "--hardware is for a page; give --output FILE.html" wild --hardware cpu
refused 2 "nowhere: no such output directory of a run" nowhere --output x.html
refused 2 "text.txt: not the output directory of a run" text.txt --output x.html
refused 2 "wild/checkpoints: not the output directory of a run" wild/checkpoints --output x.html
refused 2 "--format" wild --format pdf --output x.html
refused 2 "--watch needs a terminal" wild --watch
refused 2 "--watch shows one run" wild calm --watch
refused 3 "missing.svg" wild --timeline missing.svg --output x.html
refused 2 "for --output; create it" wild --output no-folder/x.html
echo '{"capitals": 3}' >measured/tasks.json
refused 3 "measured/tasks.json: 'capitals' must be an object" measured --output x.html
mkdir foreign
cp text.txt foreign/metrics.jsonl
refused 3 "foreign/metrics.jsonl: has no line that gptrain wrote" foreign --output x.html
[[ ! -e x.html ]] || fail "a page in spite of an error"

# A broken spec costs its run the plan, not the others their page.
cp -r calm broken
echo "name: [" >broken/spec.yaml
expect_exit 0 "$gptrain" report calm broken --format json
says err "warning: broken/spec.yaml:" "neither spec nor plan of this run"
says out '"run": "calm", "name": "tiny"' '"run": "broken", "name": null'

# On a terminal the view stays until Ctrl-C.
: >view
{ wait_for view "tokens/s" && printf '\003'; } |
    timeout --signal=KILL 60 "$on_terminal" --talk bash -c \
        'stty cols 70 rows 30 <&1 && LC_ALL=C.UTF-8 TERM=xterm exec "$@"' - "$gptrain" report wild --watch >view 2>err
code=${PIPESTATUS[1]}
((code == 0)) || fail "the view ended with $code: $(tail -c 300 err)"
says view "finished: step 20/20" "gradient norm" "step 3: update skipped"
grep -q $'\xe2\xa0' view || fail "no Braille patterns: $(tail -c 300 view)"

# It follows a run that a later start makes longer.
cp -r wild longer
: >view
{ wait_for view "finished: step 20/20" && sed 's/steps: 20/steps: 40/' wild/spec.yaml >longer/spec.yaml &&
    wait_for view "step 20/40" && printf '\003'; } |
    timeout --signal=KILL 60 "$on_terminal" --talk bash -c \
        'stty cols 70 rows 30 <&1 && LC_ALL=C.UTF-8 TERM=xterm exec "$@"' - "$gptrain" report longer --watch >view 2>err
says view "step 20/40"

# In tmux the view fits into 80 columns, follows the window, and Ctrl-C ends it.
if command -v tmux >/dev/null; then
    tmux=(tmux -S "$work/tmux" -f /dev/null)
    # shows PATTERN: a line of the screen matches it soon.
    shows() {
        local i
        for ((i = 0; i < 200; ++i)); do
            if "${tmux[@]}" capture-pane -p >screen 2>&1 && grep -qE "$1" screen; then return; fi
            sleep 0.05
        done
        fail "tmux shows no line '$1': $(cat screen)"
    }
    "${tmux[@]}" new-session -d -x 80 -y 24 "'$gptrain' report wild --watch; echo \$? >code"
    shows '^mean_loss .* (lr [0-9.e+-]+|tok/s)$'
    says screen "finished: step 20/20" "step 3: update skipped"
    "${tmux[@]}" resize-window -x 40 -y 12
    shows '^mean_loss [0-9.]+  val_loss [0-9.]+$'
    "${tmux[@]}" send-keys C-c
    wait_for code 0
    "${tmux[@]}" kill-server 2>/dev/null
else
    echo "not run: the view in tmux, which is missing"
fi

finish
