#!/usr/bin/env bash
# Installs the packages that gptrain is built from (Debian 12, Ubuntu 24.04).
# Does nothing, and needs neither root nor a network, when all of them are there.
#
#   scripts/install_dependencies.sh [MORE-PACKAGES...]
set -euo pipefail

packages=(
    build-essential cmake ninja-build pkg-config
    libopenmpi-dev openmpi-bin
    libhdf5-dev hdf5-tools
    libdnnl-dev ocl-icd-opencl-dev  # oneDNN's CMake package asks for OpenCL
    libsentencepiece-dev zlib1g-dev libzstd-dev zstd
    libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libmicrohttpd-dev
    catch2
    bible-kjv  # the quick start's text
    "$@"
)

if ! command -v apt-get >/dev/null; then
    echo "This system has no apt-get. gptrain needs what these Debian packages hold:"
    echo "    ${packages[*]}"
    exit 0
fi

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
    echo "All ${#packages[@]} packages are there."
    exit 0
fi

echo "Missing packages: ${missing[*]}"
as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        echo "error: installing them needs root and there is no sudo; as root run:" >&2
        echo "    apt-get update && apt-get install ${missing[*]}" >&2
        exit 2
    fi
    echo "Installing them with sudo (it may ask for your password)."
    as_root=(sudo "${as_root[@]}")
fi
apt=("${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300)
if ! "${apt[@]}" update || ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; then
    echo "error: not every package could be installed (see above)." >&2
    echo "On Ubuntu some are in 'universe': sudo add-apt-repository universe" >&2
    exit 5
fi
