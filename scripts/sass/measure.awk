# Reads what `cuobjdump -sass` prints. Writes one line per kernel, separated by tabs:
#   mangled name, instructions, HGMMA, HMMA,
#   instructions, matrix instructions and LDSM of the hottest loop (0 without one), faults,
#   and the costs of a unit of work as path.awk has them, six columns
#
# Run it together with path.awk. The hottest loop is, of the loops that do work (hold matrix
# instructions, or in a kernel without them access global memory) and hold no smaller such loop, the
# one that does the most. With -v lacking=OPCODE it is the hottest of those without this instruction.

function fault(text) {
    if (!((text) in known)) faults = faults (faults == "" ? "" : "; ") text
    known[text] = 1
}

function reset(i) {
    count = made = warpgroup = warp = lowered = raised = open = running = 0
    faults = ""
    split("", known)
    split("", at)
    split("", barrier_target)
}

# ---- chains of HGMMA ----------------------------------------------------------------------------
# A chain is what one commit groups: HGMMA follows HGMMA (QGMMA in FP8, which counts as one), and
# the last one has gsb0. The narrowest tile of the kernels, 64, takes 4 steps of 16. It runs from
# there until a DEPBAR that leaves fewer chains open, in the order of the listing; meanwhile its
# accumulators are not touched, and the registers of its first operand are not written.

function product(opcode, rest, size, from) {
    if (!open) {
        open = 1
        chain = spans = sources = 0
    }
    ++chain
    split(opcode, size, "x")
    match(rest, /R[0-9]+/)
    first[++spans] = substr(rest, RSTART + 1, RLENGTH - 1) + 0
    last[spans] = first[spans] + size[2] / 2 - 1
    from = substr(rest, RSTART + RLENGTH)
    if (match(from, /^, R[0-9]+,/)) source[++sources] = substr(from, 4, RLENGTH - 4) + 0
    if (rest ~ /gsb0/) {
        if (chain < 4) fault("a chain of " chain " HGMMA: a wait breaks it, or the products are serialised")
        open = 0
        start_running()
    }
}

# The chains that run: registers held[] and read[] of the older ones are at lower indices.
function start_running(i, r) {
    ++running
    held[running] = read[running] = " "
    for (i = 1; i <= spans; ++i)
        for (r = first[i]; r <= last[i]; ++r) held[running] = held[running] r " "
    for (i = 1; i <= sources; ++i)
        for (r = source[i]; r < source[i] + 4; ++r) read[running] = read[running] r " "
}

# After a DEPBAR only the newest chains may still run.
function wait_for_chains(rest, left, i) {
    match(rest, /0x[0-9a-f]+/)
    left = substr(rest, RSTART + 2, RLENGTH - 2) + 0
    if (left >= running) return
    for (i = 1; i <= left; ++i) {
        held[i] = held[running - left + i]
        read[i] = read[running - left + i]
    }
    running = left
}

# The number of registers that an instruction writes.
function width(opcode) {
    if (opcode ~ /\.128/) return 4
    return opcode ~ /\.64|\.WIDE|^D(ADD|MUL|FMA)/ ? 2 : 1
}

function beside_chains(opcode, rest, operand, to, end, number, i, untouched, unwritten) {
    for (i = 1; i <= running; ++i) {
        untouched = untouched held[i]
        unwritten = unwritten read[i]
    }
    split(rest, operand, ",")
    to = operand[1] ~ /^ *U?P/ ? operand[2] : operand[1]
    if (match(to, /^ *R[0-9]+/)) {
        match(to, /R[0-9]+/)
        number = substr(to, RSTART + 1, RLENGTH - 1) + 0
        for (end = number + width(opcode); number < end; ++number) {
            if (index(unwritten, " " number " ")) fault(opcode " overwrites what a running HGMMA reads")
            if (index(untouched, " " number " ")) fault(opcode " touches an accumulator of a running HGMMA")
        }
    }
    while (match(rest, /[^A-Z]R[0-9]+/)) {
        if (index(untouched, " " substr(rest, RSTART + 2, RLENGTH - 2) " "))
            fault(opcode " touches an accumulator of a running HGMMA")
        rest = substr(rest, RSTART + RLENGTH)
    }
}

function inside_chain(opcode, rest, number, i) {
    if (opcode ~ /^(WARPGROUP|BRA|BRX|BAR|SYNCS|EXIT|CALL|RET|BSYNC|DEPBAR|WARPSYNC)/)
        fault(opcode " inside a chain of HGMMA")
    while (match(rest, /[^A-Z]R[0-9]+/)) {
        number = substr(rest, RSTART + 2, RLENGTH - 2) + 0
        for (i = 1; i <= spans; ++i)
            if (number >= first[i] && number <= last[i])
                fault(opcode " touches an accumulator inside a chain of HGMMA")
        rest = substr(rest, RSTART + RLENGTH)
    }
}

# ---- loops --------------------------------------------------------------------------------------

# Stores in next_[1], ... where instruction i may continue; returns their number.
function successors(i, ways, target) {
    ways = 0
    if (i < count && !(op[i] ~ /^(BRA|EXIT|RET|BSYNC|KILL)/ && always[i])) next_[++ways] = i + 1
    if (jump[i] != "" && (jump[i] in at)) {
        target = at[jump[i]]
        if (target) next_[++ways] = target
    }
    return ways
}

# Marks in seen[] what can be reached from the first instruction without passing `without`.
function reach(without, top, ways, i, j) {
    split("", seen)
    if (without == 1) return
    top = 1
    stack[1] = seen[1] = 1
    while (top) {
        i = stack[top--]
        ways = successors(i)
        for (j = 1; j <= ways; ++j)
            if (next_[j] != without && !(next_[j] in seen)) {
                seen[next_[j]] = 1
                stack[++top] = next_[j]
            }
    }
}

# Adds to body[header, ] what leads to `end` without passing the header.
function add_body(header, end, top, i, j, parts) {
    body[header, header] = 1
    top = 0
    if (!((header, end) in body)) {
        body[header, end] = 1
        stack[++top] = end
    }
    while (top) {
        i = stack[top--]
        parts = split(before[i], list, " ")
        for (j = 1; j <= parts; ++j)
            if (list[j] in alive && !((header, list[j]) in body)) {
                body[header, list[j]] = 1
                stack[++top] = list[j]
            }
    }
}

# Finds all loops: headers[], and body[header, ] for each.
function find_loops(i, j, h, ways) {
    split("", before)
    split("", body)
    split("", headers)
    split("", alive)
    for (i = 1; i <= count; ++i) {
        ways = successors(i)
        for (j = 1; j <= ways; ++j) before[next_[j]] = before[next_[j]] " " i
    }
    reach(0)
    for (i in seen) alive[i] = 1
    # A way back to an instruction without which its start cannot be reached closes a loop.
    for (i = 1; i <= count; ++i) {
        if (!(i in alive) || jump[i] == "" || !(jump[i] in at) || at[jump[i]] > i) continue
        h = at[jump[i]]
        reach(h)
        if (i in seen) continue
        headers[h] = 1
        add_body(h, i)
    }
}

# Sets hot to the header of the hottest loop, or 0 if there is no loop.
function hottest_loop(matrix, h, i, other, inner, left_out) {
    for (h in headers) {
        size[h] = work[h] = loads[h] = 0
        for (i = 1; i <= count; ++i) {
            if (!((h, i) in body)) continue
            if (lacking != "" && op[i] ~ "^" lacking "\\.") left_out[h] = 1
            ++size[h]
            work[h] += units(op[i], matrix)
            if (op[i] ~ /^LDSM/) ++loads[h]
        }
    }
    hot = 0
    for (h in headers) {
        inner = work[h] > 0 && !(h in left_out)
        for (other in headers)
            if (other != h && work[other] && (h, other) in body) inner = 0
        if (!inner || (hot && work[h] < work[hot])) continue
        if (hot && work[h] == work[hot] && size[h] <= size[hot]) continue
        hot = h
    }
}

# ---- kernels ------------------------------------------------------------------------------------

function finish(i) {
    if (name == "") return
    if (open) fault("a chain of HGMMA that no commit ends")
    if (warpgroup && !(lowered && raised)) fault("HGMMA, but no USETMAXREG")
    find_loops()
    hottest_loop(warpgroup + warp > 0)
    hot_size = hot_products = hot_loads = 0
    if (hot && warpgroup + warp) {
        hot_size = size[hot]
        hot_products = work[hot]
        hot_loads = loads[hot]
    }
    # Without a loop, all instructions count as the body of the first one.
    if (!hot)
        for (i in alive) body[1, i] = 1
    measure_path(hot ? hot : 1, warpgroup + warp > 0)
    printf "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", name, made, warpgroup, warp, hot_size, hot_products,
        hot_loads, faults, costs
}

/^[ \t]*Function : / {
    finish()
    name = $NF
    reset()
    next
}

/^ +\/\*[0-9a-f]+\*\/ / {
    address = $1
    gsub(/[\/*]/, "", address)
    sub(/^0+/, "", address)
    text = $0
    sub(/^ +\/\*[0-9a-f]+\*\/ +/, "", text)
    sub(/ *;.*/, "", text)
    predicate = ""
    if (text ~ /^@/) {
        predicate = substr(text, 1, index(text, " ") - 1)
        sub(/^@[^ ]+ +/, "", text)
    }
    opcode = text
    sub(/ .*/, "", opcode)
    rest = " " substr(text, length(opcode) + 1)
    if (opcode == "NOP") next
    at[address] = ++count
    ++made
    op[count] = opcode
    always[count] = predicate == ""
    jump[count] = ""
    if (opcode ~ /^(BRA|BSSY|WARPSYNC)/ && match(rest, /0x[0-9a-f]+$/)) {
        jump[count] = substr(rest, RSTART + 2)
        # A branch with another argument, such as a uniform predicate, may fall through.
        if (rest !~ /^ +0x/) always[count] = 0
    }
    if (opcode ~ /^BSSY/) {
        match(rest, /B[0-9]+/)
        barrier_target[substr(rest, RSTART, RLENGTH)] = jump[count]
        jump[count] = ""
    } else if (opcode ~ /^BSYNC/ && match(rest, /B[0-9]+/)) {
        jump[count] = barrier_target[substr(rest, RSTART, RLENGTH)]
    }
    if (opcode ~ /^[HQ]GMMA/) {
        ++warpgroup
        product(opcode, rest)
    } else if (open) {
        inside_chain(opcode, rest)
    } else if (opcode ~ /^WARPGROUP\.DEPBAR/) {
        wait_for_chains(rest)
    }
    if (opcode !~ /^[HQ]GMMA/ && running) beside_chains(opcode, rest)
    if (opcode ~ /^HMMA/) ++warp
    if (opcode ~ /^(LDL|STL)/) fault("local memory (" opcode ")")
    if (opcode ~ /^USETMAXREG\.DEALLOC/) lowered = 1
    if (opcode ~ /^USETMAXREG\.TRY_ALLOC/) raised = 1
}

END { finish() }
