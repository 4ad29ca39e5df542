#!/usr/bin/env bash
# Plants faults in the code, one at a time, and prints those that no test notices. A copy of the
# sources is changed, never the sources themselves. scripts/mutations.txt lists the faults, each with
# the tests that should notice it.
#
#   scripts/mutate.sh [--room ROOM] [--only N[,N...]] [--cuda] [--list] [--check]
#
#   --room ROOM   only faults in lib/ROOM
#   --only N,...  only the faults with these numbers
#   --cuda        the copy has the CUDA backend, for faults whose tests need its toolkit
#   --list        prints the faults and does nothing else
#   --check       only checks that each fault still fits the code: its text occurs exactly once
#   SCRATCH=...   the folder for the copy and its build instead of ${TMPDIR:-/tmp}/gptrain-mutate;
#                 it stays, so that the next run builds little
#
# Exit code 0: all were noticed (or fit, or are listed); 1: one lives, does not build or does not fit,
# or a named test fails without it; 2: usage.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
mutations=$root/scripts/mutations.txt

room='' only='' cuda='' list='' check=''
take_options room only cuda\? list\? check\? -- "$@"

# The faults: parallel arrays, from 1 up.
files=('') finds=('') replacements=('') tests=('')
read_list() {
    local line
    while IFS= read -r line; do
        case $line in
            'file: '*) files+=("${line#file: }") ;;
            'find: '*) finds+=("${line#find: }") ;;
            'with: '* | 'with:') line=${line#with:} && replacements+=("${line# }") ;;
            'test: '*) tests+=("${line#test: }") ;;
            '' | '#'*) ;;
            *)
                echo "error: $mutations: not a line of a fault: $line" >&2
                exit 1
                ;;
        esac
    done <"$mutations"
    local count=${#files[@]}
    if ((count < 2 || ${#finds[@]} != count || ${#replacements[@]} != count || ${#tests[@]} != count)); then
        echo "error: $mutations: a fault has not its four lines (file, find, with, test)" >&2
        exit 1
    fi
}

chosen() {
    local i
    for ((i = 1; i < ${#files[@]}; ++i)); do
        [[ -z $room || ${files[i]} == lib/$room/* ]] || continue
        [[ -z $only || ,$only, == *,$i,* ]] || continue
        echo "$i"
    done
}

fault() { echo "${files[$1]}: ${finds[$1]} -> ${replacements[$1]:-(nothing)}"; }
describe() { echo "$1 $(fault "$1")"; }

listed_twice() {
    local i
    for ((i = 1; i < ${#files[@]}; ++i)); do fault "$i"; done | sort | uniq -d
}

# fits N: its text occurs exactly once in its file, and changes.
fits() {
    local path=$root/${files[$1]} find=${finds[$1]} found
    [[ -f $path && $find != "${replacements[$1]}" ]] || return 1
    found=$(grep -oF -e "$find" "$path") && [[ $found == "$find" ]]
}

# target_of TEST: the targets that have to be built for it, if any.
target_of() {
    case $1 in
        program_*) printf '%s\n' gptrain gpt-preprocess ;;
        preprocess_*) echo gpt-preprocess ;;
        emulator.ops_hopper) echo test_emulator_ops ;;
        emulator.*) echo "test_emulator_${1#emulator.}" ;;
        sass_rules) ;;
        context_*_ranks | data_*_ranks) echo "test_${1%_*_ranks}_ranks" ;;
        *_ranks) echo "test_${1%_*_ranks}" ;;
        *) echo "test_$1" ;;
    esac
}

# Makes the copy equal to the sources. Writes only what differs, so that little is rebuilt, and
# repairs what a killed run left behind.
copy_sources() {
    local path
    mkdir -p "$scratch"
    (cd "$root" && git ls-files -z --cached --others --exclude-standard) >"$scratch.files"
    while IFS= read -r -d '' path; do
        [[ -f $root/$path ]] || continue
        cmp -s "$root/$path" "$scratch/$path" && continue
        mkdir -p "$(dirname "$scratch/$path")"
        cp --preserve=mode "$root/$path" "$scratch/$path"
    done <"$scratch.files"
    (cd "$scratch" && find . -path ./build -prune -o -type f -printf '%P\0') |
        { grep -zvxFf <(tr '\0' '\n' <"$scratch.files") || true; } |
        (cd "$scratch" && xargs -0r rm -f --)
}

# build TEST...: all that these tests run.
build() {
    local targets test
    mapfile -t targets < <(for test; do target_of "$test"; done)
    ((${#targets[@]})) || return 0
    cmake --build "$scratch/build/cpu" --target "${targets[@]}" >"$scratch.log" 2>&1
}

# passes TEST: it ran and found no fault.
passes() {
    timeout 900 ctest --test-dir "$scratch/build/cpu" -R "^${1//./\\.}\$" --no-tests=error \
        >"$scratch.log" 2>&1 && ! grep -q 'Skipped' "$scratch.log"
}

passes_all() {
    local test
    for test; do passes "$test" || return 1; done
}

# plant N: prints what came of it; false unless a test noticed.
plant() {
    local path=$scratch/${files[$1]} code verdict=LIVES
    code=$(<"$path")
    printf '%s\n' "${code%%"${finds[$1]}"*}${replacements[$1]}${code#*"${finds[$1]}"}" >"$path"
    # shellcheck disable=SC2086
    if ! build ${tests[$1]}; then
        verdict="DOES NOT BUILD ($scratch.log)"
    elif ! passes_all ${tests[$1]}; then
        verdict=noticed
    fi
    cp "$root/${files[$1]}" "$path"
    echo "$verdict: $(describe "$1")"
    [[ $verdict == noticed ]]
}

read_list
twice=$(listed_twice)
if [[ $twice ]]; then
    echo "error: $mutations: listed twice: $twice" >&2
    exit 1
fi
mapfile -t numbers < <(chosen)
if ((${#numbers[@]} == 0)); then
    echo "error: no such fault (--list prints them)" >&2
    exit 2
fi
if [[ -n $list ]]; then
    for i in "${numbers[@]}"; do describe "$i"; done
    exit 0
fi
failed=0
for i in "${numbers[@]}"; do
    fits "$i" && continue
    echo "error: $mutations: does not fit the code exactly once: $(describe "$i")" >&2
    failed=1
done
if [[ -n $check ]] || ((failed)); then
    ((failed)) || echo "${#numbers[@]} faults fit the code"
    exit $failed
fi

scratch=${SCRATCH:-${TMPDIR:-/tmp}/gptrain-mutate}
mkdir -p "$scratch"
exec 9>"$scratch.lock"
if ! flock -n 9; then
    echo "error: $scratch: another run is under way there; set SCRATCH" >&2
    exit 2
fi
copy_sources
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$scratch
fi
(cd "$scratch" && cmake --preset cpu -DGPTRAIN_UNITY=OFF ${cuda:+-DGPTRAIN_CUDA=ON}) >"$scratch.log" 2>&1 || { cat "$scratch.log" >&2 && exit 1; }
# A test that fails without a fault detects nothing.
mapfile -t needed < <(for i in "${numbers[@]}"; do tr ' ' '\n' <<<"${tests[i]}"; done | sort -u)
build "${needed[@]}" || { tail -n 20 "$scratch.log" >&2 && exit 1; }
for test in "${needed[@]}"; do
    if ! passes "$test"; then
        echo "error: $test does not pass without a fault ($scratch.log)" >&2
        exit 1
    fi
done
for i in "${numbers[@]}"; do
    plant "$i" || failed=1
done
exit $failed
