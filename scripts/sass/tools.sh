# For check_sass.sh: NVIDIA's disassembler, and names that can be read.
# The caller sets `check`, its name in messages.

disassembler=13.5.37

not_run() {
    echo "$check: not run ($1)"
    exit 77
}

# wheel PACKAGE VERSION: installs it from PyPI in .cache/sass, once.
wheel() {
    local to=.cache/sass/$1-$2
    [[ -d $to ]] && return
    rm -rf "$to.part"
    python3 -m pip install --quiet --no-deps --disable-pip-version-check --root-user-action=ignore \
        --target "$to.part" "$1==$2" >/dev/null 2>&1 || not_run "needs $1 $2 from PyPI"
    mv "$to.part" "$to"
}

# Puts cuobjdump and nvdisasm on the PATH.
find_disassembler() {
    local tool
    for tool in nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm; do
        wheel "$tool" "$disassembler"
        PATH=$PWD/.cache/sass/$tool-$disassembler/nvidia/cu13/bin:$PATH
    done
}

# version_of NVCC
version_of() { "$1" --version 2>/dev/null | sed -n 's/.*, V\([0-9.]*\)$/\1/p'; }

# Demangles; leaves out namespaces, types of template arguments, and arguments.
readable_names() {
    c++filt | sed -E '
        s/\(anonymous namespace\):://g; s/gptrain::(cuda::)?(sm90::)?//g; s/> >/>>/g; s/> >/>>/g
        s/\([A-Za-z]+\)([0-9]+)/\1/g; s/(^|\t)(void )?([^\t(]*)\([^\t]*\)\t/\1\3\t/'
}
