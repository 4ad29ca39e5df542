#!/usr/bin/env bash
# Several commands write one file at the same time: one of them wins, and no command fails.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 run training.steps=2

# written_together FILE OPTION...: reports of the run to that file, at the same time.
written_together() {
    local round writer pids
    for round in {1..5}; do
        pids=()
        for writer in 1 2 3 4; do
            "$gptrain" report run --output "$@" >"out.$writer" 2>"err.$writer" &
            pids+=($!)
        done
        for writer in 1 2 3 4; do
            wait "${pids[writer - 1]}" || fail "exit code $? of writer $writer: $(<"err.$writer")"
        done
        same "$1" "expected.${1##*.}"
    done
    [[ $(echo "$1"*) == "$1" ]] || fail "left over: $(echo "$1"*)"
}
for format in csv json; do
    expect_exit 0 "$gptrain" report run --output expected.$format --format $format
    written_together table.$format --format $format
done

finish
