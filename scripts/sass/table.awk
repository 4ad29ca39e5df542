# Chooses the rows of the table in docs/kernels.md from lines of join.awk whose names are readable,
# but none for fp16, whose code is that for bf16 or nearly: of kernels with matrix instructions all
# instances, of every other kernel the one with the most instructions and those of
# listed.txt, which a step runs.
BEGIN {
    FS = "\t"
    while ((getline name < "scripts/sass/listed.txt") > 0) listed[name] = 1
}
$2 ~ /<F16/ { next }
{
    key = $1 " " $2
    if ($8 == "-" && !(($2 in listed) || (key in listed))) sub(/<.*/, "", key)
    if (!(key in row)) order[++rows] = key
    else if ($7 <= most[key]) next
    most[key] = $7
    row[key] = sprintf("| %s | `%s` |", $1, $2)
    for (i = 3; i <= 10; ++i) row[key] = row[key] " " $i " |"
}
END { for (i = 1; i <= rows; ++i) print row[order[i]] }
