#!/usr/bin/env bash
# Measures whole optimizer steps of the GPT-2 124M shape on the CPU, next to oneDNN's own GEMM and,
# where a Python with PyTorch is found, next to PyTorch in the same run.
#
#   scripts/bench_cpu.sh [--experts] [--steps N]
#
#   --experts   a mixture of experts instead, next to a dense model that computes as much
#               (test/bench/bench_experts.cpp)
#   --steps N   timed steps of each case, after two that are not (5)
#   PYTHON=...  the Python to look for PyTorch in (python3)
#   BUILD=...   a folder where the benchmark is already built (otherwise it is built in build/cpu)
#
# The last line of stdout is one JSON object.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

steps=5 experts=
take_options experts? steps -- "$@"
name=bench_cpu
[[ -z $experts ]] || name=bench_experts
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${BUILD:-} ]]; then
    scripts/install_dependencies.sh >&2
    cmake --preset cpu >&2
    cmake --build --preset cpu --target $name >&2
fi
bench=${BUILD:-build/cpu}/test/bench/$name
threads=${OMP_NUM_THREADS:-$(nproc)}
python=${PYTHON:-python3}
has_torch=false
[[ -n $experts ]] || ! "$python" -c 'import torch' 2>/dev/null || has_torch=true

# The value of a key in a flat JSON object.
value() { sed -n "s/.*\"$1\": *\([^,}]*\).*/\1/p" <<<"$2" | head -n 1; }

cases=()
declare -A rate=([fp32]=null [bf16]=null)
for shape in "4 64" "1 1024"; do
    read -r sequences length <<<"$shape"
    for dtype in fp32 bf16; do
        echo "B$sequences T$length $dtype ..." >&2
        result=$("$bench" "$sequences" "$length" "$dtype" "$steps")
        [[ $(value onednn_gflops "$result") == null ]] || rate[$dtype]=$(value onednn_gflops "$result")
        result=$(sed 's/"onednn_gflops":[^,]*,//' <<<"$result")
        if $has_torch; then
            torch=$("$python" scripts/bench_torch.py --threads "$threads" --steps "$steps" \
                --shapes "B${sequences}xT${length}" --dtypes "$dtype" 2>/dev/null | tail -n 1 || true)
            speed=$(value torch_tokens_per_s "$torch")
            result="${result%\}},\"torch_tokens_per_s\":${speed:-null}}"
        fi
        echo "$result" >&2
        cases+=("$result")
    done
done

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
printf '{"bench":"%s","commit":"%s","threads":%s,"onednn_gflops":{"fp32":%s,"bf16":%s},"cases":[%s]}\n' \
    "${name#bench_}" "$commit" "$threads" "${rate[fp32]}" "${rate[bf16]}" "$(IFS=,; echo "${cases[*]}")"
