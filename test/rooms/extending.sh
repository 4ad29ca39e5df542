#!/usr/bin/env bash
# Usage: extending.sh COMPILER INCLUDE-FOLDER... The worked changes of docs/extending.md apply, one
# after the other, to a copy of the sources, and the sources and headers that they change compile,
# together with the backends, which must have every op. Kernels compile as for the emulator.
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
compiler=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cd "$root"
git ls-files -z --cached --others --exclude-standard -- lib app cuda test docs | while read -rd '' file; do
    if [[ -e $file ]]; then printf '%s\0' "$file"; fi
done | tar --null -T - -c | tar -x -C "$folder"
cd "$folder"
git init -q .
git add .
awk '/^```/ { inside = $0 == "```diff"; next } inside' docs/extending.md | git apply -
git add -N .

flags=(-std=c++20 -fsyntax-only -x c++ -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wno-sign-conversion -Werror -Wno-restrict -Wno-psabi -fopenmp -mavx2 -mfma -mf16c
    '-DGPTRAIN_TEST_DATA=""')
for include in "$@"; do flags+=(-idirafter "$include"); done

# compile SOURCE...: those of a folder as one, as the build compiles them (scripts/cmake/Unity.cmake),
# without precompiled headers.
compile() {
    local own=(-I "$folder/lib" -I "$folder/test") source
    case $1 in
        cuda/*) own=(-I "$folder/test/emulator" "${own[@]}" -I "$folder") ;;
        app/*) own+=(-I "$folder") ;;
        test/*) own+=(-I "$(dirname "$1")" -I "$folder/test/model" -I "$folder/test/comm" -I "$folder") ;;
    esac
    # A header that is compiled itself brings a warning about its `#pragma once`.
    for source in "$@"; do echo "#include \"$folder/$source\""; done |
        "$compiler" "${flags[@]}" "${own[@]}" - || printf '%s\n' "$@" >>failed
}

# sources: what the changes touch, and the backends.
sources() {
    git diff --name-only | grep -E '\.(h|cpp|cu)$' | while read -r file; do
        [[ $file != *.h || ! -e ${file%.h}.cpp ]] || file=${file%.h}.cpp
        [[ $file != *.h || ! -e ${file%.h}.cu ]] || file=${file%.h}.cu
        echo "$file"
    done
    echo lib/cpu/cpu_backend.cpp
    echo cuda/cuda_backend.cpp
}

mapfile -t all < <(sources | sort -u)
declare -A together
for source in "${all[@]}"; do
    [[ $source == *.cu ]] && part=$source || part=$(dirname "$source")
    together[$part]+=" $source"
done
for part in "${!together[@]}"; do
    while (($(jobs -rp | wc -l) >= 2)); do wait -n || true; done
    compile ${together[$part]} &
done
wait
if [[ -s failed ]]; then
    echo "FAILED: after the changes of docs/extending.md these do not compile:" $(sort failed)
    exit 1
fi
echo "${#all[@]} files compile after the changes of docs/extending.md."
