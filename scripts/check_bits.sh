#!/usr/bin/env bash
# Trains many small models at two commits, and compares their bits: the losses and gradient norms of
# every step, and the weights and optimizer state at the end. For changes of structure that must not
# change a result.
#
#   scripts/check_bits.sh BASE [--only PATTERN] [--renamed OLD=NEW,...]
#
#   BASE               the commit to compare this tree with
#   --only PATTERN     only the runs whose names match this pattern of the shell, such as 'llama*'
#   --renamed LIST     words that this tree prints differently in a dry run, as OLD=NEW,OLD=NEW
#
# Both are built here and run on this machine, because bits depend on the CPU and the libraries. BASE
# is checked out and built in build/bits, where it stays for the next call. The runs are on the CPU,
# on one to eight ranks, and on the emulated GPU; the dry run of every shipped spec is compared as
# text. Exit code 1: something differs. On two cores the runs take four minutes, the build before more.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

base=
only='*'
renamed=
take_options base= only renamed -- "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ -n $base ]] || { echo "error: give the commit to compare with" >&2 && exit 2; }
commit=$(git rev-parse --verify "$base^{commit}")

# ---- Both programs ----
other=$PWD/build/bits/source
[[ -e $other ]] || git worktree add --detach "$other" "$commit" >&2
git -C "$other" checkout --force --quiet --detach "$commit"
targets=(gptrain gpt-preprocess test_emulator_model)
for source in "$PWD" "$other"; do
    (cd "$source" && cmake --preset cpu && cmake --build --preset cpu --target "${targets[@]}") >&2
done
programs=("$other/build/cpu" "$PWD/build/cpu")
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
configs=$PWD/configs

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
preprocess=${programs[0]}/data_tools/gpt-preprocess
bible </dev/null -f gen1:1-10:32 >text.txt
"$preprocess" train-tokenizer --input text.txt --vocab-size 400 --model-prefix tok >log
"$preprocess" --input text.txt --tokenizer tok.json --output-prefix text --append-eod --documents line >log

cat >run.yaml <<'END'
name: bits
output_dir: run
model: {num_layers: 4, hidden_size: 48, num_attention_heads: 4, vocab_size: 400}
data: {train: [{prefix: text_text_document}], split: "90,10,0", tokenizer: tok.json, num_samples: 400}
training: {seq_length: 32, micro_batch_size: 1, global_batch_size: 8, steps: 6, eval_interval: 3, eval_steps: 1}
optimizer: {lr: 0.01}
lr_schedule: {warmup_steps: 2, decay_steps: 6}
checkpoint: {interval: 3, keep_last: 9}
logging: {interval: 1, tensorboard: false}
device: cpu
END

# ---- The runs: NAME RANKS KEY=VALUE... ----
llama="model.position_embedding=rope model.normalization=rmsnorm model.activation=swiglu \
model.ffn_hidden_size=64 model.bias=false model.num_query_groups=2 model.tie_embeddings=false"
qwen="$llama model.qkv_bias=true model.qk_norm=true model.sliding_window=9 \
model.full_attention_layers=[1]"
dropout="model.dropout=0.1"
adapted="init_from=base/gpt2"
lora="$adapted adapter.kind=lora adapter.rank=4 adapter.alpha=8 adapter.dropout=0.1 \
adapter.targets=[attn.q,attn.v,mlp.proj]"
runs="gpt2 1
gpt2_bf16 1 precision.compute=bf16
gpt2_fp16 1 precision.compute=fp16
gpt2_fp8 1 precision.compute=fp8
gpt2_fp8_full 1 precision.compute=fp8 recompute=full
gpt2_dropout 1 $dropout
gpt2_dropout_selective 1 $dropout recompute=selective
gpt2_dropout_full 1 $dropout recompute=full
gpt2_erf 1 model.activation=gelu_erf model.position_embedding=rope
gpt2_eod 1 data.reset_at_eod=true data.eod_mask_loss=true
gpt2_frozen 2 training.frozen=[wte.weight,h.0.*]
gpt2_rampup 2 training.rampup.start=2 training.rampup.increment=2 training.rampup.samples=24
gpt2_wsd 1 lr_schedule.kind=wsd lr_schedule.wsd_decay_steps=2
gpt2_dp2 2 $dropout
gpt2_dp3 3
gpt2_dp2_whole 2 parallel.shard_optimizer=false
gpt2_dp4_bf16_sums 4 precision.grad_reduce=bf16 precision.compute=bf16
gpt2_tp2 2 parallel.tensor=2 $dropout
gpt2_tp2_sp 2 parallel.tensor=2 parallel.sequence_parallel=true $dropout
gpt2_tp2_overlap 2 parallel.tensor=2 parallel.sequence_parallel=true parallel.overlap_tensor=on
gpt2_pp2_gpipe 2 parallel.pipeline=2 parallel.schedule=gpipe
gpt2_pp4_1f1b 4 parallel.pipeline=4 parallel.schedule=1f1b $dropout
gpt2_pp2_interleaved 2 parallel.pipeline=2 parallel.virtual_stages=2 parallel.schedule=interleaved_1f1b
gpt2_pp2_zero_bubble 2 parallel.pipeline=2 parallel.schedule=zero_bubble
gpt2_pp2_zero_bubble_v 2 parallel.pipeline=2 parallel.virtual_stages=2 parallel.schedule=zero_bubble recompute=full
gpt2_cp2_ring 2 parallel.context=2 parallel.context_method=ring $dropout
gpt2_cp2_all_to_all 2 parallel.context=2 parallel.context_method=all_to_all
gpt2_muon 1 optimizer.name=muon
gpt2_muon_dp2_tp2 4 optimizer.name=muon parallel.tensor=2
llama 1 $llama
llama_bf16_full 1 $llama precision.compute=bf16 recompute=full
llama_tp4_shared_kv 4 $llama parallel.tensor=4 parallel.sequence_parallel=true
llama_dp2_tp2_pp2 8 $llama parallel.tensor=2 parallel.pipeline=2 $dropout
llama_dp2_cp2_tp2 8 $llama parallel.tensor=2 parallel.context=2 precision.compute=bf16
llama_fp8_tp2 2 $llama model.hidden_size=64 precision.compute=fp8 parallel.tensor=2 parallel.sequence_parallel=true
qwen 1 $qwen
qwen_cp2 2 $qwen parallel.context=2
qwen_pp2_tp2 4 $qwen parallel.pipeline=2 parallel.tensor=2
mlm 1 objective.kind=mlm objective.mask_id=400 model.vocab_size=401
mlm_spans_dp2_tp2 4 objective.kind=mlm objective.masking=span objective.mask_id=400 model.vocab_size=401 parallel.tensor=2
lora 1 $lora
lora_int8_tp2 2 $lora precision.frozen=int8 parallel.tensor=2
lora_dp2_pp2 4 $lora parallel.pipeline=2
prompt_pp2 2 $adapted adapter.kind=prompt adapter.virtual_tokens=4 parallel.pipeline=2
p_tuning_tp2 2 $adapted adapter.kind=p_tuning adapter.virtual_tokens=4 adapter.encoder_hidden_size=16 parallel.tensor=2"

# ---- Comparing ----
differences=0
differ() {
    echo "DIFFERS  $*"
    differences=$((differences + 1))
}

# train SIDE NAME RANKS KEY=VALUE...: twice, the second time from the checkpoint of step 3.
train() {
    local side=$1 name=$2 ranks=$3 setting settings=()
    for setting in "${@:4}"; do settings+=(--set "$setting"); done
    local run=side$side/$name
    local launch=()
    ((ranks == 1)) || launch=(mpirun --oversubscribe -n "$ranks")
    local command=("${launch[@]}" "${programs[side]}/app/gptrain" --config run.yaml "${settings[@]}")
    "${command[@]}" --set output_dir="$run" </dev/null >"log$side" 2>&1 || return
    "${command[@]}" --set output_dir="$run-resumed" --resume "$run/checkpoints/step-000003" \
        </dev/null >"log$side" 2>&1
}

# numbers RUN: the numbers that its steps computed, without times.
numbers() {
    sed -nE '/^\{"step": /{
        s/, "(seconds|tokens_per_s|step_time_s|tflops_per_device|mfu)": [^,}]*//g
        s/, "goodput": \{[^}]*\}//
        p
    }' "$1/metrics.jsonl"
    (cd "$1/checkpoints/step-000006" && sha256sum shard-*.h5)
}

compare_run() {
    local name=$1 side run
    for side in 0 1; do
        train $side "$@" && continue
        differ "$name: failed $( ((side)) && echo here || echo at "$base"): $(grep -m 1 error: "log$side")"
        return
    done
    for run in "$name" "$name-resumed"; do
        if diff <(numbers "side0/$run") <(numbers "side1/$run") >difference; then
            echo "same     $run"
        else
            differ "$run: $(head -n 2 difference | cut -c 1-300)"
        fi
    done
}

# An adapter's model is the first run at BASE, for both.
read -ra first <<<"${runs%%$'\n'*}"
train 0 "${first[@]}" || { echo "error: $base does not train: $(tail -n 1 log0)" >&2 && exit 1; }
mkdir base
cp -r "side0/${first[0]}" base/
rm -r side0
while read -ra run; do
    # shellcheck disable=SC2254
    case ${run[0]} in $only) compare_run "${run[@]}" ;; esac
done <<<"$runs"

# shellcheck disable=SC2254
case emulated in $only)
    for side in 0 1; do
        "${programs[side]}/test/emulator/test_emulator_model" "[bits]" >"emulated$side" 2>&1 || true
    done
    if diff emulated0 emulated1 >difference && grep -q "^loss " emulated1; then
        echo "same     emulated: $(grep -c '^loss ' emulated1) losses"
    else
        differ "emulated: $(head -n 3 difference | cut -c 1-300)"
    fi
    ;;
esac

words=()
for word in ${renamed//,/ }; do words+=(-e "s/${word%%=*}/${word#*=}/g"); done
for spec in "$configs"/*.yaml; do
    name=dry_run_$(basename "$spec" .yaml)
    # shellcheck disable=SC2254
    case $name in $only) ;; *) continue ;; esac
    for side in 0 1; do
        "${programs[side]}/app/gptrain" --config "$spec" --dry-run --device-memory 80GB \
            --hardware h100-sxm >"dry$side" 2>&1 || true
    done
    # Spaces may differ in number: words of other lengths are padded to the same column.
    if diff -b <(sed -e '' "${words[@]}" dry0) dry1 >difference; then
        echo "same     $name"
    else
        differ "$name: $(head -n 4 difference | cut -c 1-300)"
    fi
done
((differences == 0)) && echo "all equal to $base ($commit)"
exit $((differences > 0))
