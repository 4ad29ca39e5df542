#!/usr/bin/env bash
# Usage: bench_gpu.sh GPTRAIN GPT-PREPROCESS. How scripts/bench_gpu.sh reports its measurements,
# with stand-ins for the benchmark and for a Python with PyTorch.
bench=$(realpath "$(dirname "$0")/../../scripts/bench_gpu.sh")
. "$(dirname "$0")/lib.sh"
export BUILD=$work/build PYTHON=$work/python
mkdir -p build/test/bench build/app

# program_that FILE COMMANDS: makes FILE a script of these commands.
program_that() {
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}
checks_that() { program_that build/app/gptrain "$1"; }
checks_that 'exit 0'
bench_that() { program_that build/test/bench/bench_gpu "$1"; }
python_that() { program_that python "[ \"\$1\" != -c ] || exit 0; $1"; }
# benched CODE OPTIONS...
benched() {
    timeout 60 "$bench" --output results "${@:2}" >out 2>err
    (($? == $1)) || fail "not exit code $1: ${*:2}: $(tail -c 600 out err)"
}
# The JSON is one line, the last one, and a file next to the log.
ends_with_json() {
    tail -n 1 out >last
    same last results/bench.json
    [[ $(<last) == '{"bench":"'$1'",'*'}' ]] || fail "the last line is $(<last)"
}

# A table that compares the two, and how MFU is calculated.
cat >product.json <<END
{"bench":"product","product_tflops":700.0,"size":8192}
END
cat >step.json <<END
{"mfu":0.4,"model_tflops":395.6,"ms_by_op":{"adamw":1.5,"linear":9.25},"shape":"B64xS1024",\
"step_time_s":0.125,"steps":20,"tokens_per_s":524288.0}
END
cat >torch.json <<END
{"torch": "2.9", "steps": 20, "torch_step_time_s": 0.25, "torch_tokens_per_s": 262144.0, "torch_mfu": 0.2}
END
bench_that 'echo said; cat "$1.json"'
python_that 'cat torch.json'
benched 0 gpt2-124m
grep -qE '^ms a step +125.00 +250.00$' out || fail "the times of a step: $(cat out)"
grep -qE '^against PyTorch +2.000 *$' out || fail "the ratio: $(cat out)"
grep -qE '^MFU, % +40.0 +20.0$' out || fail "MFU: $(cat out)"
formula="tokens/s x (6 x parameters + 6 x layers x hidden size x sequence length) / 989e12"
(($(grep -cF "$formula" out) == 2)) || fail "the formula of MFU, not in table and JSON: $(cat out)"
ends_with_json gpu
says last '"ratio":2.000' "\"mfu_formula\":\"model FLOP/s" "$formula"

# PyTorch is measured even if gptrain's step fails, and kernels for sm_90a only if they are right.
bench_that 'echo "attention ${GPTRAIN_CUDA_ATTENTION-own choice}" >&2; [ "$1" = product ] && cat product.json'
benched 1 gpt2-124m
says out "attention own choice" "error: exit code 1"
grep -qE '^ms a step +- +250.00$' out || fail "without a step of gptrain: $(cat out)"
ends_with_json gpu
checks_that 'echo "o differs by 3"'
benched 1 gpt2-124m
says out "those for sm_90a fail: o differs by 3" "attention portable"
checks_that 'exit 0'
bench_that 'echo said; cat "$1.json"'

# Attention: a line for each kernel, grouped by shape.
cat >attention.json <<END
{"bench":"attention","rows":[{"backward_ms":5.0,"backward_tflops":400.4,"forward_ms":1.25,\
"forward_tflops":500.0,"kernel":"gptrain portable","shape":"B64 N12 D64 S1024"},\
{"backward_ms":7.0,"backward_tflops":300.0,"forward_ms":2.0,"forward_tflops":350.0,\
"kernel":"gptrain portable","shape":"B32 N25 D64 S1024"}]}
END
cat >torch.json <<END
{"bench": "attention", "rows": [{"shape": "B64 N12 D64 S1024", "kernel": "torch flash", \
"forward_ms": 1.5, "forward_tflops": 450.0, "backward_ms": 4.5, "backward_tflops": 420.0}]}
END
benched 0 --sweep attention
grep -A 1 -E '^B64 N12 D64 S1024 +gptrain portable +1.250 +500 +5.000 +400$' out |
    grep -qE '^B64 N12 D64 S1024 +torch flash +1.500 +450 +4.500 +420$' || fail "the rows: $(cat out)"
grep -qE '^B32 N25 D64 S1024 +gptrain portable +2.000 +350 +7.000 +300$' out || fail "a row: $(cat out)"
ends_with_json "gpu attention"
benched 0 --sweep attention --no-torch
says_not out "torch flash"
ends_with_json "gpu attention"

# Failures are reported, and so is a lack of time.
bench_that 'echo "no GPU" >&2; exit 2'
benched 1 --kernels
says out "no GPU" "error: exit code 2: "
bench_that 'sleep 30'
benched 1 --kernels --seconds 0
says out "error: exit code 124: "

finish
