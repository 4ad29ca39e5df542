#!/usr/bin/env bash
# The cost of a step on meshes of any size, without them: the shipped specs of large models.
. "$(dirname "$0")/lib.sh"
configs=$(dirname "$0")/../../configs

# share VALUE OF: VALUE / OF in thousandths.
share() { echo $((1000 * $1 / $2)); }
# bytes_of ROW: the exact bytes of a row of the last dry run.
bytes_of() { awk -v name="$1" 'index($0, "  " name "  ") == 1 { print $NF }' out; }
# adds_up: the sums in the memory table of the last dry run are right.
adds_up() {
    awk '/^[^ ]/ { inside = /^memory of the rank/; next }
        !inside || index($0, "  context and libraries  ") == 1 { next }
        index($0, "  on the device  ") == 1 { device = sum; sum = 0; sums += $NF == device; next }
        index($0, "  on the host  ") == 1 { sums += $NF == sum; next }
        index($0, "  total  ") == 1 { sums += $NF == device + sum; next }
        { sum += $NF }
        END { print sums }' out
}
# in_a_stage ROW: the row's value, in human units, is in the table of stages too.
in_a_stage() {
    value=$(awk -v name="$1" 'index($0, "  " name "  ") == 1 { print $(NF - 2), $(NF - 1) }' out)
    sed -n '/^stages/,$p' out | grep -q "^ *[0-9]* .*  $value " ||
        fail "no stage has the $value of '$1'"
}

# NAME RANKS STAGES and the bytes that a rank in the middle sends to its neighbours: for each of m
# microbatches, v times activations and v times gradients of 2 s b h / t, together 4 m v s b h / t.
# The two stages of gpt22b are both ends: they send once less, and half the embedding's gradients.
while read -r name ranks stages sent; do
    for picture in svg json; do
        began=$SECONDS
        expect_exit 0 "$gptrain" --config "$configs/$name.yaml" --dry-run --world-size "$ranks" \
            --timeline "$name.$picture"
        ((SECONDS - began < 60)) || fail "$name took $((SECONDS - began)) s"
    done
    says out "planned for device cuda" "memory of the rank" "saved activations" "context and libraries"
    [[ $(adds_up) == 2 ]] || fail "$name: the sums of its memory are wrong: $(adds_up)"
    (($(bytes_of "sent on tp") > 0)) || fail "$name: nothing is sent on tp"
    ((ranks == 8 * stages)) || (($(bytes_of "sent on dp") > 0)) || fail "$name: nothing on dp"
    if ((stages > 1)); then
        says out "stages of $((ranks / stages)) ranks each; memory" "bubble"
        [[ $(grep -c '^ *[0-9]* .*FLOP.*B  [0-9]*[, ]' out) == "$stages" ]] ||
            fail "$name: not $stages stages in the table"
        for row in "on the device" "sent on tp" "sent on dp" "sent on pp"; do in_a_stage "$row"; done
        # Plus a few single numbers.
        over=$(($(bytes_of "sent on pp") - sent))
        ((over >= 0 && over <= 64)) || fail "$name sends $over bytes on pp, not $sent"
    fi
    [[ $(tail -n 1 "$name.svg") == *"</svg>" ]] || fail "$name.svg is not whole"
    grep -q '"traceEvents"' "$name.json" || fail "$name.json is no trace"
    # It needs its ranks.
    expect_exit 2 "$gptrain" --config "$configs/$name.yaml" --set device=cpu
    says err parallel "ranks"
done <<END
gpt22b 8 2 $((2 * 2 * 47 * 2048 * 6144 / 2 + 4 * 51200 / 2 * 6144 / 2))
gpt175b 1024 4 $((4 * 16 * 24 * 2048 * 12288 / 4))
gpt530b 2240 7 $((4 * 28 * 15 * 2 * 2048 * 20480 / 8))
gpt1t 3072 16 $((4 * 128 * 8 * 2048 * 25600 / 8))
END

# All shipped specs fit the GPUs that they are made for, and leave the headroom.
while read -r name ranks gpus; do
    echo "$name" >>fitting
    for gpu in $gpus; do
        expect_exit 0 "$gptrain" --config "$configs/$name.yaml" --dry-run --world-size "$ranks" \
            --hardware "$gpu"
        grep -qE "^fits: .* \($gpu\), [0-9.]+ [MG]iB left$" out || fail "$name on $gpu: $(grep fit out)"
    done
done <<END
bert-base 1 a100-80gb h100-sxm
llama-style-160m 1 a100-80gb h100-sxm
quickstart 1 a100-80gb h100-sxm
gpt2-124m 1 a100-80gb h100-sxm
moe-small 1 a100-80gb h100-sxm
qwen3-30b-a3b 16 h100-sxm
mixtral-8x7b 32 h100-sxm
moe-671b 2048 h100-sxm
gpt16b 192 a100-80gb
gpt16b-h100 192 h100-sxm
gpt22b 8 a100-80gb
gpt22b-h100 8 h100-sxm
gpt119b 1536 a100-80gb h100-sxm
gpt175b 1024 a100-80gb
gpt175b-h100 1024 h100-sxm
gpt530b 2240 a100-80gb h100-sxm
gpt1t 3072 a100-80gb h100-sxm
END
for spec in "$configs"/*.yaml; do basename "$spec" .yaml; done | sort >shipped
sort -o fitting fitting
same fitting shipped

# Without a number of ranks it takes the fewest that the mesh needs, and reports that.
expect_exit 0 "$gptrain" --config "$configs/gpt22b.yaml" --dry-run
says out "planned for 4 ranks, the minimum for the mesh" "tensor 2 = 4 ranks"
expect_exit 0 "$gptrain" --config "$configs/gpt22b.yaml" --dry-run --world-size 16 \
    --set training.global_batch_size=8
says out "data 4 x" "= 16 ranks"
says_not out "the minimum"
settings parallel.tensor=8 parallel.pipeline=1024 parallel.context=1024 parallel.data=8
expect_exit 2 "$gptrain" --config "$configs/gpt22b.yaml" --dry-run "${set[@]}"
says err "parallel: the mesh needs 67108864 ranks"

expect_exit 2 "$gptrain" --config "$configs/gpt22b.yaml" --dry-run --world-size 8 --timeline step.png
says err step.png .svg .json
expect_exit 2 "$gptrain" --config "$configs/gpt22b.yaml" --dry-run --world-size 8 \
    --timeline pictures/step.svg
says err "pictures: no such folder (relative to $work,"
[[ ! -e step.png ]] || fail "a refused picture was written"

# A step of a 1F1B pipeline of p equal stages idles (p - 1) / m of its time.
cat >equal.yaml <<END
name: equal
output_dir: run
model: {num_layers: 8, hidden_size: 4096, num_attention_heads: 32, vocab_size: 8}
data: {train: [{prefix: none}]}
training: {seq_length: 2048, global_batch_size: 32, steps: 1}
parallel: {pipeline: 8, layers: [1, 1, 1, 1, 1, 1, 1, 1]}
END
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8
says out "bubble 21.9 %"

# The model's keys that change what attention computes are in its rows, in a dry run as in inspect.
settings parallel.pipeline=1 parallel.layers=auto model.position_embedding=rope model.rope_theta=1.0e6 \
    'model.rope_scaling={kind: yarn, factor: 4.0, original_max_position_embeddings: 512}' \
    model.qk_norm=true model.qkv_bias=false model.sliding_window=512 'model.full_attention_layers=[0, 3]'
for words in "--config equal.yaml --dry-run" "inspect equal.yaml"; do
    # shellcheck disable=SC2086
    expect_exit 0 "$gptrain" $words "${set[@]}"
    says out "rope (theta 1e+06, yarn x 4), " ", biases except of q, k, v, norms of q and k, " \
        ", window of 512 tokens except in 2 layers, "
done
settings parallel.pipeline=1 parallel.layers=auto model.bias=false model.qkv_bias=true model.sliding_window=1
expect_exit 0 "$gptrain" inspect equal.yaml "${set[@]}"
says out "learned positions (2048)" ", biases of q, k, v, window of 1 token, "
says_not out "norms of q and k" "except in"
settings parallel.pipeline=1 parallel.layers=auto model.attention_bias=false model.head_bias=true \
    model.qk_norm=all model.parallel_residual=one_norm model.embedding_scale=2 model.embedding_norm=true
expect_exit 0 "$gptrain" inspect equal.yaml "${set[@]}"
says out ", biases except of attn.proj, head bias, norms of q and k over all heads, parallel halves with \
one norm, embeddings x 2, norm of embeddings, "

# Data ranks that do not divide the batch: the step takes as long as that of those with the most
# microbatches, as if all had them.
for batch in 32 33; do
    expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 24 --hardware h100-sxm \
        --set training.global_batch_size=$batch --json $batch.json
    grep -o '"step_seconds":[0-9.e-]*' $batch.json >$batch.seconds
    says out "11 x 1 on "
    ((batch == 33)) || says out "11 x 1 on 2 data ranks, 10 x 1 on 1" "11  on some data ranks 10"
done
same 32.seconds 33.seconds

# A plan is for the requested device, whatever was built and is found here.
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --set device=cpu
says out "planned for device cpu"
[[ $(adds_up) == 3 ]] || fail "the sums of a CPU's memory are wrong: $(adds_up)"
on_cpu=$(bytes_of "op scratch")
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --set device=cuda
says out "planned for device cuda" "context and libraries"
[[ $(adds_up) == 2 && -z $(bytes_of total) ]] || fail "the sums of a GPU's memory are wrong"
(($(bytes_of "op scratch") != on_cpu)) || fail "a GPU needs the scratch memory of a CPU"
(($(bytes_of "host staging") == 16 << 20)) || fail "a GPU needs no memory for staging"
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --set device=auto
says out "as a run here would choose"

# NCCL's buffers are part of what libraries take on GPUs: 9.1875 MiB for each connection (sums by hand
# in test/planner/message_buffers.cpp) on 16 channels of a ring, or 2 x 16 over the network, and 16 more
# for messages from each of 7 ranks.
settings parallel.pipeline=1 parallel.layers=auto device=cuda
buffers() { sed -nE "s/^  NCCL's buffers +([0-9.]+ [MG]iB)  of the device, estimated$/\1/p" out; }
dry_run=("$gptrain" --config equal.yaml --dry-run --device-memory 80GiB "${set[@]}")
expect_exit 0 "${dry_run[@]}" --world-size 8
[[ $(buffers) == "147.00 MiB" ]] || fail "NCCL's buffers of a ring: $(buffers)"
says out " needed (1.14 GiB for libraries), "
expect_exit 0 "${dry_run[@]}" --world-size 8 --set precision.grad_reduce=bf16
[[ $(buffers) == "1.15 GiB" ]] || fail "NCCL's buffers where all exchange gradients: $(buffers)"
says out " needed (2.15 GiB for libraries), "
sed 's/^  devices: 8$/  devices: 1/' "$configs/hardware/h100-sxm.yaml" >far.yaml
expect_exit 0 "${dry_run[@]}" --world-size 8 --hardware far.yaml
[[ $(buffers) == "294.00 MiB" ]] || fail "NCCL's buffers over the network: $(buffers)"
expect_exit 0 "${dry_run[@]}" --world-size 1
[[ -z $(buffers) ]] || fail "one rank has NCCL's buffers: $(buffers)"
says out " needed (1.00 GiB for libraries), "
expect_exit 0 "${dry_run[@]}" --world-size 8 --set device=cpu
says_not out NCCL

# The verdict on whether it fits, here and on devices of a given size; the size reported as fitting
# is the largest.
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --set device=cpu \
    --set model.hidden_size=128
says out "fits here (all 8 ranks on this machine): " " for libraries), "
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --set device=cuda
says_not out "fit"
for device in cpu cuda; do
    settings device=$device model.num_layers=8 model.hidden_size=256 training.micro_batch_size=100000 \
        training.global_batch_size=auto parallel.pipeline=1 parallel.layers=auto
    expect_exit 0 "$gptrain" --config equal.yaml --dry-run --device-memory 8GiB "${set[@]}"
    says out "does not fit: " ", 8.00 GiB available (--device-memory)" "recompute full"
    most=$(sed -n 's/.*what would fit: training.micro_batch_size \([0-9]*\),.*/\1/p' out)
    ((most > 1)) || fail "no micro_batch_size on $device: $(grep fit out)"
    expect_exit 0 "$gptrain" --config equal.yaml --dry-run --device-memory 8GiB "${set[@]}" \
        --set training.micro_batch_size="$most"
    says out "fits: "
    expect_exit 0 "$gptrain" --config equal.yaml --dry-run --device-memory 8GiB "${set[@]}" \
        --set training.micro_batch_size=$((most + 1))
    says out "does not fit: " "training.micro_batch_size $most,"
done
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --device-memory 1MB "${set[@]}"
says out "nothing would fit"
for size in 80 80gb GB -1GB; do
    expect_exit 2 "$gptrain" --config equal.yaml --dry-run --world-size 8 --device-memory "$size"
    says err --device-memory "$size" 80GB
done
expect_exit 2 "$gptrain" --config equal.yaml --device-memory 80GB

# A share of the memory stays free: 1 % by default. JSON has what is left, with libraries counted.
dry_run=("$gptrain" --config equal.yaml --dry-run --world-size 8 --hardware h100-sxm
    --set parallel.pipeline=1 --set parallel.layers=auto --device-memory)
expect_exit 0 "${dry_run[@]}" 80GiB --json left.json
left=$(grep -o '"memory_left_bytes":[0-9]*' left.json | cut -d : -f 2)
says out " available (--device-memory), $(awk -v left="$left" 'BEGIN { printf "%.2f", left / 2^30 }') GiB left"
needed=$(((80 << 30) - left))
size=$(((needed + needed / 200) >> 20))MiB
expect_exit 0 "${dry_run[@]}" "$size"
says out "does not fit: " " available (--device-memory), of which --memory-headroom keeps " " MiB free; what would fit: "
expect_exit 0 "${dry_run[@]}" "$size" --memory-headroom 0.4%
grep -qE '^fits: .* available \(--device-memory\), [0-9.]+ MiB left$' out || fail "$(grep fit out)"
expect_exit 2 "${dry_run[@]}" "$size" --check
expect_exit 0 "${dry_run[@]}" "$size" --check --memory-headroom 0%
expect_exit 0 "${dry_run[@]}" 1GiB --json left.json
says left.json '"memory_left_bytes":-'
says_not out "--memory-headroom"
for share in 1 0.01 -1% 100% x%; do
    expect_exit 2 "${dry_run[@]}" 80GiB --memory-headroom="$share"
    says err "--memory-headroom $share: give a share of the device's memory from 0% to below 100%, such as 5%"
done
expect_exit 2 "$gptrain" --config equal.yaml --memory-headroom 0%
says err --dry-run

# With --check it is an error if the run does not fit, or if that is unknown.
expect_exit 0 "${dry_run[@]}" 80GiB --check
expect_exit 2 "$gptrain" --config equal.yaml --dry-run --device-memory 1GB "${set[@]}" --check
says err "--check: the run does not fit"
says out "does not fit: " "work per step" "--device-memory 1GB is 953.67 MiB" "79.1 to 79.3 GiB"
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --device-memory 1GiB "${set[@]}"
says_not out "79.1"
expect_exit 2 "$gptrain" --config equal.yaml --dry-run --world-size 8 --set device=cuda --check
says err "--check: the memory of the GPUs is unknown"
expect_exit 2 "$gptrain" --config equal.yaml --check

# The time of a step on a hardware profile. Its parts add up to it.
options_of_time=(--dry-run --world-size 8 --hardware h100-sxm --json time.json --timeline time.svg)
expect_exit 0 "$gptrain" --config equal.yaml "${options_of_time[@]}"
says out "time on 8 x h100-sxm, estimated" "tokens per second" MFU HFU device-hours bubble \
    "fits: " "  GEMMs "
says_not out "0 to 0"
grep -q '"products":' time.json || fail "the seconds of GEMMs have another name in JSON"
grep -q "</svg>" time.svg || fail "no timeline was drawn"
awk -F '[{}:,]' '{
    for (i = 1; i <= NF; ++i) {
        if ($i == "\"step_seconds\"") step = $(i + 1)
        if ($i == "\"seconds\"") inside = 1
        else if (inside && $i ~ /^"/) sum += $(i + 1)
    }
    exit !(step > 0 && sum > 0.999 * step && sum < 1.001 * step)
}' time.json || fail "the seconds do not add up: $(cat time.json)"
# A100s are slower, and half of the microbatches take about half as long.
step_seconds() { sed -nE 's/^  step +([0-9.]+) s$/\1/p' out; }
h100=$(step_seconds)
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --hardware a100-80gb
awk -v a="$(step_seconds)" -v b="$h100" 'BEGIN { exit !(a > 1.5 * b) }' ||
    fail "A100: $(step_seconds) s, H100: $h100 s"
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 2 --hardware cpu \
    --set parallel.pipeline=2 --set parallel.layers=auto
says out "planned for device cpu" "time on 2 x cpu"
# All figures count the same devices, which are cores here, and the same parameters.
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 2 --hardware cpu --json cpu.json \
    --set parallel.pipeline=2 --set parallel.layers=auto --set recompute=none
awk -F '[{}:,]' '{
    for (i = 1; i <= NF; ++i) value[$i] = $(i + 1) + 0
    devices = value["\"tokens_per_s\""] / value["\"tokens_per_s_per_device\""]
    hours = value["\"device_hours\""] / value["\"days\""] / 24
    hfu = value["\"hfu\""] / value["\"mfu\""]
    exit !(devices > 0.999 * hours && devices < 1.001 * hours && hfu > 0.999 && hfu < 1.05)
}' cpu.json || fail "devices or parameters count differently: $(cat cpu.json)"
expect_exit 2 "$gptrain" --config equal.yaml --dry-run --hardware cpu --set device=cuda
says err "--hardware cpu is of kind cpu" "device: cuda"
expect_exit 2 "$gptrain" --config equal.yaml --dry-run --hardware h1000
says err "--hardware h1000: no such file" \
    "GPUs a100-40gb, a100-80gb, b200, h100-pcie, h100-sxm, h200-sxm, l40s, rtx-3090, rtx-4090, rtx-5090; CPUs cpu"

# A part of a name means the profile, unless a file has the name.
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --hardware H100
says out "--hardware H100 is h100-sxm; the others: GPUs a100-40gb, a100-80gb, b200, h100-pcie, h200-sxm, l40s," \
    "time on 8 x h100-sxm, estimated"
[[ $(step_seconds) == "$h100" ]] || fail "H100: $(step_seconds) s, h100-sxm: $h100 s"

# A profile without efficiencies gets cautious ones.
cat >h100 <<END
name: mine
kind: cuda
device:
  memory: 80e9
  memory_bandwidth: 3350e9
  peak_flops: {bf16: 989e12}
  attention: [{head_dim: 128, forward: 540e12, backward: 392e12}]
node: {devices: 8, link: {bandwidth: 360e9, latency: 5e-6}}
END
expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 8 --hardware h100 \
    --set precision.compute=bf16
says out "h100 leaves these out, and cautious values are assumed: device.memory_efficiency 0.75, \
device.gemm_efficiency.bf16 0.6, device.op_seconds 4e-06, device.issue_seconds 6e-06" "time on 8 x mine"
mfu() { sed -nE 's/^  MFU +([0-9.]+) %.*/\1/p' out; }
awk -v mfu="$(mfu)" 'BEGIN { exit !(mfu > 20 && mfu < 55) }' || fail "MFU $(mfu) %"

# The profile cpu has the cores that a run here would have, and its times are called rough.
on_cpu=("$gptrain" --config equal.yaml --dry-run --world-size 1 --hardware cpu --json cpu.json
    --set parallel.pipeline=1 --set parallel.layers=auto)
expect_exit 0 env OMP_NUM_THREADS=1 "${on_cpu[@]}"
says out "times are rough: the profile cpu is a guess, here with the " " of this machine"
says cpu.json '"calibrated":false'
one=$(step_seconds)
if (($(nproc) > 1)); then
    expect_exit 0 env OMP_NUM_THREADS=2 "${on_cpu[@]}"
    awk -v one="$one" -v two="$(step_seconds)" 'BEGIN { exit !(one > 1.9 * two && one < 2.1 * two) }' ||
        fail "one thread: $one s, two: $(step_seconds) s"
fi
expect_exit 0 env -u OMP_NUM_THREADS taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')" "${on_cpu[@]}"
says out "with the 1 core of this machine"
[[ $(step_seconds) == "$one" ]] || fail "one thread: $one s, one core: $(step_seconds) s"
expect_exit 2 "$gptrain" --config equal.yaml --hardware h100-sxm
expect_exit 2 "$gptrain" --config equal.yaml --dry-run --json time.json
sed 's/^device:/devise:/' "$configs/hardware/h100-sxm.yaml" >wrong.yaml
expect_exit 2 "$gptrain" --config equal.yaml --dry-run --hardware wrong.yaml
says err "wrong.yaml:" "devise: unknown key; nearest: device"

expect_exit 2 "$gptrain" --config equal.yaml --dry-run --world-size 262145
says err "'262145' is not a whole number from 1 to 262144"

# The time grows with the layers, not with their square: ten times as many take less than 40 times
# as long.
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
for layers in 2000 20000; do
    began=$(milliseconds)
    settings model.num_layers=$layers model.hidden_size=8 model.num_attention_heads=1 \
        training.seq_length=8 training.global_batch_size=auto parallel.pipeline=1 \
        parallel.layers=auto parallel.data=2 device=cpu
    expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 2 "${set[@]}"
    took[$layers]=$(($(milliseconds) - began))
done
((took[20000] < 40 * took[2000])) || fail "2000 layers: ${took[2000]} ms, 20000: ${took[20000]} ms"

# A million microbatches take at most twice the time of a thousand, and less than a gigabyte more.
for kind in "1f1b" "gpipe" "interleaved_1f1b parallel.virtual_stages=2" "zero_bubble"; do
    for microbatches in 1000 1000000; do
        settings model.num_layers=8 model.hidden_size=64 training.global_batch_size=$microbatches \
            parallel.pipeline=4 parallel.layers=auto device=cuda parallel.schedule=$kind
        began=$(milliseconds)
        (
            ulimit -v 2000000
            OMP_NUM_THREADS=1 expect_exit 0 "$gptrain" --config equal.yaml --dry-run --world-size 4 \
                "${set[@]}" --hardware h100-sxm --json $microbatches.json
        ) || exit 1
        took[$microbatches]=$(($(milliseconds) - began))
    done
    ((took[1000000] < 2 * took[1000] + 200)) ||
        fail "$kind: 1000 microbatches: ${took[1000]} ms, 1000000: ${took[1000000]} ms"
    # Each microbatch takes as long as before.
    awk -v a="$(grep -o '"step_seconds":[0-9.e-]*' 1000.json | cut -d : -f 2)" \
        -v b="$(grep -o '"step_seconds":[0-9.e-]*' 1000000.json | cut -d : -f 2)" \
        'BEGIN { exit !(b > 990 * a && b < 1001 * a) }' || fail "$kind: $(cat 1000.json 1000000.json)"
    says out "microbatches per rank" "1000000"
done
expect_exit 2 "$gptrain" --config equal.yaml --dry-run --world-size 4 "${set[@]}" --timeline long.svg
says err "--timeline long.svg: a simulated step is drawn up to 2,000 microbatches" "has 1,000,000" \
    "--set training.global_batch_size=2000"

# Exchanged heads go in two pieces on a GPU, whatever the number of rows.
settings parallel.pipeline=1 parallel.layers=auto parallel.context=2 \
    parallel.context_method=all_to_all training.micro_batch_size=3 training.global_batch_size=3
expect_exit 0 "$gptrain" --config equal.yaml --dry-run "${set[@]}" --world-size 2 --set device=cuda
(($(bytes_of "sent on cp") > 0)) || fail "nothing is sent on cp"

# With tensor and sequence parallelism a rank keeps an eighth of the activations.
settings parallel.pipeline=1 parallel.layers=auto
expect_exit 0 "$gptrain" --config equal.yaml --dry-run "${set[@]}"
whole=$(bytes_of "saved activations")
expect_exit 0 "$gptrain" --config equal.yaml --dry-run "${set[@]}" --world-size 8 \
    --set parallel.tensor=8 --set parallel.sequence_parallel=true
part=$(share "$(bytes_of "saved activations")" "$whole")
((part >= 124 && part <= 126)) || fail "saved activations on 8 ranks: $part thousandths of one's"

finish
