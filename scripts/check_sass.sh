#!/usr/bin/env bash
# Checks the machine code of the kernels for sm_90a: no local memory, no spills, no HGMMA chain that
# is broken, registers handed over, and the figures of docs/kernels.md, which explains them. Prints
# what differs.
#
#   scripts/check_sass.sh [--build DIR] [--toolkits] [--update]
#
#   --build DIR   reads the objects of a CUDA build in DIR, which takes seconds, in place of compiling
#                 every kernel. Threads, shared memory and warps are not in the objects, so they are
#                 not compared, and registers may differ by 2: the note on shared memory that the
#                 other way puts into the code moves one now and then
#   --toolkits    also assembles every kernel for each architecture of a default build with the ptxas of the
#                 oldest toolkit and of the newest
#   --update      writes the table of docs/kernels.md in place of comparing with it
#   NVCC=FILE     the compiler, if not the nvcc on the PATH or in /usr/local/cuda
#
# Exit code 0: all in order; 1: something differs or breaks a rule; 77: not run, because nvcc or
# NVIDIA's disassembler (from PyPI, kept in .cache/sass) cannot be had.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check="Machine code"
source scripts/sass/tools.sh

# The ptxas of the oldest and the newest toolkit, with the PTX each may read.
oldest=12.8.93
oldest_ptx=8.7
newest=13.5.37
page=docs/kernels.md

build=
toolkits=
update=
take_options build toolkits\? update\? -- "$@"
if [[ $build && ($update || $toolkits) ]]; then
    echo "error: --update and --toolkits compile the kernels, --build does not: leave one out" >&2
    exit 2
fi

# ---- what to read -------------------------------------------------------------------------------

if [[ $build ]]; then
    nvcc=$(sed -n 's/^set(CMAKE_CUDA_COMPILER "\(.*\)")$/\1/p' \
        "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake 2>/dev/null | head -n 1 || true)
    [[ $nvcc ]] || not_run "$build has no CUDA backend"
else
    nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
fi
version=$(version_of "$nvcc") || not_run "needs nvcc"
find_disassembler

work=build/sass
rm -rf "$work"
mkdir -p "$work/include/cuda/device"
mapfile -t kernels < <(find cuda -name '*.cu' | sort)

# Kernels call shared_memory<T>(). This copy of its header also writes the size of T into the PTX.
header=cuda/device/indices.cuh
sed 's|^ *extern __shared__ .*|asm volatile("// shared_memory %0" ::"n"(sizeof(T)));\n&|' \
    "$header" >"$work/include/$header"
if cmp -s "$header" "$work/include/$header"; then
    echo "error: $header: no 'extern __shared__' found; adapt scripts/check_sass.sh" >&2
    exit 1
fi

# to_ptx ARCHITECTURE FILE: prints where it wrote the PTX. The options are those of cuda/CMakeLists.txt.
to_ptx() {
    local to=$work/$1/${2%.cu}.ptx
    mkdir -p "$(dirname "$to")"
    "$nvcc" -std=c++20 -O3 -DNDEBUG -I"$work/include" -I. -Ilib --expt-relaxed-constexpr -fmad=false \
        -arch="$1" -ptx -o "$to" "$2"
    echo "$to"
}

# assemble PTXAS ARCHITECTURE PTX TO
assemble() {
    scripts/cmake/check_ptxas.sh "$1" -arch="$2" -warn-spills -Werror -o "$4" "$3"
}

# From PTX: threads of a block, size of its struct in shared memory.
ptx_facts() {
    awk '/^(\.visible |\.weak )*\.entry / { name = $NF; sub(/\(.*/, "", name); names[++n] = name }
        /^\.maxntid / { gsub(/,/, " "); threads[name] = $2 * ($3 ? $3 : 1) * ($4 ? $4 : 1) }
        $2 == "shared_memory" && $3 > shared[name] { shared[name] = $3 }
        END { for (i = 1; i <= n; ++i)
            printf "P\t%s\t%d\t%d\n", names[i], threads[names[i]], shared[names[i]] }' "$1"
}

# From code: registers, static shared memory without the 1 KiB of the driver, local memory.
resources() {
    cuobjdump -arch sm_90a -res-usage "$1" 2>&1 | awk '
        /^ *Function / { name = $2; sub(/:$/, "", name) }
        /REG:/ {
            split($0, part, /[: ]+/)
            for (i in part) value[part[i]] = part[i + 1]
            shared = value["SHARED"] > 1024 ? value["SHARED"] - 1024 : 0
            printf "R\t%s\t%d\t%d\t%d\n", name, value["REG"], shared,
                value["STACK"] + value["LOCAL"]
        }'
}

# measure FILE: writes the output of join.awk for all kernels of the file to a separate file.
measure() {
    local code ptx=
    if [[ $build ]]; then
        code=$(find "$build/cuda/CMakeFiles" -path "*.dir/${1#cuda/}.o")
        [[ $code ]] || { echo "error: $build has no object of $1" >&2 && return 1; }
    else
        ptx=$(to_ptx sm_90a "$1") || return 1
        code=${ptx%.ptx}.cubin
        assemble "$(dirname "$nvcc")/ptxas" sm_90a "$ptx" "$code" || return 1
    fi
    {
        [[ -z $ptx ]] || ptx_facts "$ptx"
        resources "$code"
        cuobjdump -arch sm_90a -sass "$code" | awk -f scripts/sass/measure.awk -f scripts/sass/path.awk | sed 's/^/S\t/'
    } | awk -v file="${1#cuda/}" -v ptx="${ptx:+1}" -f scripts/sass/join.awk >"$work/${1//\//.}.kernels"
}

# assemble_everywhere ARCHITECTURE FILE: with the oldest ptxas and the newest.
assemble_everywhere() {
    local ptx=$work/$1/${2%.cu}.ptx
    [[ -e $ptx ]] || to_ptx "$1" "$2" >/dev/null || return 1
    assemble ".cache/sass/nvidia-cuda-nvcc-$newest/nvidia/cu13/bin/ptxas" "$1" "$ptx" "$ptx.newest" ||
        return 1
    # Only the newer version in the first line keeps the older ptxas from reading it.
    sed "s/^\.version .*/.version $oldest_ptx/" "$ptx" >"$ptx.old"
    assemble ".cache/sass/nvidia-cuda-nvcc-cu12-$oldest/nvidia/cuda_nvcc/bin/ptxas" "$1" "$ptx.old" \
        "$ptx.oldest"
}

export -f to_ptx assemble ptx_facts resources measure assemble_everywhere
export nvcc build work oldest oldest_ptx newest

# each COMMAND: runs `COMMAND FILE` for every file, as many at a time as there are cores.
each() {
    printf '%s\0' "${kernels[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c "set -euo pipefail; $1 \"\$0\""
}

each measure || {
    echo "Machine code: a kernel does not compile or spills, see above" >&2
    exit 1
}

# ---- names that can be read ---------------------------------------------------------------------

cat "$work"/*.kernels | readable_names | sort >"$work/kernels"
count=$(wc -l <"$work/kernels")
((count)) || not_run "no code for sm_90a in $build"

# ---- rules --------------------------------------------------------------------------------------

code=0
awk -F'\t' '$11 != "" { print $1 " " $2 ": " $11; bad = 1 } END { exit bad }' "$work/kernels" || {
    echo "Machine code: kernels break a rule (docs/kernels.md#rules)" >&2
    code=1
}

# ---- figures ------------------------------------------------------------------------------------

pinned=$(sed -n 's/^nvcc V\([0-9.]*\) .*/\1/p' "$page")
if [[ $update ]]; then
    awk -f scripts/sass/table.awk "$work/kernels" >"$work/rows"
    sed -i -e "s/^nvcc V[0-9.]* /nvcc V$version /" -e '/^| [^|]*\.cu |/d' \
        -e "/^| file |/{n;r $work/rows
}" "$page"
    echo "Machine code: wrote $(wc -l <"$work/rows") rows to $page"
elif [[ $version != "$pinned" ]]; then
    echo "Machine code: only the rules were checked; the table is for nvcc $pinned, this is $version"
else
    awk -v drift="${build:+2}" -f scripts/sass/compare.awk "$page" "$work/kernels" || {
        echo "Machine code: figures changed; if they should, run scripts/check_sass.sh --update" >&2
        code=1
    }
fi

# ---- other toolkits -----------------------------------------------------------------------------

if [[ $toolkits ]]; then
    wheel nvidia-cuda-nvcc "$newest"
    wheel nvidia-cuda-nvcc-cu12 "$oldest"
    each 'assemble_everywhere sm_90a' || code=1
    mapfile -t kernels < <(printf '%s\n' "${kernels[@]}" | grep -v /sm90/)
    for architecture in sm_80 sm_89 sm_100 sm_120; do
        each "assemble_everywhere $architecture" || code=1
    done
    ((code)) || echo "Machine code: assembles with ptxas $oldest and $newest, for sm_80, sm_89, sm_90a, sm_100 and sm_120"
fi
((code)) || echo "Machine code: $count kernels in order."
exit $code
