# Chooses the kernels of docs/kernel-times.md, those of priced.txt, from lines of kernel_times.sh, and
# writes them as rows of its table.
BEGIN {
    FS = "\t"
    while ((getline name < "scripts/sass/priced.txt") > 0) wanted[name] = 1
}
($3 in wanted) || (($2 " " $3) in wanted) {
    printf "| %s | %s | `%s` |", $1, $2, $3
    for (i = 4; i <= 9; ++i) printf " %s |", $i
    print ""
}
