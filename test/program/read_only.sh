#!/usr/bin/env bash
# Folders that the user may not write to. Root may, so as root the script becomes nobody.
. "$(dirname "$0")/lib.sh"
as_user=()
if ((EUID == 0)); then
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    cp "$gptrain" .
    gptrain=$work/gptrain
    chmod 755 "$work"
    "${as_user[@]}" "$gptrain" --version >out 2>err || not_run "as nobody: $(cat err)"
fi
make_data
make_spec
train 0 run training.steps=4
gptrain_as_user() { expect_exit "$1" "${as_user[@]}" "$gptrain" "${@:2}"; }

mkdir locked
chmod 555 locked run
for output_dir in locked locked/run run; do
    gptrain_as_user 5 --config run.yaml --set output_dir=$output_dir
    says err "$work/$output_dir" "ermi"
done
[[ -z $(ls locked) ]] || fail "something was written: $(ls locked)"

gptrain_as_user 2 --config run.yaml --set output_dir=other --set checkpoint.local=locked/copies
says err "--set checkpoint.local: $work/locked cannot be written: Permission denied; give a folder on each"
[[ ! -e other ]] || fail "a refused run has written"

# A user who may only read a run can read it.
gptrain_as_user 0 generate --checkpoint run --prompt and --max-tokens 3
gptrain_as_user 0 eval --checkpoint run --data text_text_document
gptrain_as_user 0 inspect run/checkpoints --verify
chmod 755 run locked

finish
