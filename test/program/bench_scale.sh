#!/usr/bin/env bash
# Usage: bench_scale.sh GPTRAIN GPT-PREPROCESS. The table of scripts/bench_scale.sh for few ranks,
# and its limits, with stand-ins for what it measures.
bench=$(realpath "$(dirname "$0")/../../scripts/bench_scale.sh")
. "$(dirname "$0")/lib.sh"

# benched CODE RANKS...: its exit code, and that it leaves no files.
benched() {
    mkdir -p disk
    timeout 200 "$bench" --folder disk --ranks "${*:2}" >out 2>err
    (($? == $1)) || fail "not exit code $1: ${*:2}: $(tail -c 900 out err)"
    rmdir disk || fail "left over: $(ls -R disk)"
}

BUILD=$(dirname "$(dirname "$gptrain")")
export BUILD
benched 0 128 256
[[ $(head -n 1 out) == "| work | 128 ranks | 256 ranks |" ]] || fail "$(head -n 1 out)"
second='[0-9.e-]+ s' megabyte='[0-9.e-]+ MB'
both="$second, $megabyte"
while IFS=: read -r kind what; do
    grep -qE "^\| ${what# } \| ${!kind} \| ${!kind} \|$" out || fail "no row of '$what': $(cat out)"
    rows=$((${rows:-0} + 1))
done <<'END'
second: start, every rank: plans its steps and communicators
megabyte: memory, every rank: its plan and communicators
second: a dry run: plans the steps of all ranks
both: start, every rank: checks its share of 10 M documents
both: start, every rank: checks its share of their sample order
both: first save, rank 0: merges the ranks' tensors
megabyte: memory, rank 0: which ranks have which tensors
both: first save, rank 0: collects the parts that model.h5 shows
megabyte: memory, rank 0: the parts that model.h5 shows
both: first save, rank 0: makes model.h5 in the background
both: save, every rank: reads back its files
both: save, rank 0: commits
both: resume, every rank: parses the manifest
megabyte: memory, every rank: the manifest at a resume
both: resume, rank 0: verifies its share of the files
both: resume, the last rank: verifies its share of the files
both: resume, rank 0: reads the records of its boxes
both: a beat, every rank
both: near a hang, every node: reads the news of the monitors
both: near a hang, a monitor: reads the news of all nodes
both: a hang, one rank: reads all and reports
megabyte: memory, every node: what its ranks share to watch
END
(($(wc -l <out) == rows + 2)) || fail "other rows than these $rows: $(cat out)"

# The limits.
BUILD=$work/build
for program in bench watch; do
    mkdir -p build/test/$program
    printf '#!/bin/sh\ncat "%s/$(basename "$0")"\n' "$work" >build/test/$program/stand_in
    chmod +x build/test/$program/stand_in
done
mv build/test/bench/stand_in build/test/bench/bench_scale
mv build/test/watch/stand_in build/test/watch/bench_watch
# measured RANKS SECONDS BYTES: each figure of these ranks.
measured() {
    for what in "start, every rank: plans" "resume, rank 0: verifies" "first save, rank 0: merges" \
        "save, rank 0: commits" "memory, rank 0: tensors"; do
        printf '{"ranks":%s,"what":"%s","seconds":%s,"bytes":%s}\n' "$1" "$what" "$2" "$3"
    done >>bench_scale
    printf '{"bench":"watch","ranks":%s' "$1" >>bench_watch
    printf ',"%s_s":%s,"%s_bytes":%s' beat "$2" beat "$3" pass "$2" pass "$3" monitor_pass "$2" \
        monitor_pass "$3" report "$2" report "$3" >>bench_watch
    printf ',"shared_bytes_per_node":%s}\n' "$3" >>bench_watch
}
# limited CODE ROW FIELD VALUE [WORDS]: 16,384 ranks with another figure in one row.
limited() {
    rm -f bench_scale bench_watch
    measured 1024 0.01 1000000
    measured 16384 0.02 1050000
    sed -i "/\"ranks\":16384/{/$2/s/\"$3\":[0-9.]*/\"$3\":$4/}" bench_scale bench_watch
    benched "$1" 1024 16384
    [[ -z ${5:-} ]] || says err "$5"
}
limited 0 none seconds 1
limited 1 commits seconds 5.1 "seconds of a save on rank 0"
limited 1 plans seconds 10.1 "seconds of a start"
limited 1 verifies seconds 10.1 "seconds of a start"
limited 1 watch report_s 2.1 "seconds of a report"
limited 1 verifies bytes 67108865 "bytes, resume, rank 0: verifies: 6.71e+07, limit 6.711e+07"
limited 0 tensors bytes 16700000
limited 1 tensors bytes 16800000 "bytes for each further rank, memory, rank 0: tensors"
limited 1 watch shared_bytes_per_node 16800000 "bytes for each further rank, memory, every node"
limited 0 commits bytes 17500000
limited 1 commits bytes 17700000 "bytes, growth of save, rank 0: commits"
limited 1 watch report_bytes 17700000 "bytes, growth of a hang"
limited 0 commits seconds 0.34
limited 1 commits seconds 0.37 "seconds, growth of save, rank 0: commits"
limited 0 merges seconds 0.030
limited 1 merges seconds 0.032 "seconds, growth of first save, rank 0: merges"
limited 1 merges bytes 1600000 "bytes, growth of first save, rank 0: merges"
# A row missing for one number of ranks, and a kind without rows.
measured 3072 0.01 1000000
sed -i '/3072.*commits/d' bench_scale
benched 1 1024 3072 16384
says err "missing: figures of 3072 ranks, save, rank 0: commits"
rm -f bench_watch
touch bench_watch
benched 1 1024 16384
says err "missing: a report"
# It fails if a benchmark fails.
limited 0 none seconds 1
rm bench_watch
benched 1 1024 16384
says_not err "missing"

finish
