# Chooses the rows of the table in docs/kernels.md from lines of join.awk whose names are readable:
# of kernels with matrix instructions all instances but those for fp16, whose code is that for bf16;
# of every other kernel the instance with the most instructions.
BEGIN { FS = "\t" }
$8 != "-" && $2 ~ /<F16/ { next }
{
    key = $1 " " $2
    if ($8 == "-") sub(/<.*/, "", key)
    if (!(key in row)) order[++rows] = key
    else if ($7 <= most[key]) next
    most[key] = $7
    row[key] = sprintf("| %s | `%s` |", $1, $2)
    for (i = 3; i <= 10; ++i) row[key] = row[key] " " $i " |"
}
END { for (i = 1; i <= rows; ++i) print row[order[i]] }
