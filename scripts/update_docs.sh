#!/usr/bin/env bash
# Writes what gptrain prints into the pages of docs/, where a page shows it. A block of output that
# follows this line is what the command in the block before it prints, up to N lines:
#
#   <!-- update_docs.sh: N lines -->
#
#   scripts/update_docs.sh [--check]
#
#   --check   changes nothing; exit code 1 if a page shows something else
#
# It needs the program of the preset cpu ($GPTRAIN names another one). Longer output ends with "...".
# It also writes the tables of docs/run-spec.md but for the last column, with the preset's test of the
# spec. A new key needs a row with its name and its meaning first. CI compares this page.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

check=
take_options 'check?' -- "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
GPTRAIN=$(realpath "${GPTRAIN:-build/cpu/app/gptrain}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$GPTRAIN" "$work/bin/gptrain"

# printed COMMAND LINES: the first LINES lines that COMMAND prints in a new folder.
printed() {
    local folder
    folder=$(mktemp -d "$work/XXXX")
    ln -s "$root/configs" "$folder/configs"
    (cd "$folder" && PATH=$work/bin:$PATH bash -c "$1" </dev/null 2>/dev/null) >"$work/printed" ||
        { echo "error: this command of a page failed: $1" >&2 && exit 1; }
    head -n "$2" "$work/printed"
    (($(wc -l <"$work/printed") <= $2)) || echo "  ..."
}

# updated PAGE: the page with the present output of its commands.
updated() {
    local line command='' lines='' state=text
    while IFS= read -r line; do
        if [[ $line =~ ^'<!-- update_docs.sh: '([0-9]+)' lines -->'$ ]]; then
            lines=${BASH_REMATCH[1]}
        elif [[ $line == '```'* && $state == text ]]; then
            state=code
            if [[ -n $lines ]]; then
                state=printed
                echo '```'
                printed "$command" "$lines"
            fi
            command=
        elif [[ $line == '```' ]]; then
            state=text
            lines=
        elif [[ $state == code ]]; then
            command+=$line$'\n'
        fi
        [[ $state == printed ]] || printf '%s\n' "$line"
    done <"$1"
}

differing=0
while IFS= read -r page; do
    updated "$page" >"$work/page"
    cmp -s "$page" "$work/page" && continue
    if [[ -n $check ]]; then
        diff -u "$page" "$work/page" || true
        differing=$((differing + 1))
    else
        cat "$work/page" >"$page"
        echo "updated $page"
    fi
done < <(grep -lF -- '<!-- update_docs.sh: ' docs/*.md)
[[ -n $check ]] || build/cpu/test/spec/test_spec 'run-spec.md is written' >"$work/printed" ||
    { cat "$work/printed" >&2 && exit 1; }
((differing == 0))
