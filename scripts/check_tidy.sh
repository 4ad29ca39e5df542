#!/usr/bin/env bash
# Checks lib, app and data_tools with clang-tidy 14, as .clang-tidy lists. Exit code 0: nothing found;
# 1: something; 77: no clang-tidy 14 here, so the check did not run.
#
# clang-tidy spends its time on the headers of libraries, so the sources of a room are checked as
# one, and so are rooms that repeat no local name of each other. Left out are the kernels of lib/cpu,
# which have separate compiler flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Rooms of a line are checked together, in the order of the data flow; a room that is in no line is
# checked alone. If names clash in a line, its rooms are checked one by one, which takes longer.
groups="parquet interop
model metrics
spec train
tensor meter codec data engine
backend comm hardware optim stored watch
text tasks schedule calibrate answers help"

source scripts/llvm.sh
checker=$(llvm_tool clang-tidy) || {
    echo "Tidy: not run (needs clang-tidy 14: apt-get install clang-tidy-14 libomp-14-dev)"
    exit 77
}
export checker

# Only configured: this joins the sources of each room and lists the options to compile them with.
cmake --preset tidy >/dev/null
mapfile -t sources < <(sed -n 's/^ *"file": "\(.*\)"$/\1/p' build/tidy/compile_commands.json |
    grep -vF -e "$PWD/lib/cpu/" -e gptrain_cpu_vectorised | tac)
if ((${#sources[@]} == 0)); then
    echo "error: build/tidy/compile_commands.json names no sources" >&2
    exit 1
fi

# Sources that include those of the rooms of a line. They lie beside that of app/, whose options
# clang-tidy takes for a file without its own: app/ sees every library.
beside=build/tidy/app/CMakeFiles/gptrain.dir/Unity
rm -f "$beside"/rooms_*.cxx
joined=()
while read -r line; do
    file=$beside/rooms_${line// /_}.cxx
    for room in $line; do
        source=$PWD/build/tidy/lib/$room/CMakeFiles/gptrain_$room.dir/Unity/unity_0_cxx.cxx
        [[ -e $source ]] || {
            echo "error: $0 names a room '$room', which has no $source" >&2
            exit 1
        }
        echo "#include \"$source\"" >>"$file"
        for i in "${!sources[@]}"; do [[ ${sources[i]} != "$source" ]] || unset "sources[i]"; done
    done
    joined+=("$PWD/$file")
done <<<"$groups"

tidy() {
    "$checker" -p build/tidy --quiet --extra-arg=-Wno-everything --extra-arg=-Wunsequenced "$1" 2>/dev/null
}
check() {
    local output source failed=0
    case $1 in
        */rooms_*)
            ! output=$(tidy "$1") || return 0
            while read -r source; do tidy "$source" || failed=1; done < <(cut -d '"' -f 2 "$1")
            ((failed)) || printf 'Tidy: clashes, so these rooms were checked one by one:\n%s\n' "$output"
            return $failed
            ;;
        *) tidy "$1" ;;
    esac
}
export -f tidy check

# The largest go first, so that no core is idle at the end.
printf '%s\0' "${joined[@]}" "${sources[@]}" |
    xargs -0 -n 1 -P "$(nproc)" bash -c 'check "$1"' check || {
    echo "Tidy: faults, see above. A name that is declared twice: rename one of the two, or list" \
        "the source in scripts/cmake/Unity.cmake." >&2
    exit 1
}
echo "Tidy: $((${#joined[@]} + ${#sources[@]})) sources in order."
