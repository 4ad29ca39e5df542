# shellcheck shell=bash
# The common part of the tests of the checks. Source it with the check's path as the first argument:
# a new git tree has that check in scripts/, and `expect` runs it there.
set -euo pipefail
check=$(basename "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/scripts"
cp "$1" "$folder/scripts/$check"
cd "$folder"
git init -q .

failures=0
# expect CODE TEXT: the check exits with this code and prints this text.
expect() {
    local code=0 output
    output=$(bash "scripts/$check" 2>&1) || code=$?
    if ((code != $1)) || ! grep -qF -- "$2" <<<"$output"; then
        echo "FAILED: exit code $code instead of $1, or not '$2': $output"
        failures=$((failures + 1))
    fi
}
