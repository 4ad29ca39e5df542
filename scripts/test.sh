#!/usr/bin/env bash
# Installs what is missing, builds and tests.
#
#   scripts/test.sh [--full] [CTEST-OPTIONS...]
#
# Without options: the CPU backend and the tests that show that this build works here, in about ten
# minutes on two cores.
#
#   --full   everything: also clang-tidy, the CUDA backend where its toolkit is found (for one GPU
#            architecture; tests that need a GPU and find none say that they did not run), its
#            machine code, its kernels in the emulator, faults, real sizes, and every parser under the
#            sanitizers
#   Other options go to ctest, for instance: scripts/test.sh -R tokenizer
#
# A table of the times comes last.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# H100 and H200.
architecture=90a-real

presets=(quick)
options=()
for argument in "$@"; do
    case $argument in
        -h | --help)
            sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --full) presets=(cuda asan) ;;
        *) options+=("$argument") ;;
    esac
done

# A choice of tests may leave nothing to run in one of the presets, but not in all of them.
((${#options[@]})) || options=(--no-tests=error)

# timed NAME COMMAND...: runs it and notes its time. Here set -e does not end a function at a step
# that fails, so each such step returns.
times=()
timed() {
    local name=$1 begin=$SECONDS code=0
    shift
    "$@" || code=$?
    times+=("$(printf '%4d s  %s' $((SECONDS - begin)) "$name")")
    return $code
}

install() {
    scripts/install_dependencies.sh || return
    [[ ${presets[0]} == quick ]] ||
        scripts/install_dependencies.sh clang-tidy-14 libomp-14-dev || true
    # Two tests run jobs in a private Slurm, as root; without these they report that they did not run.
    ((EUID != 0)) || [[ ${presets[0]} == quick ]] ||
        scripts/install_dependencies.sh slurm-wlm munge iproute2 || true
}

# Without symbols for a debugger the sanitizers' build takes a quarter less time.
build() {
    local settings=()
    case $1 in
        # Tests with the label once are those of the sanitizers' build.
        cuda) settings=(-DGPTRAIN_CUDA=AUTO -DGPTRAIN_CUDA_ARCHITECTURES="$architecture"
            -DGPTRAIN_BUILD_ONCE=OFF) ;;
        asan) settings=(-DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-Og -DNDEBUG") ;;
    esac
    cmake --preset "${1/quick/cpu}" "${settings[@]}" || return
    cmake --build --preset "$1"
}

# Steps that lack clang-tidy 14, the CUDA backend or a disassembler report that they did not run.
tidy() { scripts/check_tidy.sh || (($? == 77)); }
machine_code() { scripts/check_sass.sh --build build/cuda || (($? == 77)); }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests() {
    local filter=()
    [[ $1 != cuda ]] || filter=(-LE once)
    ctest --preset "$1" "${filter[@]}" "${options[@]}" | tee -a "$log"
}

# Name and seconds of every test, the longest first.
longest_tests() {
    sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: +([^ ]+) .* ([0-9]+)\.[0-9]+ sec.*/\2 \1/p' "$log" |
        sort -rn | awk 'NR <= 15 { printf "%4d s  %s\n", $1, $2 }'
}

timed "install" install
failed=()
[[ ${presets[0]} == quick ]] || timed "clang-tidy" tidy || failed+=("clang-tidy")
for preset in "${presets[@]}"; do
    echo "=== Building: preset $preset ==="
    timed "build $preset" build "$preset"
    [[ $preset != cuda ]] || timed "machine code" machine_code || failed+=("machine code")
    echo "=== Testing: preset $preset ==="
    timed "test $preset" tests "$preset" || failed+=("tests of preset $preset")
done
echo "=== Time ==="
printf '%s\n' "${times[@]}"
echo "The longest tests:"
longest_tests
if ((${#failed[@]})); then
    printf 'Failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
