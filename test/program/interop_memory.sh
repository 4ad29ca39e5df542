#!/usr/bin/env bash
# gptrain import and export take memory for one tensor at a time, not for the model.
. "$(dirname "$0")/lib.sh"
layers=96
limit_kib=190000

# A GPT-2 of 300 MB, whose layers are holes in the file after the first.
mkdir model
echo '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": '$layers',
    "n_embd": 256, "n_head": 4, "n_positions": 64, "vocab_size": 512}' >model/config.json
header=$(awk -v layers=$layers '
    function add(name, rows, columns, elements) {
        elements = rows * (columns ? columns : 1)
        printf "%s\"transformer.%s\":{\"dtype\":\"F32\",\"shape\":[%d%s],\"data_offsets\":[%d,%d]}",
            separator, name, rows, (columns ? "," columns : ""), at, at + 4 * elements
        at += 4 * elements
        separator = ","
    }
    function linear(name, inputs, outputs) {
        add(name ".weight", inputs, outputs)
        add(name ".bias", outputs)
    }
    function norm(name) {
        add(name ".weight", 256)
        add(name ".bias", 256)
    }
    BEGIN {
        printf "{"
        add("wte.weight", 512, 256)
        add("wpe.weight", 64, 256)
        for (i = 0; i < layers; ++i) {
            block = "h." i "."
            norm(block "ln_1")
            linear(block "attn.c_attn", 256, 768)
            linear(block "attn.c_proj", 256, 256)
            norm(block "ln_2")
            linear(block "mlp.c_fc", 256, 1024)
            linear(block "mlp.c_proj", 1024, 256)
        }
        norm("ln_f")
        printf "}\n%d", at
    }')
bytes=${header##*$'\n'}
header=${header%$'\n'*}
weights=model/model.safetensors
{
    # The length of the header, little-endian.
    for ((shift = 0; shift < 64; shift += 8)); do
        printf "\\x$(printf %02x $((${#header} >> shift & 255)))"
    done
    printf %s "$header"
    seq 1000000 9999999 | head -c 4000000
} >$weights
truncate -s $((8 + ${#header} + bytes)) $weights
(($(stat -c %s $weights) > 1500 * limit_kib)) || fail "too small a file for this limit: $(stat $weights)"

limited=(bash -c "ulimit -d $limit_kib && exec \"\$@\"" - "$gptrain")
expect_exit 0 "${limited[@]}" import model --output imported
export_limited() {
    expect_exit 0 "${limited[@]}" export imported --output "$1" "${@:2}"
    says err "$work/$1: its logits were not compared" "the model does not fit in memory"
    says out "exported to $work/$1 in "
    says_not out "read back"
}

# cksum of a tensor of the first layer.
first_matrix() {
    local begin end
    end=$((8 + $(od -An -tu8 -N8 "$1")))
    begin=$(head -c $end "$1" | grep -ao '"transformer.h.0.attn.c_attn.weight":{[^}]*}' | sed 's/.*\[\([0-9]*\),.*/\1/')
    tail -c +$((1 + end + begin)) "$1" | head -c $((4 * 256 * 768)) | cksum
}
export_limited fp32 --format hf
[[ $(first_matrix fp32/model.safetensors) == "$(first_matrix $weights)" ]] ||
    fail "h.0.attn.c_attn is another one after export"
rm -r fp32
export_limited bf16 --format hf --dtype bf16
rm -r bf16
export_limited model.gguf --format gguf --dtype bf16

finish
