#!/usr/bin/env bash
# The page of gptrain serve, in a headless Chromium: it loads nothing else, and shows what the model
# says, or why it says nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/browser_lib.sh"
make_data
make_spec
train 0 run training.steps=40 training.global_batch_size=8 lr_schedule.decay_steps=60 \
    model.max_position_embeddings=64

# show HASH: the page with this fragment, when it has its answer; its elements go to the file page.
show() {
    local i
    for ((i = 0; i < 10; ++i)); do
        render "$url/#$1" || fail "Chromium: $(tail -n 3 chromium.err)"
        # Its virtual time does not always wait for a stream.
        grep -q 'aria-busy="false"' page && return
    done
    fail "no answer: $(head -c 2000 page)"
}
# box KIND: the text of its last box of that kind.
box() { tr '\n' '~' <page | grep -o "<div class=\"$1\">[^<]*" | tail -n 1 | sed 's/^[^>]*>//' | tr '~' '\n'; }

serve --checkpoint run --template plain
show 'temperature=0&tokens=6&say=light'
[[ $(box user) == light ]] || fail "the user said: $(box user)"
expect_exit 0 "$gptrain" generate --checkpoint run --chat --template plain --prompt light --max-tokens 6 --temperature 0
[[ -n $(cat out) && $(box assistant) == "$(cat out)" ]] || fail "the page says $(box assistant), not $(cat out)"
# A turn that failed is forgotten, and does not spoil the next; one that was answered is not.
show "temperature=0&tokens=6&say=$(yes light | head -n 80 | tr '\n' '+')&say=light"
[[ $(box error) == *'there is room for 64 together' ]] || fail "error: $(box error)"
[[ $(box assistant) == "$(cat out)" ]] || fail "the page says $(box assistant), not $(cat out)"
show 'temperature=0&tokens=6&say=light&say=earth'
expect_exit 0 "$gptrain" generate --checkpoint run --chat --template plain --max-tokens 6 --temperature 0 \
    < <(printf 'light\nearth\n')
[[ $(box assistant) == "$(tail -n 1 out)" ]] || fail "the page says $(box assistant), not $(cat out)"
if grep -oE '(src|href)=' page; then fail "the page loads something"; fi
kill -TERM "$server"
wait "$server"

echo secret >token
serve --checkpoint run --token-file token
show 'say=light'
[[ $(box error) == "send the server's token: 'Authorization: Bearer TOKEN'" ]] || fail "error: $(box error)"
kill -TERM "$server"
wait "$server"

# Without a template it continues a text.
serve --checkpoint run
show 'temperature=0&tokens=6&say=and%20the%20earth'
expect_exit 0 "$gptrain" generate --checkpoint run --prompt "and the earth" --max-tokens 6 --temperature 0
[[ $(box assistant) == "and the earth$(cat out)" ]] || fail "the page says $(box assistant), not $(cat out)"
ends_well
finish
