#!/usr/bin/env bash
# Packs what was built into one archive that runs on a GPU machine where nothing can be installed,
# also of another distribution, if its C library is as new (the file BUNDLE in it names the
# version). The machine brings driver, cuBLASLt and NCCL (GPTRAIN_CUDA_LIBS names their folder if they
# are not found).
#
#   scripts/bundle.sh [--build DIR | --arch ARCH] [--nccl FILE] [--output FILE]
#
#   --build DIR     pack this build folder (build/cuda)
#   --arch ARCH     keep the code of one GPU architecture alone: 80, 90a (H100, H200) or 100; builds
#                   in build/cuda-ARCH
#   --nccl FILE     with --arch: also packs this libnccl.so.2 (2.30 or newer, with which several ranks
#                   can share a GPU), cut to the same architecture (cut_nccl.py), into a second archive
#                   (the first one's name with -nccl); unpacked in the same folder, the scripts take
#                   it before any other NCCL
#   --output FILE   the archive (gptrain-COMMIT.tar.xz in build/)
#
# In the archive: bin/ starts the programs, tests and mpirun from any place; libexec/ has them,
# lib/ the libraries that they need, those of CUDA and the C library aside, and OpenMPI's runtime
# without the parts that need a fabric; scripts/gpu_check.sh, gpu_quarter.sh and bench_gpu.sh use them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

most_bytes=40000000
most_nccl_bytes=$((64 << 20))

die() {
    echo "error: $*" >&2
    exit 2
}

build=
arch=
nccl=
output=
take_options build arch nccl output -- "$@"
[[ -z $nccl ]] || nccl=$(realpath "$nccl")
[[ -z $output ]] || output=$(realpath -m "$output")
cd "$root"
[[ -z $build || -z $arch ]] || die "--build or --arch, not both"
[[ -z $nccl || -n $arch ]] || die "--nccl needs --arch"
[[ ! -f BUNDLE ]] || die "this is a bundle; make one in a checkout"

scripts/install_dependencies.sh patchelf >&2
for tool in patchelf readelf strip ompi_info; do
    command -v $tool >/dev/null || die "there is no $tool"
done

name=gptrain-$commit${arch:+-$arch}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
if [[ -n $nccl ]]; then
    mkdir -p "$stage/nccl/$name/lib"
    strip --strip-unneeded -o "$stage/stripped" "$nccl"
    python3 scripts/cut_nccl.py "$stage/stripped" "$arch" "$stage/nccl/$name/lib/libnccl.so.2"
fi

if [[ -z $build ]]; then
    build=build/cuda${arch:+-$arch}
    cmake --preset cuda -B "$build" ${arch:+-DGPTRAIN_CUDA_ARCHITECTURES="$arch-real"} >&2
fi
targets=()
known=$(cmake --build "$build" --target help)
for entry in "${bundle_programs[@]}"; do
    target=${entry% *}
    if grep -q "^\(\.\.\. \)\?$target\(:\|$\)" <<<"$known"; then
        targets+=("$target")
    else
        echo "warning: $build has no $target" >&2
    fi
done
cmake --build "$build" --target "${targets[@]}" >&2

tree=$stage/$name
mkdir -p "$tree"/{bin,libexec,lib/openmpi,lib/pmix,share/openmpi,etc,scripts,test/program,test/model}

# ---- programs ----
for entry in "${bundle_programs[@]}"; do
    [[ " ${targets[*]} " != *" ${entry% *} "* ]] ||
        cp "$build/${entry#* }" "$tree/libexec/${entry% *}"
done
cp "$(realpath "$(command -v mpirun)")" "$tree/libexec/mpirun"
cp "$(realpath "$(command -v orted)")" "$tree/libexec/orted"

# ---- libraries ----
of_the_machine='^(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|util|anl|resolv|nsl|nss_.*)|libcuda.*|libcublas.*|libnccl.*|libnvidia.*)\.so'
fabrics='libfabric|libuc[mpst]\.|libibverbs|librdmacm|libpsm|liboshmem|libmca_common_(monitoring|ofi|ucx|verbs)'

# needed_by FILE...: name and path of all libraries that are needed, directly or not.
needed_by() {
    ldd "$@" | awk '
        $2 == "=>" && $3 == "not" { print "error: " $1 " is not found" >"/dev/stderr"; exit 1 }
        $2 == "=>" { print $1, $3 }' | sort -u
}

# ompi_folder WHICH: a folder of the OpenMPI that is installed here.
ompi_folder() { ompi_info --path "$1" | sed -n "s/^ *$1: *//Ip"; }

components=()
for component in "$(ompi_folder pkglibdir)"/mca_*.so; do
    needed_by "$component" | grep -qE "$fabrics" || components+=("$component")
done
cp "${components[@]}" "$tree/lib/openmpi"
cp "$(ompi_folder pkgdatadir)"/help-*.txt "$tree/share/openmpi"
# Without ssh, mpirun refuses to start ranks even on its own machine, unless there is some agent.
echo "plm_rsh_agent = ssh : rsh : false" >"$tree/etc/openmpi-mca-params.conf"
pmix=$(needed_by "${components[@]}" | awk '$1 ~ /^libpmix\.so/ { print $2 }' | head -n 1)
if [[ -n $pmix ]]; then
    pmix=$(dirname "$(realpath "$pmix")")/pmix
    cp "$pmix"/*.so "$tree/lib/pmix"
fi

while read -r library path; do
    [[ $library =~ $of_the_machine ]] || cp -L "$path" "$tree/lib/$library"
done < <(needed_by "$tree"/libexec/* "$tree"/lib/openmpi/*.so "$tree"/lib/pmix/*.so)

# ---- relocation ----
chmod -R u+w "$tree"
strip --strip-unneeded "$tree"/libexec/* "$tree"/lib/*.so* "$tree"/lib/*/*.so
# Forced: LD_LIBRARY_PATH, which many sites set, must not come first.
set_rpath() {
    local rpath=$1 file
    shift
    for file in "$@"; do
        patchelf --force-rpath --set-rpath "$rpath" "$file"
    done
}
# shellcheck disable=SC2016
{
    set_rpath '$ORIGIN/../lib' "$tree"/libexec/*
    set_rpath '$ORIGIN' "$tree"/lib/*.so*
    set_rpath '$ORIGIN/..' "$tree"/lib/*/*.so
}

cat >"$stage/launcher" <<'END'
#!/bin/sh
# Starts the program of this name in ../libexec. OpenMPI and PMIx are told where they are now.
self=$(readlink -f "$0")
root=$(dirname "$(dirname "$self")")
export OPAL_PREFIX="$root" OPAL_BINDIR="$root/bin" OPAL_LIBDIR="$root/lib" \
    OPAL_PKGLIBDIR="$root/lib/openmpi" OPAL_PKGDATADIR="$root/share/openmpi" \
    OPAL_SYSCONFDIR="$root/etc" PMIX_INSTALL_PREFIX="$root" PMIX_LIBDIR="$root/lib" \
    PMIX_PKGLIBDIR="$root/lib/pmix"
exec "$root/libexec/$(basename "$self")" "$@"
END
for program in "$tree"/libexec/*; do
    install -m 755 "$stage/launcher" "$tree/bin/$(basename "$program")"
done

# ---- what they work with ----
cp -r configs "$tree"
cp scripts/{programs.sh,options.sh,gpu_check.sh,gpu_quarter.sh,bench_gpu.sh,bench_torch.py,bench_torch_gpu.py,torch_gpt.py} "$tree/scripts"
cp test/openmpi.sh "$tree/test"
cp test/program/{lib,rank_lib,gpu,gpu_calibrate,gpu_faults,gpu_ranks,resume_exact}.sh "$tree/test/program"
cp test/model/*.h5 "$tree/test/model"

c_library=$(readelf -VW "$tree"/libexec/* "$tree"/lib/*.so* "$tree"/lib/*/*.so 2>/dev/null |
    grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
cat >"$tree/BUNDLE" <<END
commit: $commit
built: $(date -u +%FT%TZ) on $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)
architectures: $(sed -n 's/^GPTRAIN_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt")
machine: $(uname -m)
C library: ${c_library#GLIBC_} or newer
OpenMPI: $(ompi_info --version | head -n 1)
END

# ---- the archives ----
# archive FILE MOST-BYTES FOLDER XZ-OPTION: of what is in the folder.
archive() {
    local bytes
    tar -C "$3" --sort=name --owner=0 --group=0 -cf - "$name" | xz "$4" >"$1"
    bytes=$(stat -c %s "$1")
    echo "$1: $bytes bytes"
    ((bytes < $2)) || die "$1 has more than $2 bytes; --arch keeps one GPU architecture"
}

[[ -n $output ]] || output=build/$name.tar.xz
mkdir -p "$(dirname "$output")"
cat "$tree/BUNDLE"
# A window over all programs, which have much in common.
archive "$output" $most_bytes "$stage" --lzma2=preset=9,dict=192MiB
if [[ -n $nccl ]]; then
    archive "${output%.tar.xz}-nccl.tar.xz" $most_nccl_bytes "$stage/nccl" -2  # its code is compressed already
fi
