#!/usr/bin/env bash
# Builds the fuzz targets of test/fuzz with clang's libFuzzer and the sanitizers, and runs each.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]    each target (default: all) for SECONDS (default: 60)
#   scripts/fuzz.sh --merge [TARGET...]      add to test/fuzz/corpus what reaches new code
#
# The inputs found lie in build/fuzz/corpus/TARGET, from which the next run starts. An input that
# fails is left in build/fuzz/failures/; exit code 1 then. The test suite replays test/fuzz/corpus
# without clang; once its fault is fixed, an input that failed belongs there, under a descriptive
# name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

merge=
seconds=60
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    exit 0
elif [[ ${1:-} == --merge ]]; then
    merge=1
    shift
elif [[ ${1:-} =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi
mapfile -t targets < <(sed -n 's/^gptrain_fuzz_target(\([a-z]*\).*/\1/p' test/fuzz/CMakeLists.txt)
known=" ${targets[*]} "
(($# == 0)) || targets=("$@")
for target in "${targets[@]}"; do
    if [[ $known != *" $target "* ]]; then
        echo "error: no fuzz target '$target'; there are:$known" >&2
        exit 2
    fi
done

scripts/install_dependencies.sh clang libclang-rt-dev libomp-dev
cmake --preset fuzz
cmake --build --preset fuzz

build=build/fuzz
mkdir -p $build/failures
# Targets that read files write them first.
[[ ! -w /dev/shm ]] || export TMPDIR=/dev/shm

# run TARGET OPTION...: the target with the options that every use has; it writes to its log.
run() {
    local target=$1 dictionary=()
    shift
    [[ ! -f test/fuzz/$target.dict ]] || dictionary=(-dict=test/fuzz/"$target".dict)
    nice $build/test/fuzz/fuzz_"$target" "${dictionary[@]}" -max_len=4096 -timeout=10 \
        -rss_limit_mb=2048 -artifact_prefix=$build/failures/"$target"- "$@" 2>$build/"$target".log
}

failed=
for target in "${targets[@]}"; do
    found=$build/corpus/$target
    kept=test/fuzz/corpus/$target
    mkdir -p "$found"
    if [[ -n $merge ]]; then
        mkdir -p "$kept"
        run "$target" -max_len=1024 -use_counters=0 -set_cover_merge=1 -merge=1 "$kept" "$found"
        echo "$target: $(ls "$kept" | wc -l) inputs kept"
        continue
    fi
    folders=("$found")
    for folder in "$kept" test/corpus/"$target"; do
        [[ ! -d $folder ]] || folders+=("$folder")
    done
    log=$build/$target.log
    result=ok
    if ! run "$target" -max_total_time="$seconds" -print_final_stats=1 "${folders[@]}"; then
        failed=1
        result="FAILED, see $log; the input: $(sed -n 's/.*Test unit written to //p' "$log")"
    fi
    figure() { sed -n "s/^stat::$1: *//p" "$log"; }
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    echo "$target: $(figure number_of_executed_units) runs, $(figure average_exec_per_sec)/s," \
        "${edges:-0} edges, $(figure peak_rss_mb) MiB, $(ls "$found" | wc -l) inputs: $result"
done
[[ -z $failed ]]
