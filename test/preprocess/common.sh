# Shared by the scripts of this folder. Usage: SCRIPT GPT-PREPROCESS THIS-FOLDER CORPUS-FOLDER
set -u
tool=$1
here=$2
corpus=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect STATUS COMMAND...: the exit status; stdout and stderr go to the files out and err. A
# failing command must print exactly one line that begins with "gpt-preprocess: error: ".
expect() {
  local status=$1
  shift
  "$@" >out 2>err
  local got=$?
  [ "$got" = "$status" ] || fail "exit $got instead of $status: $* ($(head -c 300 err))"
  if [ "$status" != 0 ]; then
    [ "$(grep -c '^gpt-preprocess: error: ' err)" = 1 ] || fail "not one error line: $* ($(head -c 300 err))"
  fi
}

# says FILE WORDS: the file contains the words.
says() {
  grep -qF -- "$2" "$1" || fail "'$2' is missing in: $(head -c 500 "$1")"
}

# says_not FILE WORDS: the file does not contain the words.
says_not() {
  if grep -qF -- "$2" "$1"; then fail "'$2' is in: $(head -c 500 "$1")"; fi
}

same() {
  cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

# nothing_left PREFIX: no file of that name exists.
nothing_left() {
  [ -z "$(ls -A . | grep "^$1")" ] || fail "left behind: $(ls -A . | grep "^$1" | tr '\n' ' ')"
}

finish() {
  [ "$failures" = 0 ] && echo "all passed"
  exit "$((failures > 0))"
}

# make_text LINES: a small corpus of paragraphs, the same on every machine.
make_text() {
  awk -v lines="$1" 'BEGIN {
    split("and the earth was without form void darkness upon face deep light day evening morning " \
          "waters under heaven let there be firmament midst divide called God saw that it good", w)
    s = 1
    for (i = 1; i <= lines; i++) {
      line = i % 37 ":" i % 11
      for (j = 0; j < 5 + i % 9; j++) {
        s = (s * 16807) % 2147483647
        line = line " " w[1 + s % 31]
      }
      print line "."
      if (i % 5 == 0) print ""
    }
  }'
}
