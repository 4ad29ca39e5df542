#!/usr/bin/env bash
# Compares the table of docs/kernel-times.md that lists what the hot kernels cost by their machine
# code. Prints what differs. The page's other tables, what the emulator counts and the times that
# follow, are compared by the tests emulator.kernel_counts and kernel_times.
#
#   scripts/kernel_times.sh [--build DIR] [--update]
#
#   --build DIR   reads the objects of a CUDA build in DIR for sm_90a, in place of compiling the
#                 kernels
#   --update      writes all tables of the page
#   NVCC=FILE     the compiler, if not the nvcc on the PATH or in /usr/local/cuda
#   BUILD=DIR     the build with the programs that count and price, for --update; default build/cpu
#
# Exit code 0: all as the page has it; 1: something differs; 77: not run, because nvcc or NVIDIA's
# disassembler cannot be had.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check="Kernel times"
source scripts/sass/tools.sh
programs=${BUILD:-build/cpu}/test
page=docs/kernel-times.md
# Kernels for every GPU; those that have no others; and those that memory limits, whose code for
# sm_90a stands for all.
portable=(attention/forward attention/backward_keys attention/backward_queries)
hopper=(attention/sm90/forward attention/sm90/backward)
traffic=(attention/delta norm/backward norm/forward norm/head_norm norm/residual_add ops/activation
    ops/cross_entropy ops/embedding ops/fp8 ops/linear ops/linear_bias ops/optimizer ops/rope
    ops/row_sums)

build=
update=
take_options build update\? -- "$@"

nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
version=$(version_of "$nvcc") || not_run "needs nvcc"
find_disassembler
pinned=$(sed -n 's/^nvcc V\([0-9.]*\) .*/\1/p' docs/kernels.md)
if [[ $version != "$pinned" ]]; then
    not_run "the table is for nvcc $pinned, this is $version"
fi
work=build/kernel_times
rm -rf "$work"
mkdir -p "$work"

# measured ARCHITECTURE FILE CODE WORDS OPTION...: its kernels, one line each: architecture, file, name
# followed by WORDS, costs. OPTIONs go to awk.
measured() {
    cuobjdump -arch "$1" -sass "$3" |
        awk "${@:5}" -f scripts/sass/measure.awk -f scripts/sass/path.awk | readable_names |
        awk -F'\t' -v of="$1\t$2.cu" -v words="$4" \
            '{ print of "\t" $1 words "\t" $9 "\t" $10 "\t" $11 "\t" $12 "\t" $13 "\t" $14 }'
}

# costs ARCHITECTURE FILE: compiles it as cuda/CMakeLists.txt does, and measures it. Besides
# its hottest loop, cross-entropy has one that only reads.
costs() {
    local code=$work/$1.${2//\//.}.cubin
    if [[ $build && $1 == sm_90a ]]; then
        code=$(find "$build/cuda/CMakeFiles" -path "*.dir/$2.cu.o")
        [[ $code ]] || { echo "error: $build has no object of $2.cu" >&2 && return 1; }
    else
        "$nvcc" -std=c++20 -O3 -DNDEBUG -I. -Ilib --expt-relaxed-constexpr -fmad=false -arch="$1" \
            -cubin -o "$code" "cuda/$2.cu" || return 1
    fi
    {
        measured "$1" "$2" "$code" ""
        [[ $2 != ops/cross_entropy ]] || measured "$1" "$2" "$code" ", reading" -v lacking=STG
    } >"$work/$1.${2//\//.}.costs"
}
export -f costs measured readable_names
export nvcc work build

{
    printf 'sm_80 %s\n' "${portable[@]}"
    printf 'sm_90a %s\n' "${portable[@]}" "${hopper[@]}" "${traffic[@]}"
    printf 'sm_100 %s\n' "${portable[@]}"
} | xargs -n 2 -P "$(nproc)" bash -c 'set -euo pipefail; costs "$0" "$1"'

cat "$work"/*.costs | awk -f scripts/sass/cost_rows.awk | LC_ALL=C sort >"$work/rows"
code=0
if [[ $update ]]; then
    sed -i -e '/^| sm_[0-9a]* | [^|]*\.cu |/d' -e "/^| architecture |/{n;r $work/rows
}" "$page"
elif ! diff <(grep '^| sm_[0-9a]* | [^|]*\.cu |' "$page") "$work/rows" >"$work/difference"; then
    grep '^[<>]' "$work/difference"
    echo "$check: the machine code has changed; run scripts/kernel_times.sh --update" >&2
    code=1
fi
if [[ $update ]]; then
    for program in emulator/test_emulator_kernel_counts kernel_times/kernel_times; do
        [[ -x $programs/$program ]] || { echo "error: $programs/$program is not built" >&2 && exit 2; }
        "$programs/$program" --update
    done
fi
((code)) || echo "$check: as $page has them."
exit $code
