#!/usr/bin/env bash
# Checks lib, app and data_tools with clang-tidy 14, as .clang-tidy lists. Exit code 0: nothing found;
# 1: something; 77: no clang-tidy 14 here, so the check did not run.
#
# clang-tidy spends its time on the headers of libraries, so the sources of a room are checked as
# one. Left out are the kernels of lib/cpu, which have separate compiler flags and cannot be joined.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source scripts/llvm.sh
checker=$(llvm_tool clang-tidy) || {
    echo "Tidy: not run (needs clang-tidy 14: apt-get install clang-tidy-14 libomp-14-dev)"
    exit 77
}

# Only configured: this joins the sources of each room and lists the options to compile them with.
cmake --preset tidy >/dev/null
# The last rooms are the largest and go first, so that no core is idle at the end.
mapfile -t sources < <(sed -n 's/^ *"file": "\(.*\)"$/\1/p' build/tidy/compile_commands.json |
    grep -vF "$PWD/lib/cpu/" | tac)
if ((${#sources[@]} == 0)); then
    echo "error: build/tidy/compile_commands.json names no sources" >&2
    exit 1
fi

printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" \
    "$checker" -p build/tidy --quiet --extra-arg=-Wno-everything --extra-arg=-Wunsequenced 2>/dev/null ||
    {
        echo "Tidy: faults, see above. A name that is declared twice: rename one of the two, or list" \
            "the source in scripts/cmake/Unity.cmake." >&2
        exit 1
    }
echo "Tidy: ${#sources[@]} sources in order."
