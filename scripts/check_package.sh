#!/usr/bin/env bash
# Checks the Debian package before a release: builds it, lets lintian judge it, installs it in a bare
# Debian, uses it there as a user does (scripts/package/use.sh), alone and over MPI, and removes it
# again, which has to leave nothing behind.
#
#   scripts/check_package.sh [--release NAME] [--keep DIR]
#
#   --release NAME  the Debian release to install it on (this system's). A package fits only the
#                   release that it was built on, so for another one run this script there
#   --keep DIR      a folder to make, for the package and the bare Debian, which stay there
#   BUILD=...       a build folder with the programs (otherwise build/cpu is configured and built)
#
# Exit code 0: all in order; 1: a fault; 77: no fault so far, but something named is missing:
# lintian, root, debootstrap, or a network. Takes a gigabyte of disk and some minutes after the
# build.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

not_run() {
    echo "Package: not run ($*)"
    exit 77
}
die() {
    echo "Package: $*" >&2
    exit 1
}

. /etc/os-release
release=${VERSION_CODENAME:-} keep=''
take_options release keep -- "$@"
[[ ! -e $keep ]] || { echo "error: --keep $keep: is there already" >&2 && exit 2; }
[[ -z $keep ]] || keep=$(realpath -m "$keep")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v lintian >/dev/null || not_run "needs lintian: apt-get install lintian"
build=${BUILD:-build/cpu}
if [[ -z ${BUILD:-} ]]; then
    scripts/install_dependencies.sh file
    cmake --preset cpu
    cmake --build --preset cpu --target gptrain gpt-preprocess
fi

work=${keep:-$(mktemp -d)}
clean_up() { [[ $keep ]] || rm -rf --one-file-system "$work"; }
trap clean_up EXIT
mkdir -p "$work"
chmod 755 "$work"  # apt reads the package, and the user the folder, without root's rights
log=$work/log

# ---- the package, and lintian -------------------------------------------------------------------

(cd "$build" && cpack -G DEB -B "$work") >"$log" 2>&1 || die "cpack fails: $(tail -n 3 "$log")"
rm -rf "$work/_CPack_Packages"
package=$(echo "$work"/gptrain_*.deb)
version=$(dpkg-deb -f "$package" Version)
lintian --allow-root --fail-on error,warning "$package" >"$log" 2>&1 ||
    die "lintian finds: $(<"$log")"
echo "Package: lintian finds no error and no warning in $(basename "$package")."

# ---- a bare Debian ------------------------------------------------------------------------------

((EUID == 0)) || not_run "to install it needs root"
command -v debootstrap >/dev/null || not_run "to install it needs debootstrap"
[[ $ID == debian ]] || not_run "to install it needs Debian, this is $ID"
[[ $release ]] || not_run "this Debian names no release; give --release NAME"
unshare --pid --fork --mount-proc true 2>"$log" || not_run "no namespace of its own: $(<"$log")"
root=$work/$release
debootstrap --variant=minbase "$release" "$root" >"$log" 2>&1 ||
    not_run "debootstrap cannot make $release: $(tail -n 1 "$log")"
cat >>"$root/etc/apt/sources.list" <<END
deb http://deb.debian.org/debian $release-updates main
deb http://deb.debian.org/debian-security $release-security main
END

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/home/user OMPI_MCA_rmaps_base_oversubscribe=1
# inside CHROOT-OPTION... COMMAND: runs it in the bare Debian, which sees only its own processes.
inside() {
    local options=()
    while [[ $1 == --* ]]; do options+=("$1") && shift; done
    unshare --pid --fork --kill-child --mount-proc="$root/proc" \
        chroot "${options[@]}" "$root" "$@" >"$log" 2>&1 || die "'$*' fails: $(tail -n 20 "$log")"
}
as_user() { inside --userspec=nobody:nogroup bash -c "cd $HOME && $*"; }

# files: all files, but for caches, logs, apt's and dpkg's own lists, and files that adduser leaves
# for groups of other packages.
files() {
    (cd "$root" && find . -path ./proc -prune -o -path ./home/user -prune -o -path ./run -prune -o \
        -path './etc/*-' -prune -o -path ./var/cache -prune -o -path ./var/log -prune -o \
        -path ./var/lib/apt -prune -o -path ./var/lib/dpkg -prune -o -print | sort)
}

packages() { dpkg-query --root "$root" -W -f '${binary:Package}\n' | sort; }

install -d -o nobody "$root$HOME"
install -m 755 scripts/package/use.sh "$root/home"
inside apt-get update
inside apt-get upgrade -y
cp "$package" "$root/home/gptrain.deb"
files >"$work/before"
packages >"$work/packages"

# ---- installed, used, removed -------------------------------------------------------------------

inside apt-get install -y --no-install-recommends /home/gptrain.deb
as_user /home/use.sh "${version%-*}"
inside apt-get install -y --no-install-recommends openmpi-bin
as_user mpirun -n 2 gptrain --config pages.yaml --set output_dir=ranks --set training.steps=2 \
    --set training.micro_batch_size=1

inside apt-get purge -y --autoremove gptrain openmpi-bin
! dpkg-query --root "$root" -W gptrain >/dev/null 2>&1 || die "dpkg still knows gptrain"
# apt keeps dependencies that have a high priority in Debian, although nothing needs them any more.
mapfile -t kept < <(packages | comm -13 "$work/packages" -)
((${#kept[@]} == 0)) || inside apt-get purge -y "${kept[@]}"
files | diff "$work/before" - >"$log" || die "it leaves a difference behind: $(head -n 20 "$log")"
echo "Package: installs, works and goes without a trace on a bare $release."
