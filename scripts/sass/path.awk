# The second half of measure.awk: the resources of a multiprocessor that the hottest loop of a
# kernel uses, per unit of its work. A unit is a matrix instruction, or in a kernel without them 16
# bytes of global memory that a thread reads or writes.
#
# Counted is the common path through the loop: of all ways from its start back to it those with the
# most work (copies to shared memory included), and of these the shortest one. So code that seldom
# runs, such as masks at the edge of the visible keys, is left out. Without a loop the path leads
# through the whole kernel.

function bytes_of(opcode) {
    if (opcode ~ /\.128/) return 16
    if (opcode ~ /\.64/) return 8
    if (opcode ~ /\.[US]16/) return 2
    if (opcode ~ /\.[US]8/) return 1
    return 4
}

# The units of work of an instruction.
function units(opcode, matrix) {
    if (matrix) return opcode ~ /^(H|HG|QG)MMA/
    return opcode ~ /^(LDG|STG|LDGSTS)\./ ? bytes_of(opcode) / 16 : 0
}

# The value of an instruction in the choice between paths: work, and copies that the next pass
# needs.
function worth(opcode, matrix) {
    return units(opcode, matrix) + (matrix && opcode ~ /^LDGSTS/)
}

# True if the way from i to j closes a loop.
function closes(i, j) { return (j in headers) && ((j, i) in body) }

# Sets came_from[] along the best paths from `start` over the instructions of body[start, ]; returns
# the last instruction of the best one that leads back to the start, or to an exit.
function best_path(start, matrix, changed, i, j, ways, value, end) {
    split("", most)
    split("", steps)
    split("", came_from)
    most[start] = worth(op[start], matrix)
    steps[start] = 1
    for (changed = 1; changed;) {
        changed = 0
        for (i = 1; i <= count; ++i) {
            if (!(i in most)) continue
            ways = successors(i)
            for (j = 1; j <= ways; ++j) {
                if (!((start, next_[j]) in body) || next_[j] == start || closes(i, next_[j])) continue
                value = most[i] + worth(op[next_[j]], matrix)
                if ((next_[j] in most) && (value < most[next_[j]] ||
                        (value == most[next_[j]] && steps[i] + 1 >= steps[next_[j]]))) continue
                most[next_[j]] = value
                steps[next_[j]] = steps[i] + 1
                came_from[next_[j]] = i
                changed = 1
            }
        }
    }
    for (i = 1; i <= count; ++i) {
        if (!(i in most) || !ends(i, start)) continue
        if (!end || most[i] > most[end] || (most[i] == most[end] && steps[i] < steps[end])) end = i
    }
    return end
}

function ends(i, start, ways, j) {
    ways = successors(i)
    if (!ways) return start == 1
    for (j = 1; j <= ways; ++j)
        if (next_[j] == start) return 1
    return 0
}

# The resource that an instruction of a warp takes besides an issue slot: the pipe of fp32
# arithmetic and integer multiplication, that of other arithmetic, that of special functions. Loads
# of matrix fragments are counted separately.
function pipe(opcode) {
    if (opcode ~ /^(FFMA|FADD|FMUL|IMAD|HFMA2|HADD2|HMUL2|HSET2)/) return "fma"
    if (opcode ~ /^MUFU/) return "mufu"
    if (opcode ~ /^LDSM/) return "loads"
    if (opcode ~ /^(FSEL|FMNMX|FSETP|F2FP|I|SEL|SHF|LEA|LOP3|PRMT|PLOP3|VI|POPC|BMSK|SGXT|R2P|P2R)/)
        return "alu"
    return "other"
}

# Sets costs: units, then issue slots, loads, fma, alu and mufu instructions a unit. Empty if the
# kernel does no such work.
function measure_path(start, matrix, i, total) {
    costs = ""
    split("", used)
    total = 0
    for (i = best_path(start, matrix); i; i = came_from[i]) {
        total += units(op[i], matrix)
        ++used["issue"]
        ++used[pipe(op[i])]
        if (i == start) break
    }
    if (!total) return
    costs = sprintf("%g\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f", total, used["issue"] / total,
        used["loads"] / total, used["fma"] / total, used["alu"] / total, used["mufu"] / total)
}
