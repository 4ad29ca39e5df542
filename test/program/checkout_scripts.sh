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

# cut_nccl.py keeps the device code of one architecture and moves nothing.
if command -v python3 >/dev/null && command -v cc >/dev/null; then
    cat >nccl.py <<'END'
import ctypes, struct, subprocess, sys
def entry(kind, architecture, code):
    return struct.pack("<HHIQ12xI32x", kind, 0x101, 64, len(code), architecture) + code
def fat_binary(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
ours = entry(2, 90, b"ours" * 6)
alone = fat_binary(entry(2, 80, b"other" * 8))
whole = fat_binary(entry(2, 80, b"other" * 16), entry(1, 90, b"text" * 4), ours) + bytes(16) + alone
if sys.argv[1] == "make":
    bytes_of = lambda data: "{" + ",".join(map(str, data)) + "}"
    source = f"""
        __attribute__((section(".nv_fatbin"), aligned(8))) const unsigned char linked[] = {bytes_of(whole)};
        __attribute__((section("__nv_relfatbin"), aligned(8))) const unsigned char parts[] = {bytes_of(whole)};
        const char* name(void) {{ return "NCCL version {sys.argv[3]}+cuda13.0"; }}"""
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", sys.argv[2]], input=source.encode(), check=True)
else:
    library = ctypes.CDLL(sys.argv[2])
    library.name.restype = ctypes.c_char_p
    assert library.name() == b"NCCL version 2.30.7+cuda13.0"
    kept = fat_binary(ours).ljust(len(whole) - len(alone), b"\0") + alone
    for section in "linked", "parts":
        assert bytes((ctypes.c_ubyte * len(whole)).in_dll(library, section)) == kept, section
END
    python3 nccl.py make nccl.so 2.30.7 || fail "no stand-in for NCCL"
    # cut CODE ARCHITECTURE FILE
    cut() {
        python3 checkout/scripts/cut_nccl.py "$3" "$2" "$work/cut.so" >out 2>err
        (($? == $1)) || fail "cut_nccl.py $2 $3: $(cat out err)"
    }
    cut 0 90a nccl.so
    says out "NCCL version 2.30.7+cuda13.0, sm_90: 176 of "
    python3 nccl.py check "$work/cut.so" >out 2>&1 || fail "the cut library: $(cat out)"
    cut 1 100 nccl.so
    says err "error: nccl.so has no code for sm_100: sm_80, sm_90"
    python3 nccl.py make old.so 2.28.9
    cut 1 90 old.so
    says err "error: old.so: NCCL version 2.28.9+cuda13.0: ranks share a GPU from 2.30 on"
    cut 1 90 "$gptrain"
    says err "is no NCCL"
fi

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
