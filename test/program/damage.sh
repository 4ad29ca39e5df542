#!/usr/bin/env bash
# Damaged checkpoints: a warning and the next older one, never a wrong run.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 whole checkpoint.interval=5 checkpoint.keep_last=4

# flip FILE OFFSET: inverts a byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %x $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
size_of() { wc -c <"$1"; }

newest=$(checkpoint damaged 20)
damages=(
    'flip $newest/shard-00000.h5 $(($(size_of $newest/shard-00000.h5) / 2))'
    'flip $newest/shard-00000.h5 $(($(size_of $newest/shard-00000.h5) - 1))'
    'flip $newest/shard-00000.h5 60'
    'flip $newest/tokenizer.model 1000'
    'flip $newest/record-00000.json 100'
    'flip $newest/record-00000.json $(($(size_of $newest/record-00000.json) - 10))'
    'truncate -s -1 $newest/record-00000.json'
    'truncate -s 0 $newest/record-00000.json'
    'rm $newest/record-00000.json'
    'cp whole/checkpoints/step-000015/record-00000.json $newest/record-00000.json'
    'flip $newest/manifest.json 500'
    'flip $newest/manifest.json $(($(size_of $newest/manifest.json) - 10))'
    'truncate -s -1 $newest/shard-00000.h5'
    'truncate -s +1 $newest/shard-00000.h5'
    'truncate -s 0 $newest/shard-00000.h5'
    'truncate -s 1000 $newest/manifest.json'
    'truncate -s 0 $newest/manifest.json'
    'rm $newest/shard-00000.h5'
    'rm $newest/tokenizer.model'
    'rm $newest/manifest.json'
    'cp whole/checkpoints/step-000015/manifest.json $newest/manifest.json'
    'cp whole/checkpoints/step-000015/shard-00000.h5 $newest/shard-00000.h5'
)
for damage in "${damages[@]}"; do
    rm -rf damaged
    cp -r whole damaged
    eval "$damage"
    train 0 damaged checkpoint.interval=5
    says err "step-000020"
    says out "after step 15" "finished after step 20"
    same_run whole damaged 20
    ((failures == 0)) || fail "after: $damage"
done

# model.h5 is for other programs; no run reads it.
for damage in 'flip $newest/model.h5 1000' 'rm $newest/model.h5'; do
    rm -rf damaged
    cp -r whole damaged
    eval "$damage"
    train 0 damaged training.steps=21
    says err "model.h5" "gptrain does not need it; to write it again: gptrain inspect "
    says out "after step 20"
    expect_exit 3 "$gptrain" inspect "$newest" --verify
    expect_exit 0 "$gptrain" inspect "$newest" --view
    expect_exit 0 "$gptrain" inspect "$newest" --verify
done

# The two newest are damaged; then all.
rm -rf damaged
cp -r whole damaged
flip "$newest/shard-00000.h5" 90000
rm "$(checkpoint damaged 15)/shard-00000.h5"
cp -r damaged all
train 0 damaged checkpoint.interval=5
says err "step-000020" "step-000015"
says out "after step 10"
same_run whole damaged 20
for step in 5 10; do truncate -s -1 "$(checkpoint all "$step")/shard-00000.h5"; done
cp all/metrics.jsonl metrics.before
train 3 all
says err "all/checkpoints" "step-000005" "step-000020"
same metrics.before all/metrics.jsonl
options=(--resume never)
train 2 all
options=()

# A checkpoint without its manifest does not count.
cp -r "$(checkpoint whole 10)" step-000010
rm step-000010/manifest.json
options=(--resume step-000010/)
train 2 unfinished
says err "step-000010/: is not a complete checkpoint: it has no manifest.json"
options=()

# A checkpoint that was named is not replaced by another.
for command in "generate --prompt and" "eval --data text_text_document"; do
    expect_exit 3 "$gptrain" $command --checkpoint "$(checkpoint all 10)"
    says err "step-000010"
    expect_exit 3 "$gptrain" $command --checkpoint all
done
options=(--resume "$(checkpoint all 10)")
train 3 other
says err "step-000010"
options=()

# A run reads tokenizer and data from the paths in its spec, and a checkpoint has their checksums: a
# run with others is refused.
for file in tok.model text_text_document.idx text_text_document.bin; do
    cp "$file" kept
    for part in 0 1 2 3 4 5; do
        flip "$file" $((($(size_of "$file") - 1) * part / 5))
        settings output_dir=whole training.steps=30
        timeout --signal=KILL 60 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
        code=$?
        check_exit $((code == 3 ? 3 : 2)) $code "resumed with $file damaged at part $part"
        grep -qE "${file##*/}|data.tokenizer|data.train.0(: the| has other tokens)" err || fail "not named: $(<err)"
        cp kept "$file"
    done
done
train 0 whole training.steps=21

# A token file that loses its bytes while a run reads it.
for end in bin idx meta.json; do cp "text_text_document.$end" "lost_text_document.$end"; done
start lost "data.train=[{prefix: lost_text_document}]" training.steps=1000000 checkpoint.interval=0
wait_for lost/metrics.jsonl '"step": 3,'
: >lost_text_document.bin
ends 5
says err "$work/lost_text_document.bin: cannot be read where it is mapped"

# Local copies are older than a damaged checkpoint, but newer than the next one.
local=(checkpoint.interval=8 checkpoint.local=disk checkpoint.local_interval=6)
train 0 copied "${local[@]}" training.steps=16
flip "$(checkpoint copied 16)/shard-00000.h5" 90000
train 0 copied "${local[@]}"
says err "step-000016"
says out "after step 12 (local copies)"
same "$(checkpoint whole 20)/shard-00000.h5" "$(checkpoint copied 20)/shard-00000.h5"

# A checkpoint that cannot be read is not damaged: it is read again, and no advice is to remove it.
strace -o trace true 2>err || finish
# with_faults WHEN CODE OUTPUT-DIR: a run in which opening a manifest fails at the given times.
with_faults() {
    settings output_dir="$3" training.steps=20
    timeout --signal=KILL 60 strace -f -o trace -P "$work/$(checkpoint "$3" 10)/manifest.json" \
        -P "$work/$(checkpoint "$3" 5)/manifest.json" -e trace=openat -e inject=openat:error=EIO"$1" \
        "$gptrain" --config run.yaml "${set[@]}" >out 2>err
    check_exit "$2" $? "failing reads$1"
}
train 0 unread checkpoint.interval=5 training.steps=10
with_faults "" 5 unread
says err "unread/checkpoints: 2 of 2 checkpoints cannot be read"
says_not err scratch
with_faults :when=1 0 unread
says err "trying again"
says out "after step 10"
same "$(checkpoint whole 20)/shard-00000.h5" "$(checkpoint unread 20)/shard-00000.h5"

# A checkpoint that was skipped as damaged, or whose course was left, does not count as kept.
for start in skipped left; do
    train 0 $start checkpoint.interval=5 checkpoint.keep_last=2
    if [[ $start == skipped ]]; then
        flip "$(checkpoint $start 20)/shard-00000.h5" 20096  # in a tensor
    else
        options=(--resume left/checkpoints/step-000015)
    fi
    train 0 $start checkpoint.interval=3 checkpoint.keep_last=2 training.steps=21
    options=()
    says out "after step 15"
    [[ $(ls -m $start/checkpoints) == "step-000018, step-000020, step-000021" ]] ||
        fail "$start: kept $(ls -m $start/checkpoints)"
done

# An adapter belongs to one model: an older checkpoint of it is another. The damage is beyond the
# part that distinguishes models.
large=(model.num_layers=1 model.hidden_size=256 model.ffn_hidden_size=8192)
train 0 model "${large[@]}" training.steps=2 checkpoint.interval=1
adapter='adapter={kind: lora, rank: 2, alpha: 4}'
train 0 adapted "${large[@]}" init_from=model "$adapter" training.steps=1
damaged=$(checkpoint model 2)
start=$(sed -n 's/.*"weight","name":"h.0.mlp.fc.weight",.*"byte_offset":\([0-9]*\).*/\1/p' \
    "$damaged/record-00000.json")
flip "$damaged/shard-00000.h5" $((start + (6 << 20)))
for run in adapted fresh; do
    for frozen in compute int8; do
        train 2 "$run" "${large[@]}" init_from=model "$adapter" precision.frozen=$frozen training.steps=2
        says err "step-000001: holds different weights from the newer checkpoint"
    done
done
expect_exit 2 "$gptrain" eval --checkpoint adapted --data text_text_document
says err "step-000001: holds different weights from the newer checkpoint"

finish
