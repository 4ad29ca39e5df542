#!/usr/bin/env bash
# The order of system calls: nothing relies on data that a power cut could lose.
. "$(dirname "$0")/lib.sh"
strace -o trace true 2>err || not_run "strace: $(cat err)"
make_data
make_spec
sed -i 's/steps: 20/steps: 12/; s/interval: 10/interval: 3, keep_last: 2/' run.yaml

for setting in checkpoint.async=true checkpoint.async=false; do
    rm -rf run
    settings output_dir=run $setting
    expect_exit 0 strace -f -y -s 40 -o trace -e trace=write,fsync,fdatasync,rename,renameat,renameat2 \
        "$gptrain" --config run.yaml "${set[@]}"
    awk '
        function fault(what) { print "FAILED: " what ": line " NR " of the trace: " $0; bad = 1 }
        function path_of(text) { sub(/^[^<]*</, "", text); sub(/>.*/, "", text); return text }
        function synced(path) {
            sub(/\/manifest\.json\.tmp-[^\/]*$/, "/manifest.json.tmp", path)
            is_synced[path] = 1
            if (path ~ /\/metrics\.jsonl$/) durable_line = line
            if (path ~ /\/checkpoints$/) commits_open = 0
        }
        / write\([0-9]+<[^>]*metrics.jsonl>, "\{\\"step\\": / {
            line = $0
            sub(/.*\\"step\\": /, "", line)
            line += 0
        }
        / f(data)?sync\(/ {
            if (/unfinished/) waiting[$1] = path_of($0)
            else synced(path_of($0))
        }
        / f(data)?sync resumed/ { synced(waiting[$1]) }
        / rename/ && !/resumed/ {
            split($0, names, "\"")
            from = names[2]
            to = names[4]
            if (to ~ /\/step-[0-9]+$/) {
                step = to
                sub(/.*step-0*/, "", step)
                if (durable_line < step + 0) fault("its line of metrics.jsonl is not durable")
                for (i = 1; i <= count; ++i)
                    if (!((from files[i]) in is_synced)) fault("not durable: " from files[i])
                commits_open = 1
                ++commits
            } else if (from ~ /\/step-[0-9]+$/ && commits_open) {
                fault("an old checkpoint goes before the new one is durable")
            }
        }
        BEGIN {
            count = split("/shard-00000.h5 /record-00000.json /model.h5 /tokenizer.model /manifest.json.tmp", files, " ")
            files[++count] = ""  # the folder itself
        }
        END {
            if (commits != 4) fault("not 4 checkpoints but " commits + 0)
            if (commits_open) fault("the last checkpoint is not durable")
            if (durable_line != 12) fault("the last line is not durable")
            exit bad
        }
    ' trace || fail "with $setting"
done

finish
