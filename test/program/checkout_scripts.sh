#!/usr/bin/env bash
# Scripts of scripts/ in a checkout of stand-ins: a failed step is not passed over, and a relative
# path means what it means where the script was called.
. "$(dirname "$0")/lib.sh"
mkdir -p checkout/build bin here/disk
cp -r "$(dirname "$script")/../../scripts" checkout/scripts
stand_in() {
    mkdir -p "$(dirname "$1")"
    printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
    chmod +x "$1"
}
unset BUILD
export PATH=$work/bin:$PATH
stand_in bin/ctest 'touch ../tested; echo tested'
stand_in bin/cmake '[[ $1 != "$FAILS" ]]'

# test.sh ends at the step that fails, and with its code.
for step in nothing install --preset --build; do
    stand_in checkout/scripts/install_dependencies.sh '[[ $FAILS != install ]]'
    rm -f tested
    FAILS=$step checkout/scripts/test.sh >out 2>err
    code=$?
    if [[ $step == nothing ]]; then
        ((code == 0)) && [[ -e tested ]] || fail "test.sh exits $code: $(cat out err)"
    else
        ((code != 0)) && [[ ! -e tested ]] || fail "test.sh passes over a failed $step: $(cat out)"
    fi
done

# is_there FILE: relative to where the script was called.
is_there() { [[ -e here/$1 ]] || fail "no here/$1: $(find here checkout -newer mark) $(cat out err)"; }
touch mark
export FAILS=nothing
stand_in checkout/build/cpu/test/bench/bench_checkpoint 'touch "$(dirname "$(dirname "$1")")/checkpoint"'
(cd here && ../checkout/scripts/bench_checkpoint.sh --folder disk) >out 2>err
is_there disk/checkpoint
stand_in checkout/build/cpu/test/bench/bench_scale 'touch "$(dirname "$1")/scale"'
stand_in checkout/build/cpu/test/watch/bench_watch ''
(cd here && ../checkout/scripts/bench_scale.sh --folder disk) >out 2>err
is_there disk/scale
stand_in bin/mpirun 'shift 2; exec "$@"'
stand_in checkout/build/cpu/test/bench/bench_parallel '[[ -z $3 ]] || touch "$3"
echo "{\"seconds\":[1],\"$1\":{\"bytes\":1,\"seconds\":1}}"'
(cd here && ../checkout/scripts/bench_parallel.sh --rounds 1 --timelines pictures) >out 2>err
is_there pictures/dp.svg
stand_in checkout/build/cpu/app/gptrain '[[ $* != *"--hardware $FILE"* ]] || touch "$FILE.read"
exit 1'
stand_in checkout/build/cpu/data_tools/gpt-preprocess ''
touch here/cpu.yaml
for model in 2M 8M 29M 98M; do echo "$model 1 micro=1: 1 1 1"; done >here/measured
(cd here && FILE=$PWD/cpu.yaml ../checkout/scripts/check_estimates.sh --hardware cpu.yaml \
    --measured measured --only "2M 1 micro=1") >out 2>err
is_there cpu.yaml.read
(cd here && FILE=$PWD/cpu.yaml ../checkout/scripts/check_estimates.sh --hardware cpu.yaml \
    --measured new/measured --only none) >out 2>err
is_there new/measured

# check_version.sh compares the recipe for Spack with README.md.
root=$(dirname "$script")/../..
(cd "$root" && cp --parents {CHANGELOG,README}.md CITATION.cff CMakeLists.txt cuda/runtime/libraries.cpp "$work/checkout")
checkout/scripts/check_version.sh >out 2>err || fail "check_version.sh: $(cat err)"
for line in 's/nccl@[0-9.]*:/nccl/' 's/cuda@[0-9.]*:/cuda@11:/'; do
    recipe=checkout/scripts/spack/packages/gptrain/package.py
    cp $recipe kept
    sed -i "$line" $recipe
    if checkout/scripts/check_version.sh >out 2>err; then fail "$line in the recipe goes unnoticed"; fi
    says err "error: scripts/spack/packages/gptrain/package.py: " " in README.md"
    mv kept $recipe
done

finish
