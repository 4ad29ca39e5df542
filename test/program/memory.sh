#!/usr/bin/env bash
# A run takes the bytes that its dry run says, whatever it is made of.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
n=0
for settings in recompute=none recompute=full precision.compute=bf16 precision.compute=fp16 \
    checkpoint.async=false "training.micro_batch_size=2 training.global_batch_size=6" \
    "model.activation=swiglu model.normalization=rmsnorm model.position_embedding=rope model.bias=false" \
    "model.tie_embeddings=false model.num_query_groups=1 model.dropout=0.1" \
    "data.reset_at_eod=true data.eod_mask_loss=true" parallel.schedule=zero_bubble; do
    settings output_dir=run-$n training.steps=1 $settings
    expect_exit 0 "$gptrain" --config run.yaml "${set[@]}" --dry-run
    predicted=$(predicted_bytes)
    expect_exit 0 "$gptrain" --config run.yaml "${set[@]}"
    says run-$n/metrics.jsonl "\"memory_bytes\": $predicted,"
    n=$((n + 1))
done
(($(cat run-*/metrics.jsonl | sed 's/.*memory_bytes": \([0-9]*\).*/\1/' | sort -u | wc -l) >= 8)) ||
    fail "settings make no difference to memory"

finish
