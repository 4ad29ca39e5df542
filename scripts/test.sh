#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
#
#   scripts/test.sh [--quick] [CTEST-OPTIONS...]
#
# Where the CUDA toolkit is found the CUDA backend is built too, for one GPU architecture, with all
# tests; those that need a GPU say where there is none that they did not run.
#
#   --quick   leave out the tests under the address and undefined-behaviour sanitizers
#   Other options go to ctest, for instance: scripts/test.sh --quick -R tokenizer
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# H100 and H200.
architecture=90a-real

presets=(cpu asan cuda)
options=()
for argument in "$@"; do
    case $argument in
        -h | --help)
            sed -n '2,/^set/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --quick) presets=(cpu cuda) ;;
        *) options+=("$argument") ;;
    esac
done

# A choice of tests may leave nothing to run in one of the presets; all of them may not.
((${#options[@]})) || options=(--no-tests=error)

scripts/install_dependencies.sh
# One test runs jobs in a Slurm of its own, as root; without these it says that it did not run.
((EUID != 0)) || scripts/install_dependencies.sh slurm-wlm munge iproute2 || true
failed=()
for preset in "${presets[@]}"; do
    echo "=== Building: preset $preset ==="
    settings=()
    [[ $preset != cuda ]] ||
        settings=(-DGPTRAIN_CUDA=AUTO -DGPTRAIN_CUDA_ARCHITECTURES="$architecture")
    cmake --preset "$preset" "${settings[@]}" | tee configure.log
    not_built=$(grep 'CUDA backend: not built' configure.log || true)
    rm configure.log
    if [[ $preset == cuda && -n $not_built ]]; then
        echo "$not_built"
        continue
    fi
    cmake --build --preset "$preset"
    echo "=== Testing: preset $preset ==="
    ctest --preset "$preset" "${options[@]}" || failed+=("$preset")
done
if ((${#failed[@]})); then
    echo "Tests failed: preset ${failed[*]}" >&2
    exit 1
fi
