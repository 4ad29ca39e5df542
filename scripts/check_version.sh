#!/usr/bin/env bash
# Checks that the same version is everywhere: in CMakeLists.txt, at the top of CHANGELOG.md, in
# CITATION.cff (with the changelog's date), and in the tag vX.Y.Z of this commit where it has one.
# The date must not lie in the future: man pages carry it, and their checker warns of such a date.
# Also checks that README.md, Spack's recipe and the code ask for the same CUDA and NCCL.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^project(gptrain VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
if [[ -z $version ]]; then
    echo "error: CMakeLists.txt: no line 'project(gptrain VERSION ...)'" >&2
    exit 1
fi

failed=0
# expect FILE WHAT FOUND: the file has what belongs to this version.
expect() {
    [[ $2 != "$3" ]] || return 0
    echo "error: $1: '$3' instead of '$2', the version of CMakeLists.txt" >&2
    failed=1
}

heading=$(grep -m 1 '^## [0-9]' CHANGELOG.md)
date=${heading##* }
expect CHANGELOG.md "## $version, $date" "$heading"
expect CITATION.cff "version: $version" "$(grep '^version:' CITATION.cff)"
expect CITATION.cff "date-released: $date" "$(grep '^date-released:' CITATION.cff)"
if [[ $date > $(date -u +%F) ]]; then
    echo "error: CHANGELOG.md: $date lies in the future; write a date no later than today" >&2
    failed=1
fi
for tag in $(git tag --points-at HEAD 'v[0-9]*'); do
    expect "the tag of this commit" "v$version" "$tag"
done

# oldest FILE PATTERN: the version in the line that matches.
oldest() { sed -n "s/.*$2.*/\1/p" "$1"; }
# expect_oldest FILE WHAT FOUND README: both are the same version.
expect_oldest() {
    [[ -z $3 || $3 != "$4" ]] || return 0
    echo "error: $1: '$3' is the oldest $2, but '$4' in README.md" >&2
    failed=1
}
cuda=$(oldest README.md 'a CUDA toolkit (\([0-9.]*\) or newer')
nccl=$(oldest README.md 'NCCL \([0-9.]*\) or newer')
recipe=scripts/spack/packages/gptrain/package.py
expect_oldest $recipe CUDA "$(oldest $recipe '"cuda@\(.*\):"')" "$cuda"
expect_oldest $recipe NCCL "$(oldest $recipe '"nccl@\(.*\):"')" "$nccl"
file=scripts/cmake/Cuda.cmake
expect_oldest $file CUDA "$(oldest $file 'set(oldest_nvcc \(.*\))')" "$cuda"
file=cuda/runtime/libraries.cpp
expect_oldest $file NCCL "$(oldest $file ' oldest = NCCL_VERSION(\(.*\), 0)' | sed 's/, /./')" "$nccl"
((failed)) || echo "Version: $version everywhere; CUDA $cuda and NCCL $nccl or newer."
exit $failed
