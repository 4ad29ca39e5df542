#!/usr/bin/env bash
# --version, man pages, and completions in the shells that are there.
. "$(dirname "$0")/lib.sh"

expect_exit 0 "$gptrain" --version
head -n 1 out | grep -qxE 'gptrain [0-9.]+ \((cpu backend|cpu and cuda backends)\)' ||
    fail "the first line of --version: $(head -n 1 out)"
says out "commit:    " "compiler:  " oneDNN HDF5 zlib libzstd libmicrohttpd MPI
if head -n 1 out | grep -q cuda; then says out ", CUDA " ", built for cuBLASLt " " and NCCL "; fi
expect_exit 0 "$preprocess" --version
says out "gpt-preprocess "
expect_exit 2 "$gptrain" help --format html
expect_exit 0 "$gptrain" help
mv out text
expect_exit 0 "$gptrain" --help
same out text

expect_exit 0 "$gptrain" plan --help
mv out text
expect_exit 0 "$gptrain" help plan
same out text
expect_exit 2 "$gptrain" help trian
says err "there is no command trian; nearest: train"
expect_exit 2 "$gptrain" help completely
says err "there is no command completely; the commands are "

for program in gptrain preprocess; do
    for format in man bash zsh fish; do
        expect_exit 0 "${!program}" help --format $format
        mv out $program.$format
    done
done
# Optional sections have keys, too.
says gptrain.bash "adapter.rank=" "faults.loss_spike.factor=" "model.rope_scaling.kind="
says gptrain.man ".SS gptrain plan" "\\-\\-world\\-size" ".SH EXIT STATUS" ".SH FILES"
# Every option of --help has its place in the page.
for command in "" train inspect generate eval serve import export plan report new; do
    expect_exit 0 "$gptrain" $command --help
    while read -r option; do
        grep -qF -- "${option//-/\\-}" gptrain.man || fail "$command $option is not in the man page"
    done < <(grep -oE '^ +(-h,)?--[a-z-]+' out | grep -oE -- '--[a-z-]+')
done
# The command that the program starts for itself is not shown.
! grep -q check-attention text gptrain.man gptrain.bash || fail "check-attention is shown"
if ! grep -q cuda <("$gptrain" --version | head -n 1); then
    expect_exit 2 "$gptrain" check-attention
    says err "check-attention: this program was built without CUDA"
fi
if command -v mandoc >/dev/null; then
    for page in gptrain.man preprocess.man; do
        mandoc -T lint $page >lint || fail "mandoc: $(head -n 5 lint)"
        [[ ! -s lint ]] || fail "mandoc: $(head -n 5 lint)"
    done
fi

# bash_completes WORD... EXPECTED: bash offers EXPECTED for the last word of a line of these words.
bash_completes() {
    local expected=${!#} words=("${@:1:$#-1}")
    bash -c '
        compopt() { :; }
        . ./"$1"
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _"${1//-/_}"
        printf "%s\n" "${COMPREPLY[@]}" | sort | xargs' _ "${words[0]/gpt-/}.bash" "${words[@]}" >got 2>&1
    [[ $(<got) == "$expected" ]] || fail "bash: ${words[*]}: '$(<got)' instead of '$expected'"
}
mkdir runs
touch run.yaml
bash_completes gptrain ins "inspect"
bash_completes gptrain --resume "" "$(printf '%s\n' auto never * got | sort -u | xargs)"
bash_completes gptrain --config run.y "run.yaml"
bash_completes gptrain --config inspect --dry "--dry-run"
bash_completes gptrain plan --hardware h "h100-pcie h100-sxm h200-sxm"
bash_completes gptrain plan --hardware a100-80gb --worl "--world-size"
bash_completes gptrain --set model.num_lay "model.num_layers="
bash_completes gptrain inspect run "run.yaml runs"
bash_completes gptrain export --format "" "gguf hf"
bash_completes gptrain gen "generate"
bash_completes gptrain generate run "run.yaml runs"
bash_completes gptrain train run.y "run.yaml"
bash_completes gptrain train --config run.y "run.yaml"
bash_completes gptrain report --check "--checkpoint"
bash_completes gptrain --world-size "" ""
bash_completes gptrain help e "eval export"
commands=$("$gptrain" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\)  .*/\1/p' | sort | xargs)
bash_completes gptrain help "" "$commands"
bash_completes gptrain help --format m "man"
bash_completes gpt-preprocess chat --template cha "chatml"
if command -v zsh >/dev/null; then
    zsh -n gptrain.zsh 2>err && zsh -n preprocess.zsh 2>>err || fail "zsh: $(<err)"
fi
if command -v fish >/dev/null; then
    fish_completes() {
        fish --no-config -c "source gptrain.fish; complete -C '$1'" 2>&1 | cut -f 1 | sort | xargs >got
        [[ $(<got) == "$2" ]] || fail "fish: $1: '$(<got)' instead of '$2'"
    }
    fish_completes "gptrain ins" "inspect"
    fish_completes "gptrain plan --hardware h" "h100-pcie h100-sxm h200-sxm"
    fish_completes "gptrain export --format " "gguf hf"
    fish_completes "gptrain help ins" "inspect"
    fish_completes "gptrain train run" "run.yaml runs/"
fi

finish
