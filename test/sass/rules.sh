#!/usr/bin/env bash
# The machine code gate on short listings written by hand: each rule, the loop that it measures, warps
# per multiprocessor, and what the comparison with the table lets pass. Needs no CUDA.
# Usage: rules.sh SCRIPTS
set -euo pipefail
cd "$1/sass"
failures=0

# expect WHAT GOT WANTED
expect() {
    [[ $2 == "$3" ]] && return
    printf 'FAILED: %s: got "%s", not "%s"\n' "$@"
    failures=$((failures + 1))
}

# listing INSTRUCTION...: as cuobjdump prints it, with addresses 10, 20, ... in hexadecimal.
listing() {
    local address=16 instruction
    echo "		Function : kernel"
    for instruction in "$@"; do
        printf '        /*%04x*/                   %s ;   /* 0x0000000000017b82 */\n' $address "$instruction"
        printf '                                                 /* 0x000fe20000000800 */\n'
        address=$((address + 16))
    done
}
measured() { listing "$@" | awk -f measure.awk -f path.awk; }
faults() { measured "$@" | cut -f 8; }
figures() { measured "$@" | cut -f 2-7 | tr '\t' ' '; }
costs() { measured "$@" | cut -f 9- | tr '\t' ' '; }

# ---- rules --------------------------------------------------------------------------------------

registers=("USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe0" "USETMAXREG.DEALLOC.CTAPOOL 0x30")
p="HGMMA.64x64x16.F32.BF16 R24, gdesc[UR12], R24"
expect "a sound kernel" "$(faults "${registers[@]}" WARPGROUP.ARRIVE "$p" "IMAD R23, R2, R3, R56" "$p" \
    "$p" "$p, gsb0" "FADD R56, R23, R2" "WARPGROUP.DEPBAR.LE gsb0, 0x0" "FADD R24, R25, R26" EXIT)" ""
expect "a wait in a chain" "$(faults "${registers[@]}" "$p" "$p" "WARPGROUP.DEPBAR.LE gsb0, 0x0" "$p" \
    "$p, gsb0" EXIT)" "WARPGROUP.DEPBAR.LE inside a chain of HGMMA"
expect "a second start in a chain" "$(faults "${registers[@]}" "$p" WARPGROUP.ARRIVE "$p" "$p" \
    "$p, gsb0" EXIT)" "WARPGROUP.ARRIVE inside a chain of HGMMA"
expect "serialised products" "$(faults "${registers[@]}" "$p, gsb0" "$p, gsb0" EXIT)" \
    "a chain of 1 HGMMA: a wait breaks it, or the products are serialised"
moved="MOV touches an accumulator inside a chain of HGMMA"
expect "the first accumulator" \
    "$(faults "${registers[@]}" "$p" "MOV R24, R1" "$p" "$p" "$p, gsb0" EXIT)" "$moved"
expect "the last accumulator" \
    "$(faults "${registers[@]}" "$p" "MOV R1, R55" "$p" "$p" "$p, gsb0" EXIT)" "$moved"
q="HGMMA.64x64x16.F32.BF16 R64, R8, gdesc[UR12], R64"
both=("${registers[@]}" "$p" "$p" "$p" "$p, gsb0" "$q" "$q" "$q" "$q, gsb0")
early="touches an accumulator of a running HGMMA"
expect "an accumulator before the wait" "$(faults "${both[@]}" "FADD R1, R2, R55" EXIT)" "FADD $early"
expect "an older chain's accumulator after the wait for it" \
    "$(faults "${both[@]}" "WARPGROUP.DEPBAR.LE gsb0, 0x1" "FADD R1, R2, R55" EXIT)" ""
expect "a newer chain's accumulator after the wait for the older" \
    "$(faults "${both[@]}" "WARPGROUP.DEPBAR.LE gsb0, 0x1" "LDS.128 R61, [R1]" EXIT)" "LDS.128 $early"
expect "an operand in registers" "$(faults "${both[@]}" "SHFL.BFLY PT, R11, R1, 0x1, 0x1f" EXIT)" \
    "SHFL.BFLY overwrites what a running HGMMA reads"
expect "an operand that is only read" "$(faults "${both[@]}" "FADD R1, R8, R9" "STS [R8], R11" EXIT)" ""
expect "no commit" "$(faults "${registers[@]}" "$p" "$p" "$p" "$p" "MOV R1, R2")" \
    "a chain of HGMMA that no commit ends"
expect "registers that are only taken" "$(faults "${registers[0]}" "$p" "$p" "$p" "$p, gsb0" EXIT)" \
    "HGMMA, but no USETMAXREG"
expect "local memory" "$(faults "STL [R1], R2" "@P0 LDL.64 R2, [R1+0x8]" EXIT)" \
    "local memory (STL); local memory (LDL.64)"

# ---- the hottest loop ---------------------------------------------------------------------------

# An outer loop from 20 with one product, an inner loop from 40 with two. The inner one waits in
# code at the end, which jumps back to its middle and is no separate loop.
expect "the inner loop" "$(figures "MOV R1, R2" "MOV R3, R4" "HMMA.16816.F32 R4, R8, R12, R4" \
    "LDSM.16.M88.4 R8, [R1]" "@!P1 BRA 0xd0" "HMMA.16816.F32 R4, R8, R12, R4" \
    "HMMA.16816.F32 R4, R8, R12, R4" "@P0 BRA 0x40" NOP "@P2 BRA 0x20" EXIT NOP "YIELD" "BRA 0x60")" \
    "12 0 3 7 2 1"
expect "no loop" "$(figures "HMMA.16816.F32 R4, R8, R12, R4" EXIT)" "2 0 1 0 0 0"

# ---- costs of a unit of work --------------------------------------------------------------------
# Units; then issue slots, loads of fragments, fma, alu and mufu instructions a unit.

m="HMMA.16816.F32 R4, R8, R12, R4"
# The loop from 20 skips two instructions, and in the other way copies what the next pass needs.
expect "the common path" "$(costs "MOV R1, R2" "$m" "@P1 BRA 0x60" "FSEL R1, R2, R3" \
    "FSEL R1, R2, R3" "MUFU.EX2 R1, R2" "@P2 BRA 0x90" "LDGSTS.E.BYPASS.128 [R1], [R2]" \
    "LDSM.16.M88.4 R8, [R1]" "$m" "FFMA R1, R2, R3, R4" "@P0 BRA 0x20" EXIT)" \
    "2 4.50 0.50 0.50 0.00 0.50"
expect "bytes of the loop that moves the most" "$(costs "LDG.E.128 R4, [R2]" "@P1 BRA 0x10" \
    "LDG.E.64 R4, [R2]" "STG.E.128 [R2], R4" "LDGSTS.E.BYPASS.128 [R1], [R2]" "IADD3 R2, R2, R3, RZ" \
    "@P0 BRA 0x30" EXIT)" "2.5 2.00 0.00 0.00 0.40 0.00"
expect "bytes of the loop that only reads" "$(listing "LDG.E.128 R4, [R2]" "@P1 BRA 0x10" \
    "LDG.E.128 R4, [R2]" "STG.E.128 [R2], R4" "@P0 BRA 0x30" EXIT |
    awk -v lacking=STG -f measure.awk -f path.awk | cut -f 9- | tr '\t' ' ')" \
    "1 2.00 0.00 0.00 0.00 0.00"
expect "a kernel without a loop" "$(costs "LDG.E.128 R4, [R2]" "@P1 BRA 0x40" "FADD R1, R2, R3" \
    "STG.E.128 [R2], R4" EXIT)" "2 2.00 0.00 0.00 0.00 0.00"
expect "a kernel that moves nothing" "$(costs "MOV R1, R2" EXIT)" ""

# ---- warps --------------------------------------------------------------------------------------

# warps REGISTERS THREADS SHARED
warps() {
    printf 'P\tk\t%d\t%d\nR\tk\t%d\t0\t0\nS\tk\t100\t0\t0\t0\t0\t0\t\n' "$2" "$3" "$1" |
        awk -v file=f -v ptx=1 -f join.awk | cut -f 6
}
# Values of NVIDIA's occupancy calculator for compute capability 9.0.
expect "limited by threads" "$(warps 32 1024 0)" 64
expect "limited by registers" "$(warps 168 384 0)" 12
expect "registers in units of 8 per thread" "$(warps 73 128 0)" 24
expect "limited by blocks" "$(warps 16 32 0)" 32
expect "limited by shared memory" "$(warps 32 128 99328)" 8
expect "the largest struct" "$(warps 168 384 232448)" 12

# ---- the comparison -----------------------------------------------------------------------------

table=$(mktemp)
trap 'rm -f "$table"' EXIT
echo '| a.cu | `k<1>` | 32 | 256 | 0 | 64 | 1000 | 8 HMMA | 10.0 | 0.50 |' >"$table"
# differences REGISTERS WARPS INSTRUCTIONS PER-MATRIX
differences() {
    printf 'a.cu\tk<1>\t%s\t256\t0\t%s\t%s\t8 HMMA\t%s\t0.50\t\n' "$@" |
        awk -f compare.awk "$table" - || true
}
expect "the same" "$(differences 32 64 1000 10.0)" ""
expect "a little more" "$(differences 32 64 1020 10.2)" ""
expect "what objects do not hold" "$(differences 32 '?' 1000 10.0)" ""
expect "a register" "$(differences 33 64 1000 10.0)" "a.cu k<1>: registers 33, was 32"
expect "instructions" "$(differences 32 64 1021 10.0)" "a.cu k<1>: instructions 1021, was 1000"
expect "the loop" "$(differences 32 64 1000 10.3)" "a.cu k<1>: per_matrix 10.3, was 10.0"
# unlisted NAME MATRIX: the comparison's message on a kernel that the table does not have.
unlisted() {
    printf 'a.cu\t%s\t1\t1\t1\t1\t1\t%s\t-\t-\t\n' "$@" | awk -f compare.awk "$table" - |
        grep -v 'not in the code' || true
}
expect "a new kernel" "$(unlisted new -)" "a.cu new: not in the table"
expect "another instance" "$(unlisted 'k<2>' -)" ""
expect "another instance with matrix instructions" "$(unlisted 'k<2>' "8 HMMA")" \
    "a.cu k<2>: not in the table"
expect "one of them for fp16" "$(unlisted 'k<F16>' "8 HMMA")" ""
expect "a kernel without code" "$(printf 'a.cu\tk<2>\t1\t1\t1\t1\t1\t-\n' | awk -f compare.awk "$table" - || true)" \
    "a.cu k<1>: in the table, but not in the code"
((failures == 0))
