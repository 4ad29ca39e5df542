# Joins what is known of the kernels of one file. Reads, separated by tabs, and in this order:
#   P, mangled name, threads of a block, bytes of its struct in shared memory     (from PTX, if any)
#   R, mangled name, registers, bytes of static shared memory, bytes of stack and local memory
#   S, and a line of measure.awk
# Writes one line per kernel, with - for what does not apply and ? for what only PTX contains:
#   file, mangled name, registers, threads, bytes of shared memory, warps per multiprocessor,
#   instructions, matrix instructions, instructions per matrix instruction, LDSM per matrix
#   instruction, faults
# -v file=FILE, and ptx=1 if there is PTX.

function smaller(a, b) { return a < b ? a : b }

# The limits of sm_90: 64 warps, 32 blocks, 4 times 16384 registers, which warps take in units of
# 256, and 228 KiB of shared memory, of which each block takes 1 KiB more than it asks for.
function resident_warps(registers, threads, shared, warps, blocks) {
    warps = int((threads + 31) / 32)
    blocks = int(int(16384 / (int((registers * 32 + 255) / 256) * 256)) * 4 / warps)
    blocks = smaller(blocks, int(64 / warps))
    blocks = smaller(blocks, int(233472 / (shared + 1024)))
    return smaller(blocks, 32) * warps
}

BEGIN { FS = OFS = "\t" }
$1 == "P" { threads[$2] = $3; shared[$2] = $4 }
$1 == "R" { registers[$2] = $3; fixed[$2] = $4; local[$2] = $5 }
$1 == "S" {
    block = bytes = warps = "?"
    if (ptx) {
        block = threads[$2] ? threads[$2] : "-"
        bytes = fixed[$2] + shared[$2]
        warps = block == "-" ? "-" : resident_warps(registers[$2], block, bytes)
    }
    kind = $4 ? $4 " HGMMA" : $5 ? $5 " HMMA" : "-"
    each = loads = "-"
    if ($7) {
        each = sprintf("%.1f", $6 / $7)
        if ($5) loads = sprintf("%.2f", $8 / $7)
    }
    faults = $9
    if (local[$2]) faults = faults (faults == "" ? "" : "; ") local[$2] " bytes of local memory"
    print file, $2, registers[$2], block, bytes, warps, $3, kind, each, loads, faults
}
