#!/usr/bin/env bash
# Uses the installed package as a user without rights does, from its own pages to a model that writes.
# scripts/check_package.sh runs it in a bare Debian, in an empty folder.
#
#   use.sh VERSION
set -euo pipefail

fail() {
    echo "error: $*" >&2
    exit 1
}
trap 'echo "error: line $LINENO failed: $BASH_COMMAND" >&2' ERR

share=/usr/share
doc=$share/doc/gptrain

for program in gptrain gpt-preprocess; do
    [[ $("$program" --version | head -n 1) == "$program $1"* ]] || fail "$program is not version $1"
    page=$(zcat "$share/man/man1/$program.1.gz")
    [[ $page == *".SH SYNOPSIS"* && $page == *"$program"* ]] || fail "$program has no man page"
    [[ -s $share/zsh/vendor-completions/_$program ]] || fail "$program has no completion for zsh"
    [[ -s $share/fish/vendor_completions.d/$program.fish ]] || fail "$program has no completion for fish"
    (
        # shellcheck disable=SC1090
        . "$share/bash-completion/completions/$program"
        complete -p "$program" >/dev/null
    ) || fail "$program has no completion for bash"
done
for file in copyright changelog.gz changelog.Debian.gz README.md; do
    [[ -s $doc/$file ]] || fail "$doc/$file is missing"
done
gptrain inspect $share/gptrain/configs/quickstart.yaml >/dev/null

cat $doc/docs/*.md >pages.txt
gpt-preprocess train-tokenizer --type byte-bpe --input pages.txt --vocab-size 1024 --model-prefix pages
gpt-preprocess --input pages.txt --tokenizer pages.json --output-prefix pages --append-eod
gptrain new --data pages_text_document --output pages.yaml
gptrain --config pages.yaml --set training.steps=4 --set checkpoint.interval=2
gptrain inspect runs/pages/checkpoints
gptrain generate --checkpoint runs/pages --prompt "A step" --max-tokens 20 --seed 1 >written.txt
[[ -s written.txt ]] || fail "gptrain generate writes nothing"
