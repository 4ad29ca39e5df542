#!/usr/bin/env bash
# On a GPU: plan --calibrate writes its profile, with which a dry run of GPT-2 124M predicts the
# time of a step.
model=$(realpath "$(dirname "$0")/../../configs/gpt2-124m.yaml")
. "$(dirname "$0")/lib.sh"
make_data
GPTRAIN_TEST_DEVICE=cuda make_spec
needs_gpu

expect_exit 0 "$gptrain" plan --calibrate gpu.yaml --device cuda
says out "wrote gpu.yaml: "
grep -E '^(kind|  (memory|peak|spread|op_s|issue|copy)[a-z_]*):' gpu.yaml
for op in linear_forward linear_weight_grad attention_forward attention_backward; do
    grep -q "op: $op, precision: bf16" gpu.yaml || fail "gpu.yaml has no $op in bf16"
done
grep -q '^kind: cuda' gpu.yaml || fail "gpu.yaml is not of kind cuda"
expect_exit 0 "$gptrain" --config "$model" --set precision.compute=bf16 --dry-run \
    --hardware gpu.yaml --json estimate.json
cat estimate.json

finish
