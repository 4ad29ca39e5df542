#!/usr/bin/env bash
# Numbers are written and read with a decimal point, whatever the user's locale.
. "$(dirname "$0")/lib.sh"
comma=$(locale -a | grep -m 1 -E '^(de|fr|es|it|nl|pl)_[A-Z]+\.utf-?8$')
if [[ -z $comma ]]; then
    localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" >out 2>err ||
        not_run "no locale with a decimal comma, and none can be made: $(head -n 1 err)"
    export LOCPATH=$work
    comma=de_DE.UTF-8
fi
make_data
make_spec
train 0 plain training.eval_interval=10 training.eval_steps=2
export LC_ALL=$comma
[[ $(printf %.1f 0 2>/dev/null) == 0,0 ]] || fail "$comma has no decimal comma"
train 0 comma training.eval_interval=10 training.eval_steps=2
mv text_text_document.bin before.bin
rm text_text_document.idx tok.model
make_data
same before.bin text_text_document.bin
expect_exit 0 "$gptrain" generate --checkpoint comma --prompt and --temperature 0.5 --seed 1
mv out generated
expect_exit 0 "$gptrain" eval --checkpoint comma --data text_text_document
export LC_ALL=C
same_run plain comma 20
tail -n 1 out >evaluated
expect_exit 0 "$gptrain" eval --checkpoint plain --data text_text_document
tail -n 1 out >evaluated_plain
same evaluated evaluated_plain
expect_exit 0 "$gptrain" generate --checkpoint plain --prompt and --temperature 0.5 --seed 1
same generated out
same_spec() { sed 's/plain/comma/' plain/spec.yaml | cmp -s - comma/spec.yaml; }
same_spec || fail "spec.yaml differs: $(diff plain/spec.yaml comma/spec.yaml)"

finish
