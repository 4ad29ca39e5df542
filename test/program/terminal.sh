#!/usr/bin/env bash
# What gptrain shows on a terminal and nowhere else. Its third argument: ON_TERMINAL, which gives a
# program one.
. "$(dirname "$0")/lib.sh"
on_terminal=$(realpath "$3")
make_data
make_spec
train 0 text model.max_position_embeddings=64
train 0 ids data.tokenizer=none model.position_embedding=rope

# continues MODEL PROMPT SHOWN: on a terminal the text reads as one, from the prompt on; a pipe gets
# what follows the prompt.
continues() {
    local generate=("$gptrain" generate --checkpoint "$1" --prompt "$2" --max-tokens 8 --temperature 0)
    expect_exit 0 "${generate[@]}"
    { printf '%s' "$3" && cat out; } >whole
    expect_exit 0 "$on_terminal" "${generate[@]}"
    mv out shown
    same whole shown
    expect_exit 0 env TERM=dumb "$on_terminal" "${generate[@]}"
    same whole out
    expect_exit 0 bash -c '"$@" | cat' - "${generate[@]}"
    { printf '%s' "$3" && cat out; } >piped
    same whole piped
}
continues text "and the earth" "and the earth"
continues text $'two  lines,\n\303\244 and a tab\t' $'two  lines,\n\303\244 and a tab\t'
continues ids "5 6  7" "5 6 7 "

# Of a prompt that is refused nothing is shown.
expect_exit 2 "$on_terminal" "$gptrain" generate --checkpoint ids --prompt "5 six"
[[ ! -s out ]] || fail "a refused prompt is shown: $(cat out)"

finish
