#!/usr/bin/env bash
# Usage: ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. The program on several ranks: it computes what one
# rank computes, saves and resumes on any mesh, stops when one rank is told to, and fails as one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
cat >>run.yaml <<END
precision: {compute: fp32}
END
for name in web books; do
    make_text ${#name} 200 >$name.txt
    expect_exit 0 "$preprocess" --input $name.txt --tokenizer tok.model --output-prefix $name --append-eod
done
sizes=("data.validation=[{prefix: web_text_document}, {prefix: books_text_document, weight: 0.4}]"
    training.global_batch_size=8 training.eval_interval=10 training.eval_steps=2
    optimizer.eps=1.0e-3 model.dropout=0.1)

# train_as RANKS CODE OUTPUT-DIR [KEY=VALUE...]
train_as() {
    local ranks=$1 code=$2
    settings output_dir="$3" "${sizes[@]}" "${@:4}"
    timeout --signal=KILL 120 "$mpirun" -n "$ranks" "$gptrain" --config run.yaml "${set[@]}" \
        "${options[@]}" >out 2>err
    ran "$code" $? "$ranks ranks, ${*:3}"
}
# losses OUTPUT-DIR: by step, then the validation losses.
losses() {
    sed -n 's/.*"\(step\)": \([0-9]*\), "\([val_]*loss\)": \([^,}]*\).*/\3 \2 \4/p' \
        "$1/metrics.jsonl" | sort -k 1,1 -k 2,2n | awk '{ last[$1 " " $2] = $3 }
        END { for (key in last) print key, last[key] }' | sort -k 1,1 -k 2,2n
}
# by_source OUTPUT-DIR: "STEP VAL_LOSS SOURCE LOSS TOKENS SOURCE LOSS TOKENS" of each evaluation.
by_source() {
    sed -nE 's/^\{"step": ([0-9]+), "val_loss": ([^,]*), "val_loss_by_source": \{(.*)\}\}$/\1 \2 \3/p' \
        "$1/metrics.jsonl" | sed -E 's/"([a-z_]+)": \{"loss": ([^,]*), "tokens": ([0-9]+)\},?/\1 \2 \3/g'
}
# near A B: two runs have the same losses except for the order of sums, also of each source, of which
# the mean is that of all.
near() {
    local run
    for run in "$1" "$2"; do
        by_source "$run" | awk '
            { mean = ($4 * $5 + $7 * $8) / ($5 + $8)
              if (NF == 8 && $5 + $8 == 256 && (mean - $2)^2 < 1e-24 && $4 != $7) ++good }
            END { exit NR == 0 || good < NR }' || fail "$run: $(by_source "$run" | tail -n 1)"
    done
    paste -d ' ' <(by_source "$1" | tail -n 2) <(by_source "$2" | tail -n 2) | awk '
        { if ($3 != $11 || $5 != $13 || $6 != $14 || ($4 / $12 - 1)^2 + ($7 / $15 - 1)^2 > 1e-9) exit 1 }' ||
        fail "$1 and $2: $(by_source "$1" | tail -n 1) $(by_source "$2" | tail -n 1)"
    losses "$1" >a.losses
    losses "$2" >b.losses
    (($(wc -l <a.losses) >= 22)) || fail "$1 has $(wc -l <a.losses) losses"
    paste a.losses b.losses | awk '
        { difference = $3 > $6 ? $3 - $6 : $6 - $3
          if (NF != 6 || $1 != $4 || $2 != $5 || difference > 2e-5 * $3) exit 1 }' ||
        fail "$1 and $2: $(paste a.losses b.losses | tail -n 3)"
}

# expect_comm OUTPUT-DIR AXIS...: for these axes, in this order, every line reports what was sent
# and how long that kept ranks from computing.
expect_comm() {
    local axis line='"comm": \{' comma=
    for axis in "${@:2}"; do
        line+="$comma\"$axis\": \\{\"bytes\": [1-9][0-9]*, \"seconds\": [0-9.e-]+\\}"
        comma=', '
    done
    (($(grep -cE "$line\}, \"goodput\"" "$1/metrics.jsonl") == 20)) ||
        fail "$1: not 20 lines with the axes ${*:2}: $(tail -n 1 "$1/metrics.jsonl")"
}

train 0 one "${sizes[@]}"
expect_comm one
train_as 1 0 one-by-mpirun
near one one-by-mpirun

meshes=(
    "2 data=2"
    "3 data=3"
    "2 tensor=2 sequence_parallel=true"
    "2 pipeline=2 schedule=1f1b"
    "4 data=2 tensor=2"
    "4 pipeline=2 tensor=2 schedule=zero_bubble"
)
for mesh in "${meshes[@]}"; do
    ranks=${mesh%% *}
    name=mesh-${mesh//[ =]/-}
    keys=()
    for key in ${mesh#* }; do keys+=("parallel.$key"); done
    train_as "$ranks" 0 "$name" "${keys[@]}"
    says out "finished after step 20"
    (($(grep -c 'finished after' out) == 1)) || fail "$mesh: more than one rank speaks"
    near one "$name"
    axes=
    for key in ${mesh#* }; do
        case $key in
            tensor=*) axes="tp $axes" ;;
            data=*) axes="$axes dp" ;;
            pipeline=*) axes="$axes pp" ;;
        esac
    done
    expect_comm "$name" $axes
    expect_exit 0 "$gptrain" inspect "$(checkpoint "$name" 20)" --verify

    # Half, then the other half on the same mesh: the same bits.
    train_as "$ranks" 0 "$name-resumed" "${keys[@]}" training.steps=10
    train_as "$ranks" 0 "$name-resumed" "${keys[@]}"
    says out "after step 10"
    history "$name" >a.history
    history "$name-resumed" >b.history
    same a.history b.history
    for shard in "$(checkpoint "$name" 20)"/shard-*.h5; do
        same "$shard" "$(checkpoint "$name-resumed" 20)/${shard##*/}"
    done

    # Half of it on one rank, and half of a one-rank run on the mesh.
    train 0 "$name-alone" "${sizes[@]}" training.steps=10
    train_as "$ranks" 0 "$name-alone" "${keys[@]}"
    near one "$name-alone"
    train_as "$ranks" 0 "$name-first" "${keys[@]}" training.steps=10
    train 0 "$name-first" "${sizes[@]}"
    near one "$name-first"
done

# The state of two ranks in host memory, then on the device: the same bits.
train_as 2 0 offloaded parallel.data=2 training.steps=10 offload.optimizer=true
train_as 2 0 offloaded parallel.data=2
says out "after step 10"
for shard in "$(checkpoint mesh-2-data-2 20)"/shard-*.h5; do
    same "$shard" "$(checkpoint offloaded 20)/${shard##*/}"
done

# A data rank leaves, or comes back; 8 sequences are 2 on each of 4 ranks, and 3, 3 and 2 on three.
for ranks in "4 3" "3 4"; do
    train_as "${ranks% *}" 0 "from-${ranks/ /-to-}" training.steps=10
    train_as "${ranks#* }" 0 "from-${ranks/ /-to-}"
    says out "after step 10" "mesh: dp ${ranks#* } "
    near one "from-${ranks/ /-to-}"
done
# The same with pipelines of other lengths, shared layers, another schedule and no sharing of the
# optimizer.
train_as 6 0 odd parallel.pipeline=2 parallel.schedule=zero_bubble parallel.data=3 \
    parallel.shard_optimizer=false training.steps=10 recompute=full
train_as 6 0 odd parallel.tensor=2 parallel.data=3
near one odd

# Without a sharded optimizer all data ranks hold the same state, and the first saves it.
train_as 2 0 unsharded parallel.data=2 parallel.shard_optimizer=false
near one unsharded
expect_exit 0 "$gptrain" inspect "$(checkpoint unsharded 20)" --verify
[[ $(cd "$(checkpoint unsharded 20)" && echo shard-*) == shard-00000.h5 ]] ||
    fail "not one shard: $(ls "$(checkpoint unsharded 20)")"

# Each rank has its share of the cores that it may run on.
threads() { (($1 == 1)) && echo "1 thread" || echo "$1 threads"; }
cores=$(nproc)
one_core=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
settings output_dir=threads training.steps=1
for launch in "1 $cores" "2 $((cores > 1 ? cores / 2 : 1))"; do
    rm -rf threads
    timeout 60 env -u OMP_NUM_THREADS "$mpirun" -n ${launch% *} "$gptrain" --config run.yaml \
        "${set[@]}" >out 2>err
    ran 0 $? "${launch% *} ranks on all cores"
    says out "device: CPU with $(threads ${launch#* })"
done
says out "per rank; mesh: dp 2 pp 1 cp 1 tp 1"
rm -rf threads
timeout 60 env -u OMP_NUM_THREADS taskset -c "$one_core" "$mpirun" -n 2 "$gptrain" \
    --config run.yaml "${set[@]}" >out 2>err
ran 0 $? "2 ranks on one core"
says out "device: CPU with 1 thread per rank"

# A rank bound to one core cannot be measured with more threads.
if ((cores > 1)); then
    bound=("$gptrain" plan --calibrate bound.yaml --device cpu)
    timeout 60 env -u OMP_NUM_THREADS "$mpirun" -n 1 "${bound[@]}" : \
        -n 1 taskset -c "$one_core" "${bound[@]}" >out 2>err
    ran 2 $? "a calibration with bound ranks"
    says err "bound ranks to cores of their own" "--bind-to none" "--cpu-bind=none"
fi

# A picture of a real step.
options=(--timeline step.svg)
train_as 2 0 drawn parallel.pipeline=2 training.steps=3
says out "step.svg: the measured step has a bubble of"
says step.svg "tiny: one step of one pipeline, measured: bubble" "stage 1" "messages"
options=(--timeline step.json)
train_as 2 0 short parallel.data=2 training.steps=2
says err "warning: --timeline step.json: not written: the run ended before step 3"
[[ ! -e step.json ]] || fail "a timeline of a step that was not run"
options=(--timeline step.png)
train_as 2 2 wrong parallel.data=2
says err "step.png" ".svg"
options=()

# A signal to one rank other than the first stops all.
settings output_dir=stopped "${sizes[@]}" training.steps=100000 parallel.data=2 checkpoint.interval=0
timeout --signal=KILL 120 "$mpirun" -n 2 "$gptrain" --config run.yaml "${set[@]}" >out 2>err &
launcher=$!
wait_for stopped/metrics.jsonl '"step": 3,'
kill -TERM "$(pgrep -f "^$gptrain --config run.yaml --set output_dir=stopped " | tail -n 1)"
wait $launcher
ran 75 $? "two ranks, one with SIGTERM"
says out "stopping (SIGTERM)" "the same command continues"
(($(ls stopped/checkpoints | wc -l) == 1)) || fail "not one checkpoint: $(ls stopped/checkpoints)"

# Ranks with closed standard streams: no file takes their place.
cat >closed.sh <<END
exec "$gptrain" --config run.yaml --set output_dir=closed --set training.steps=2 <&- >&- 2>&-
END
timeout --signal=KILL 60 "$mpirun" -n 2 bash closed.sh >out 2>err
ran 0 $? "ranks without standard streams"
says closed/metrics.jsonl '{"step": 2, "loss"'
if grep -v '^{' closed/metrics.jsonl; then fail "foreign lines in metrics.jsonl"; fi

# An error that all ranks can see is reported once, and all exit.
train_as 2 2 wrong parallel.tensor=4
says err "2 ranks"
train_as 3 2 wrong training.global_batch_size=2
says err "training.global_batch_size 2 has too few microbatches" "for 3 data ranks" "at least 3"
train_as 2 2 wrong parallel.data=2 training.step=3
cat >differs.sh <<END
exec "$gptrain" --config run.yaml --set output_dir=wrong --set "seed=\$OMPI_COMM_WORLD_RANK"
END
timeout --signal=KILL 60 "$mpirun" -n 2 bash differs.sh >out 2>err
ran 2 $? "ranks with different specs"
says err "the run spec of rank 1 on" "differs"
cp "$gptrain" another-build
printf ' ' >>another-build
settings output_dir=wrong parallel.data=2
timeout --signal=KILL 60 "$mpirun" -n 1 "$gptrain" --config run.yaml "${set[@]}" : \
    -n 1 ./another-build --config run.yaml "${set[@]}" >out 2>err
ran 2 $? "two builds of the program"
says err "rank 0 on" "build" "rank 1 on" "start the same program on all nodes"
rm another-build
train_as 2 2 large parallel.data=2 training.micro_batch_size=4000000 training.global_batch_size=auto
says err "not enough memory on" "for 2 ranks: " "what would fit: training.micro_batch_size "
[[ ! -e wrong ]] || fail "refused runs have made their output directory"

# They wait together for a lock, however soon a hang is one.
mkdir held
flock held/.lock sleep 3 &
while flock --nonblock held/.lock true; do sleep 0.01; done
SLURM_RESTART_COUNT=1 train_as 2 0 held training.steps=2 faults.hang_seconds=1
# The end of the job is unknown to all of them: one error.
train_as 2 2 endless faults.time_limit=auto
says err "needs SLURM_JOB_END_TIME"

finish
