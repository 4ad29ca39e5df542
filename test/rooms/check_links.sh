#!/usr/bin/env bash
# The check of the links accepts pages in order and reports links that lead nowhere and paragraphs
# that are too long.
# Usage: check_links.sh CHECK
. "$(dirname "$0")/lib.sh"
mkdir docs

# words COUNT: a line of that many characters of two bytes.
words() {
    printf 'é%.0s' $(seq "$1")
    echo
}

echo one >file
printf '```diff\n--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n+two\n```\n' >docs/extending.md
page() {
    echo '# The page'
    echo 'A [file](../file), a [heading](#the-page) and `[code](nothing)`.'
    words 700
    printf '```\n%s\n```\n' "$(words 701)"
    echo "| $(words 701) |"
}
page >docs/design.md
expect 0 "Links: 2 in 2 pages, 0 broken."

echo 'A [link](gone.md).' >>docs/design.md
expect 1 "docs/design.md:8: leads to no file: gone.md"
page >docs/design.md
echo 'A [link](#gone).' >>docs/design.md
expect 1 "docs/design.md:8: leads to no heading: #gone"
page >docs/design.md
words 701 >>docs/design.md
expect 1 "docs/design.md:8: the paragraph has more than 700 characters; shorten or split it"
page >docs/design.md
echo two >file
expect 1 "patch does not apply"

((failures == 0))
