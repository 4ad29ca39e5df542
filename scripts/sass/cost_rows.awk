# Chooses the kernels of docs/kernel-times.md from lines of kernel_times.sh, and writes them as rows of
# its table: those that bf16 training without dropout runs, with heads of 64 and 128, and those that
# FP8 and rotary positions add.
BEGIN {
    FS = "\t"
    split("forward_kernel<Bf16, ForwardShape<64, false>>;forward_kernel<Bf16, ForwardShape<128, false>>;" \
        "backward_keys_kernel<Bf16, KeysShape<64, false>>;backward_keys_kernel<Bf16, KeysShape<128, false>>;" \
        "backward_queries_kernel<Bf16, QueriesShape<64, false>>;" \
        "backward_queries_kernel<Bf16, QueriesShape<128, false>>;" \
        "forward_kernel<ForwardShape<64>, false>;forward_kernel<ForwardShape<128>, false>;" \
        "backward_kernel<BackwardShape<64>, false>;backward_kernel<BackwardShape<128>, false>;" \
        "delta_kernel<Bf16, 8>;forward_kernel<Bf16, 32, 3, true, false>;" \
        "forward_kernel<Bf16, 128, 2, true, false>;forward_kernel<Bf16, 128, 4, true, false>;" \
        "backward_kernel<Bf16, 2, false>;backward_kernel<Bf16, 3, false>;" \
        "bias_grad_kernel<Bf16, true>;update_chunks<Bf16>;rope_kernel<Bf16, true>;" \
        "unsplit_kernel<Bf16, true>;unsplit_kernel<Bf16, true>, reading;find_amax<Bf16, 8>;" \
        "convert_tiles<Bf16, F8E4M3, false>;convert_tiles<Bf16, F8E5M2, true>", names, ";")
    for (i in names) wanted[names[i]] = 1
    wanted["ops/activation.cu forward_kernel<Bf16, 0, true, false>"] = 1
}
($3 in wanted) || (($2 " " $3) in wanted) {
    printf "| %s | %s | `%s` |", $1, $2, $3
    for (i = 4; i <= 9; ++i) printf " %s |", $i
    print ""
}
