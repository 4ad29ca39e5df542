#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
#
#   scripts/test.sh [--quick] [CTEST-OPTIONS...]
#
#   --quick   leave out the tests under the address and undefined-behaviour sanitizers
#   Other options go to ctest, for instance: scripts/test.sh --quick -R tokenizer
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(cpu asan)
options=()
for argument in "$@"; do
    case $argument in
        -h | --help)
            sed -n '2,/^set/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --quick) presets=(cpu) ;;
        *) options+=("$argument") ;;
    esac
done

# A choice of tests may leave nothing to run in one of the presets; all of them may not.
((${#options[@]})) || options=(--no-tests=error)

scripts/install_dependencies.sh
failed=()
for preset in "${presets[@]}"; do
    echo "=== Building: preset $preset ==="
    cmake --preset "$preset"
    cmake --build --preset "$preset"
    echo "=== Testing: preset $preset ==="
    ctest --preset "$preset" "${options[@]}" || failed+=("$preset")
done
if ((${#failed[@]})); then
    echo "Tests failed: preset ${failed[*]}" >&2
    exit 1
fi
