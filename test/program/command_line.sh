#!/usr/bin/env bash
# The command line, and dry runs.
. "$(dirname "$0")/lib.sh"
make_spec

expect_exit 0 "$gptrain" --help
says out --config --set --resume --dry-run --world-size inspect generate eval "75"
for command in inspect generate eval; do expect_exit 0 "$gptrain" $command --help; done
expect_exit 0 "$gptrain" --version
expect_exit 0 "$preprocess" --help
expect_exit 2 "$gptrain"
says err --config
expect_exit 2 "$gptrain" --config
expect_exit 2 "$gptrain" --config missing.yaml
says err "missing.yaml: no such file (relative to $work, where the program was started)"
expect_exit 2 "$gptrain" --config "$work/missing.yaml"
says err "$work/missing.yaml: no such file"
says_not err relative
expect_exit 2 "$gptrain" --config "$work"
expect_exit 2 "$gptrain" run.yaml
says err "did you mean gptrain train run.yaml? (gptrain --help)"

# A misspelt command or option is answered with the nearest one.
nearest() {
    expect_exit 2 "$gptrain" "${@:2}"
    says err "$1"
}
nearest "there is no command genrate; nearest: generate (gptrain --help)" genrate run --prompt x
nearest "there is no command trian; nearest: train (gptrain --help)" trian run.yaml --set seed=1
nearest "there is no option --promt; nearest: --prompt (gptrain generate --help)" generate run --promt=x
nearest "was not expected: completely (gptrain --help)" completely
nearest "put --config after report" --config run.yaml report run
for word in inspct merg trian-tokenizer; do
    "$preprocess" $word x 2>err && fail "$word is a command"
    says err "there is no command $word; nearest: "
done

# The run is the first word of a command, or --checkpoint; the spec that of train.
once() {
    expect_exit 2 "$gptrain" "$@"
    says err "--checkpoint: the first word is already one; give one"
}
once generate run --checkpoint run --prompt x
once eval run --data text.txt --checkpoint run
once serve --checkpoint run run
once export run --checkpoint run --format hf --output x
once inspect run --checkpoint run
expect_exit 2 "$gptrain" report run --checkpoint run
says err "runs excludes --checkpoint"
for command in generate eval serve export inspect report; do
    expect_exit 2 "$gptrain" $command
    says err "$command: give "
done
expect_exit 2 "$gptrain" train
says err "train: give RUN.yaml"
expect_exit 2 "$gptrain" --config run.yaml b a
says err "The following arguments were not expected: b a (gptrain --help)"
expect_exit 2 "$gptrain" --config run.yaml --steps 3
expect_exit 2 "$gptrain" --config run.yaml --world-size 2
expect_exit 2 "$gptrain" --config run.yaml --dry-run --world-size 0
expect_exit 2 "$gptrain" plan
says err "--config is required (gptrain plan --help)"
expect_exit 2 "$gptrain" plan --confg run.yaml
says err "(gptrain plan --help)"
expect_exit 2 "$gptrain" generate --checkpoint run --max-tokens 1e3
says err "'1e3' is not a whole number from 0 to 16777216"
expect_exit 2 "$gptrain" generate --checkpoint run --top-k -1
says err "'-1' is not a whole number from 0 to 16777216"
expect_exit 2 "$gptrain" plan --calibrate "$work/nowhere/cpu.yaml"
says err "$work/nowhere: no such folder for --calibrate; create it"
expect_exit 0 "$gptrain" inspect --help
says_not out "  what "
expect_exit 2 "$gptrain" inspect
says err "inspect: give RUN.yaml|DATA-PREFIX|CHECKPOINT-DIR|OUTPUT-DIR|HF-DIR"
expect_exit 2 "$gptrain" inspect run.yaml more
expect_exit 2 "$gptrain" inspect nothing
says err "nothing: no such file, token data set or folder (relative to $work,"

# The spec: another test covers the mistakes themselves; this one checks that they reach the user.
sed 's/seq_length/seq_lenght/' run.yaml >typo.yaml
expect_exit 2 "$gptrain" --config typo.yaml
says err "typo.yaml:5:" seq_lenght "seq_length"
expect_exit 2 "$gptrain" inspect typo.yaml
expect_exit 0 "$gptrain" inspect run.yaml --set output_dir=elsewhere --set training.steps=30
says out "output_dir: $work/elsewhere" "steps: 30"
expect_exit 0 "$gptrain" inspect run.yaml \
    --set 'data.train=[{prefix: text_text_document, weight: 3}, {prefix: other}]'
says out "training       75.0 % of the samples from $work/text_text_document" "25.0 % of the samples from $work/other"
expect_exit 2 "$gptrain" inspect run.yaml --set training.step=3
says err training.step "steps"
expect_exit 2 "$gptrain" inspect run --set training.steps=30
says err --set run
expect_exit 2 "$gptrain" --config run.yaml --set training.step=3
says err training.step "steps"
expect_exit 2 "$gptrain" --config run.yaml --set training.steps
expect_exit 2 "$gptrain" --config run.yaml --set training.steps=many

# For a setting that looks right but is not, the error says what to write.
expect_exit 2 "$gptrain" --config run.yaml --set device=gpu
says err "must be auto, cpu or cuda; nearest: cuda"
expect_exit 2 "$gptrain" --config run.yaml --set "data.train=[text_text_document]"
says err "--set data.train.0" "write a source as {prefix: PATH}"
expect_exit 2 "$gptrain" --config run.yaml --set faults.loss_spike=skip --set seed=2
says err "must be none or a section"
# A quick trial of a spec with a longer warmup.
quickstart=$(dirname "$script")/../../configs/quickstart.yaml
expect_exit 0 "$gptrain" inspect "$quickstart" --set training.steps=4 --set name=trial
says out "name: trial" "warmup_steps: 4" \
    "lr_schedule.warmup_steps shortened from 20 to 4, because training.steps is 4"
says_not out "epochs"

# A mesh needs its ranks.
for axis in data tensor pipeline context; do
    expect_exit 2 "$gptrain" --config run.yaml --set parallel.$axis=2
    says err "$axis" "1 rank (as started)" "change the number of ranks"
done
# A run does not compute on a missing GPU; a dry run needs none.
expect_exit 0 "$gptrain" --config run.yaml --set device=cuda --dry-run
says out "planned for device cuda"
if [[ ! -e /dev/nvidiactl ]]; then
    expect_exit 2 "$gptrain" --config run.yaml --set device=cuda
    "$gptrain" --version | grep -q cuda && why="NVIDIA driver" || why="built without"
    says err "device: cuda" "$why"
fi
[[ ! -e run ]] || fail "refused runs have made their output directory"

# In the wrong folder nothing is found: the error names the folder, and nothing is left there.
mkdir wrong
cd wrong || exit 1
expect_exit 3 "$gptrain" --config ../run.yaml
says err "../run.yaml:4:" "data.train.0.prefix: text_text_document.idx: no such file" \
    "(relative to $work/wrong, where the program was started)"
[[ $(ls -A) == $'err\nout' ]] || fail "a run in the wrong folder has left: $(ls -A)"
cd "$work" || exit 1
rm -r wrong

# Slurm tasks that nothing connects would each write the same files.
expect_exit 2 env -u PMIX_RANK -u PMI_RANK -u PMI_SIZE SLURM_STEP_NUM_TASKS=2 "$gptrain" \
    --config run.yaml
says err "--mpi=pmix"
[[ ! -e run ]] || fail "a task of several has made the output directory"

# A dry run reads neither data nor tokenizer, which do not exist here, and writes nothing.
expect_exit 0 "$gptrain" --config run.yaml --dry-run
says out "memory of the rank" "on the device" "on the host" "work per step" \
    "model FLOPs = tokens x (6 x parameters"
total_of_one=$(predicted_bytes)
expect_exit 2 "$gptrain" --config run.yaml --dry-run --hardware ""
says err "--hardware : no such file"
# That formula does not hold for windows and frozen parameters.
for setting in model.sliding_window=4 'training.frozen=["h.*"]'; do
    expect_exit 0 "$gptrain" --config run.yaml --dry-run --set "$setting"
    says out "model FLOPs, all ranks"
    says_not out "6 x parameters"
done
expect_exit 0 "$gptrain" --config run.yaml --dry-run --world-size 4 --set training.global_batch_size=8
total_of_four=$(predicted_bytes)
((0 < total_of_four && total_of_four < total_of_one)) ||
    fail "sharded over 4 ranks: $total_of_four bytes, on one $total_of_one"
says out "dp"
expect_exit 0 "$gptrain" --config run.yaml --dry-run --world-size 4 --set parallel.data=4 \
    --set training.global_batch_size=8
expect_exit 2 "$gptrain" --config run.yaml --dry-run --world-size 4 --set parallel.data=2
expect_exit 2 "$gptrain" --config run.yaml --dry-run --world-size 4
says err global_batch_size
expect_exit 0 "$gptrain" --config ../"$(basename "$work")"/run.yaml --dry-run --world-size 1024 \
    --set training.global_batch_size=1024 --set model.hidden_size=4096 --set model.num_layers=48 \
    --set model.num_attention_heads=32
[[ $(ls) == $'err\nout\nrun.yaml\ntypo.yaml' ]] || fail "dry runs have left: $(ls)"

finish
