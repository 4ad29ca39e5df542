#!/usr/bin/env bash
# Usage: install.sh GPTRAIN GPT-PREPROCESS CMAKE BUILD. cmake --install into a staging folder, and
# programs that run from wherever its tree is moved to.
. "$(dirname "$0")/lib.sh"
cmake=$3
build=$(realpath "$4")

DESTDIR=$work/stage "$cmake" --install "$build" --prefix /opt/gptrain >out 2>err ||
    not_run "the build folder cannot be installed: $(tail -n 1 err)"
[[ $(ls stage stage/opt) == $'stage:\nopt\n\nstage/opt:\ngptrain' ]] || fail "outside: $(ls stage stage/opt)"
mv stage/opt/gptrain moved
share=moved/share
for file in moved/bin/gptrain moved/bin/gpt-preprocess $share/gptrain/configs/quickstart.yaml \
    $share/gptrain/configs/hardware/h100-sxm.yaml $share/gptrain/configs/tasks/hellaswag.yaml \
    $share/gptrain/slurm/train.sh $share/gptrain/slurm/probe.sh \
    $share/man/man1/gptrain.1 $share/man/man1/gpt-preprocess.1 \
    $share/bash-completion/completions/gptrain $share/zsh/site-functions/_gpt-preprocess \
    $share/fish/vendor_completions.d/gptrain.fish $share/doc/gptrain/README.md \
    $share/doc/gptrain/docs/install.md $share/gptrain/modulefiles/gptrain; do
    [[ -s $file ]] || fail "$file is missing"
done
expect_exit 0 "$gptrain" help --format man
same out $share/man/man1/gptrain.1
if command -v readelf >/dev/null; then
    readelf -d moved/bin/* >dynamic
    ! grep -E 'R(UN)?PATH' dynamic || fail "a program has a run path"
fi

# They need nothing of the tree they were built in.
gptrain=$work/moved/bin/gptrain
preprocess=$work/moved/bin/gpt-preprocess
make_data
make_spec
train 0 run training.steps=2 checkpoint.interval=2
expect_exit 0 "$gptrain" --config run.yaml --dry-run --hardware h100-sxm --set device=cuda
expect_exit 0 "$gptrain" inspect $share/gptrain/configs/gpt175b-h100.yaml

# The modulefile finds the tree where it is now.
if command -v modulecmd >/dev/null; then
    found=$(
        eval "$(modulecmd bash use "$work/$share/gptrain/modulefiles" 2>err)"
        eval "$(modulecmd bash load gptrain 2>>err)"
        command -v gptrain
    )
    [[ $found == "$gptrain" ]] || fail "the module finds '$found': $(<err)"
fi

finish
