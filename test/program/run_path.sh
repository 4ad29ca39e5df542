#!/usr/bin/env bash
# Usage: run_path.sh GPTRAIN GPT-PREPROCESS BUILD. No program takes a library from the folder in which
# it is started, whoever put one there.
. "$(dirname "$0")/lib.sh"
build=$(realpath "$3")
command -v readelf >/dev/null || not_run "needs readelf"
unset LD_LIBRARY_PATH

# Every element of every run path in the build folder is an absolute folder, or one next to the file.
find "$build" -name CMakeFiles -prune -o -type f -perm -u+x -print0 | xargs -0 readelf -d 2>err |
    awk '/^File: / { file = substr($0, 7) }
        /\(NEEDED\)/ && file != last { last = file; print "program " file >"programs" }
        /\((RUNPATH|RPATH)\)/ {
            path = $0
            sub(/^[^[]*\[/, "", path)
            sub(/\][^]]*$/, "", path)
            count = split(path, parts, ":")
            for (i = 1; i <= count; ++i)
                if (parts[i] !~ /^(\/|[$]ORIGIN(\/|$))/) print file ": " path
        }' >faults
[[ ! -s faults ]] || fail "an empty or relative element in: $(<faults)"
says programs "$gptrain" "$preprocess"

# Where each library that they need has a broken namesake, both start.
for library in $(readelf -d "$gptrain" "$preprocess" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'); do
    echo broken >"$library"
done
says libz.so.1 broken
for program in "$gptrain" "$preprocess"; do
    "$program" --version >out 2>err || fail "$program: $(<err)"
done

finish
