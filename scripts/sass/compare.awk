# Compares the table of docs/kernels.md with lines of join.awk whose names are readable. Prints what
# differs; exit code 1 if anything does. Every kernel must be listed, and of those with matrix
# instructions every instance but those for fp16.
#
# Exact: threads, shared memory, warps, the matrix instructions. Within 2 %, or 4 instructions: the
# number of instructions. Within 2 %: the ratios. Within `drift`, exact if it is empty: registers.

function cell(text) {
    gsub(/^[ `]+|[ `]+$/, "", text)
    return text
}
function within(is, was, drift) { return is - was <= drift && was - is <= drift }
function differs(column, is, was) {
    if (is == was || is == "?") return 0
    if (column == 3) return !within(is, was, drift + 0)
    if (column == 7) return !within(is, was, was + 0 > 200 ? was * 0.02 : 4)
    if ((column == 9 || column == 10) && is != "-" && was != "-")
        return !within(is, was, was * 0.02)
    return 1
}
function complain(text) {
    print text
    bad = 1
}

BEGIN {
    FS = "\t"
    split("file kernel registers threads shared_bytes warps instructions matrix per_matrix " \
        "LDSM_per_matrix", title, " ")
}
FNR == NR {
    if (split($0, part, "|") < 11 || part[2] !~ /\.cu/) next
    key = cell(part[2]) " " cell(part[3])
    order[++rows] = key
    for (i = 3; i <= 10; ++i) was[key, i] = cell(part[i + 1])
    listed[key] = 1
    sub(/<.*/, "", key)
    listed[key] = 1
    next
}
{
    key = $1 " " $2
    found[key] = 1
    for (i = 3; i <= 10; ++i) is[key, i] = $i
    if ($8 == "-" || $2 ~ /<F16/) sub(/<.*/, "", key)
    if (!(key in listed) && !(key in told)) complain(key ": not in the table")
    told[key] = 1
}
END {
    for (row = 1; row <= rows; ++row) {
        key = order[row]
        if (!(key in found)) {
            complain(key ": in the table, but not in the code")
            continue
        }
        for (i = 3; i <= 10; ++i)
            if (differs(i, is[key, i], was[key, i]))
                complain(key ": " title[i] " " is[key, i] ", was " was[key, i])
    }
    exit bad
}
