#!/usr/bin/env bash
# Checks that every C++ source is as clang-format 14 lays it out. Exit code 0: it is; 1: not; 77: no
# clang-format 14 here, so the check did not run.
#
#   scripts/check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source scripts/llvm.sh
formatter=$(llvm_tool clang-format) || {
    echo "Format: not run (needs clang-format 14: apt-get install clang-format-14)"
    exit 77
}

mapfile -d '' sources < <(git ls-files -z --cached --others --exclude-standard -- \
    '*.h' '*.cpp' '*.cuh' '*.cu')
if ((${#sources[@]} == 0)); then
    echo "error: git knows no sources here; run this in a clone" >&2
    exit 1
fi
if [[ ${1:-} == --fix ]]; then
    "$formatter" -i "${sources[@]}"
else
    "$formatter" --dry-run -Werror "${sources[@]}"
fi
echo "Format: ${#sources[@]} files in order."
