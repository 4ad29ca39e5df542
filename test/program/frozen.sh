#!/usr/bin/env bash
# Frozen parameters: their bytes stay, checkpoints hold them, and resumed runs keep them.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
frozen='training.frozen=[wte.weight, "h.0.*", ln_f.weight]'

# tensors CHECKPOINT [GROUP]: name and checksums of each tensor of the group.
tensors() {
    grep -o "{\"group\":\"${2:-weight}\",\"name\":\"[^\"]*\".*" "$1/record-00000.json" |
        sed 's/.*"name":"\([^"]*\)".*"crc32c":\(\[[0-9,]*\]\).*/\1 \2/' | sort
}
is_frozen() { grep -E '^(wte\.weight|h\.0\..*|ln_f\.weight) '; }

long="training.steps=100 data.num_samples=auto lr_schedule.kind=constant checkpoint.interval=50"
for compute in fp32 bf16; do
    train 0 $compute precision.compute=$compute $long "$frozen"
    first=$(checkpoint $compute 50)
    last=$(checkpoint $compute 100)
    says out "of them frozen)"
    (($(tensors "$last" | wc -l) == $(tensors "$last" | is_frozen | wc -l) + 18)) ||
        fail "not 18 trained tensors: $(tensors "$last")"
    # Frozen ones never change; every other one does.
    [[ -n $(tensors "$last" | is_frozen) ]] || fail "no frozen tensor in the checkpoint"
    [[ $(tensors "$first" | is_frozen) == "$(tensors "$last" | is_frozen)" ]] ||
        fail "a frozen tensor has changed ($compute)"
    [[ -z $(comm -12 <(tensors "$first") <(tensors "$last") | grep -Ev '^(wte|h\.0|ln_f\.weight)') ]] ||
        fail "a trained tensor has not changed ($compute)"
    # They have no state.
    for group in exp_avg exp_avg_sq; do
        (($(tensors "$last" $group | wc -l) == 18)) || fail "$group: $(tensors "$last" $group)"
    done
    # Whatever reads weights reads them.
    expect_exit 0 "$gptrain" generate --checkpoint $compute --prompt "and the" --max-tokens 4
    expect_exit 0 "$gptrain" eval --checkpoint $compute --data text_text_document
    expect_exit 0 "$gptrain" inspect "$last" --verify
done

# Resumed equals uninterrupted, with synchronous and asynchronous saves.
for async in true false; do
    for compute in fp32 bf16; do
        train 0 straight-$compute-$async precision.compute=$compute checkpoint.async=$async "$frozen"
        train 0 parts-$compute-$async precision.compute=$compute checkpoint.async=$async \
            training.steps=10 "$frozen"
        train 0 parts-$compute-$async precision.compute=$compute checkpoint.async=$async "$frozen"
        same_run straight-$compute-$async parts-$compute-$async 20
    done
done

# Other parameters cannot be frozen or trained on resume: their state is missing.
train 2 parts-bf16-true precision.compute=bf16 training.steps=30
says err "training.frozen.0" '"wte.weight"' absent
train 2 parts-bf16-true precision.compute=bf16 training.steps=30 'training.frozen=[wte.weight]'
says err "training.frozen.1"
train 0 plain training.steps=10
train 2 plain "$frozen"
says err "training.frozen.0 is absent in the checkpoint"

# A run that starts from weights keeps their frozen ones.
train 0 from-plain init_from=plain seed=5 precision.compute=fp32 "$frozen"
[[ $(tensors "$(checkpoint from-plain 20)" | is_frozen) == "$(tensors "$(checkpoint plain 10)" | is_frozen)" ]] ||
    fail "the frozen weights are not those of init_from"
expect_exit 0 "$gptrain" export plain --format hf --output hf
train 0 from-hf init_from=hf seed=5 precision.compute=bf16 "$frozen"
train 0 from-checkpoint init_from=plain seed=5 precision.compute=bf16 "$frozen"
same_run from-hf from-checkpoint 20

# A dry run shows what is saved.
options=(--dry-run)
train 0 none
memory() { awk -v use="$1" '$0 ~ use { print $NF; exit }' out; }
all=$(memory "main gradients")
train 0 none "$frozen"
some=$(memory "main gradients")
((some < all / 2)) || fail "main gradients: $some bytes of $all"
options=()

# Patterns that cannot be meant.
train 2 wrong 'training.frozen=[h.2.ln_1.weight]'
says err "error: --set training.frozen: no tensor of the model matches 'h.2.ln_1.weight'"
train 2 wrong 'training.frozen=[h.0.attn.v.weight]'
says err "training.frozen: h.0.attn.v.weight would be frozen, but not h.0.attn.q.weight"
train 2 wrong 'training.frozen=["*"]'
says err "training.frozen: leaves nothing to train"

finish
