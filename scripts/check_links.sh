#!/usr/bin/env bash
# Checks that every link in the Markdown pages leads to a file and a heading that exist, that the
# diffs in docs/extending.md apply to the code, and that no paragraph has more than 700 characters.
# Links to other sites are not followed. Prints each violation as file:line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -d '' pages < <(git ls-files -z --cached --others --exclude-standard -- '*.md')
if ((${#pages[@]} == 0)); then
    echo "error: git knows no pages here; run this in a clone" >&2
    exit 1
fi

# links PAGE: LINE:TARGET of each link, code left out.
links() {
    awk '/^ *```/ { code = !code; next }
        code { next }
        {
            gsub(/`[^`]*`/, "")
            while (match($0, /\]\([^)]+\)/)) {
                print FNR ":" substr($0, RSTART + 2, RLENGTH - 3)
                $0 = substr($0, RSTART + RLENGTH)
            }
        }' "$1"
}

# anchors PAGE: the names that GitHub gives to its headings.
anchors() {
    awk '/^ *```/ { code = !code } !code && sub(/^#+ +/, "")' "$1" |
        tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# code_blocks LANGUAGE PAGE: the lines of its blocks in that language.
code_blocks() {
    awk -v first="\`\`\`$1" '/^```/ { inside = $0 == first; next } inside' "$2"
}

# long_paragraphs MOST PAGE: LINE:TEXT of each paragraph, which is a line, with more than MOST
# characters. Code and tables are left out.
long_paragraphs() {
    awk '/^ *```/ { code = !code } code || /^ *\|/ { $0 = "" } { print }' "$2" |
        LC_ALL=C.UTF-8 grep -nE "^.{$(($1 + 1))}" || true
}

count=0
broken=0
for page in "${pages[@]}"; do
    while IFS=: read -r line target; do
        [[ $target != *:* ]] || continue
        count=$((count + 1))
        file=$page
        [[ $target == \#* ]] || file=$(dirname "$page")/${target%%#*}
        anchor=${target#"${target%%#*}"}
        if [[ ! -e $file ]]; then
            echo "$page:$line: leads to no file: $target"
        elif [[ -n $anchor ]] && ! anchors "$file" | grep -qxF -- "${anchor#\#}"; then
            echo "$page:$line: leads to no heading: $target"
        else
            continue
        fi
        broken=$((broken + 1))
    done < <(links "$page")
done
echo "Links: $count in ${#pages[@]} pages, $broken broken."

code_blocks diff docs/extending.md | git apply --check - || broken=$((broken + 1))

long=0
for page in "${pages[@]}"; do
    while IFS=: read -r line _; do
        echo "$page:$line: the paragraph has more than 700 characters; shorten or split it"
        long=$((long + 1))
    done < <(long_paragraphs 700 "$page")
done
((broken + long == 0))
