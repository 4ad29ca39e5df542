#!/usr/bin/env bash
# A run allocates the bytes that its dry run predicts, whatever its settings.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
n=0
for settings in recompute=none recompute=full precision.compute=bf16 precision.compute=fp16 \
    checkpoint.async=false "training.micro_batch_size=2 training.global_batch_size=6" \
    "model.activation=swiglu model.normalization=rmsnorm model.position_embedding=rope model.bias=false" \
    "model.tie_embeddings=false model.num_query_groups=1 model.dropout=0.1" \
    "data.reset_at_eod=true data.eod_mask_loss=true" parallel.schedule=zero_bubble \
    "precision.compute=bf16 recompute=full offload.optimizer=true offload.main_weights=true offload.activations=blocks"; do
    settings output_dir=run-$n training.steps=1 $settings
    expect_exit 0 "$gptrain" --config run.yaml "${set[@]}" --dry-run
    predicted=$(predicted_bytes)
    total=$(awk '$1 == "total" { print $2, $3 }' out)
    expect_exit 0 "$gptrain" --config run.yaml "${set[@]}"
    says out "memory: ${total:-of the dry run}"
    says run-$n/metrics.jsonl "\"memory_bytes\": $predicted,"
    n=$((n + 1))
done
# The estimate reports the memory of the rank that needs the most, as the table does.
for parallel in "parallel.tensor=2 parallel.data=3 parallel.shard_optimizer=false" \
    "parallel.tensor=2 parallel.pipeline=2 parallel.data=1"; do
    settings training.micro_batch_size=1 training.global_batch_size=6 $parallel
    ranks=$([[ $parallel == *pipeline* ]] && echo 4 || echo 6)
    expect_exit 0 "$gptrain" --config run.yaml "${set[@]}" --dry-run --world-size "$ranks" \
        --hardware cpu --json estimate.json
    estimated=$(tr -d ' \n' <estimate.json |
        sed -n 's/.*"memory_bytes":{"device":\([0-9]*\),"host":\([0-9]*\)}.*/\1 + \2/p')
    ((${estimated:-0} == $(predicted_bytes))) || fail "$parallel: $(cat estimate.json out)"
done
# A run that does not fit is refused before it allocates anything, with what would fit.
for settings in "training.micro_batch_size=4000000 training.global_batch_size=auto" \
    "model.num_layers=1000 model.hidden_size=65536 model.num_attention_heads=256"; do
    settings output_dir=large $settings
    expect_exit 2 "$gptrain" --config run.yaml "${set[@]}"
    says err "not enough memory" " needed (" " for libraries), " " available (" "would fit"
    [[ ! -e large/cache && ! -e large/metrics.jsonl ]] || fail "a refused run has begun: $(ls large)"
done
# The limits of the process count as well.
settings output_dir=large training.micro_batch_size=100000 training.global_batch_size=auto
expect_exit 2 bash -c 'ulimit -v 2000000; exec "$@"' - "$gptrain" --config run.yaml "${set[@]}"
says err "ulimit -v" "what would fit: training.micro_batch_size "

(($(cat run-*/metrics.jsonl | sed -n 's/.*memory_bytes": \([0-9]*\).*/\1/p' | sort -u | wc -l) >= 8)) ||
    fail "settings make no difference to memory"

# Too little address space, from where the program hardly starts to where it is enough: one line,
# exit code 2, and nothing half-written.
refusals=0
for ((kib = 70000; kib < 1000000; kib += 8000)); do
    rm -rf short
    # If not even the libraries can be loaded and initialised, our code does not run.
    (ulimit -v $kib && "$gptrain" --version) >out 2>err || continue
    (
        ulimit -v $kib
        exec timeout --signal=KILL 60 "$gptrain" --config run.yaml --set output_dir=short >out 2>err
    )
    code=$?
    ((code != 0)) || break
    check_exit 2 $code "under ulimit -v $kib"
    says err "ulimit -v"
    [[ ! -d short/checkpoints ]] || nothing_left short
    refusals=$((refusals + 1))
done
((code == 0 && refusals > 2)) || fail "under ulimit -v: $refusals refusals, then exit code $code"

# State in host memory: how long its moves take, and whether the host of a node of GPUs has enough.
offloaded=("$gptrain" --config run.yaml --dry-run --check --world-size 8 --set device=cuda
    --set training.global_batch_size=8 --set "offload={optimizer: true, main_weights: true}")
expect_exit 0 "${offloaded[@]}" --hardware h100-sxm
says out "  host optimizer  " "  host main parameters  " "fits the host: " " for 8 ranks" "  offload  " \
    "state moves take " " tokens a step on"
sed 's/host_memory: [^ ]*/host_memory: 1e9/' \
    "$(dirname "$script")/../../configs/hardware/h100-sxm.yaml" >small_host.yaml
expect_exit 2 "${offloaded[@]}" --hardware small_host.yaml
says out "does not fit the host: " ", 953.67 MiB available (node.host_memory of h100-sxm) for 8 ranks; use more nodes"

finish
