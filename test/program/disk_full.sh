#!/usr/bin/env bash
# Failed writes: exit code 5, one line, and the earlier checkpoints unchanged.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 small training.steps=10
cp -r small before

# A limit on file sizes, in KiB: enough for everything except the shard file.
shard=$(wc -c <"$(checkpoint small 10)/shard-00000.h5")
for setting in checkpoint.async=true checkpoint.async=false; do
    settings output_dir=small training.steps=20 $setting
    (
        ulimit -f $((shard / 2048))
        exec timeout --signal=KILL 60 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
    )
    check_exit 5 $? "a run under ulimit -f, $setting"
    says err "small/checkpoints/step-000020" "File too large"
    (($(grep -o "File too large" err | wc -l) == 1)) || fail "not one reason: $(cat err)"
    [[ $(ls -A small/checkpoints) == step-000010 ]] || fail "checkpoints: $(ls -A small/checkpoints)"
    same "$(checkpoint small 10)/shard-00000.h5" "$(checkpoint before 10)/shard-00000.h5"
    grep -q '^{"step": 20, "loss"' small/metrics.jsonl || fail "the line of step 20 is lost"
done
train 0 small
train 0 straight
same_run straight small 20

# The metrics themselves cannot be written.
settings output_dir=tiny training.steps=20
(
    ulimit -f 2
    exec timeout --signal=KILL 60 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
)
check_exit 5 $? "a run whose metrics are cut off"

# A stdout that accepts nothing: the work is done, and the exit code reports the lost output.
untold() {
    timeout --signal=KILL 60 "$@" >/dev/full 2>err
    check_exit 5 $? "$* >/dev/full"
    says err "stdout: No space left on device"
}
settings output_dir=untold training.steps=2
for arguments in --help --version "eval --help" "inspect run.yaml" "inspect text_text_document" \
    "inspect small/checkpoints" "inspect $(checkpoint small 20)" "--config run.yaml --dry-run" \
    "--config run.yaml ${set[*]}" "generate --checkpoint small --prompt and --max-tokens 2" \
    "eval --checkpoint small --data text_text_document"; do
    untold "$gptrain" $arguments
done
expect_exit 0 "$gptrain" inspect untold/checkpoints --verify
says out "step-000002"

finish
