#!/usr/bin/env bash
# The guard around nvcc passes on nvcc's output and exit code, and fails on some remarks of ptxas.
# Usage: check_ptxas.sh GUARD
set -u
guard=$1
failures=0
expect() {
    local code=$1 said
    said=$("$guard" bash -c "$2" 2>&1)
    local got=$?
    if ((got != code)) || { [[ -n $3 ]] && ! grep -qF -- "$3" <<<"$said"; }; then
        echo "FAILED: exit code $got instead of $code, or not '$3': $2: $said"
        failures=$((failures + 1))
    fi
}
expect 0 'true' ""
expect 0 'echo "ptxas info    : Used 32 registers" >&2' "32 registers"
expect 3 'echo "error: no such file" >&2; exit 3' "no such file"
serialised="Potential Performance Loss: wgmma.mma_async instructions are serialized"
expect 1 "echo 'ptxas info    : (C7510) $serialised due to ...' >&2" "$serialised"
expect 1 "echo 'ptxas info    : (C7508) setmaxnreg ignored to maintain minimum requirement' >&2" ""
expect 1 "echo 'ptxas info    : (C7509) wait instruction injected' >&2" ""
((failures == 0))
