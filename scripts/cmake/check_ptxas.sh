#!/usr/bin/env bash
# Runs nvcc and fails where ptxas only remarks that it could not do as a kernel asks: products that
# it serialises, registers that it does not hand over, instructions that it puts in.
#
#   check_ptxas.sh NVCC ARGUMENTS...
remarks='Potential Performance Loss|injected|setmaxnreg ignored'
said=$("$@" 2>&1)
code=$?
[[ -z $said ]] || printf '%s\n' "$said" >&2
((code == 0)) || exit "$code"
if grep -qE "$remarks" <<<"$said"; then
    echo "error: ptxas remarked on a kernel (see above)" >&2
    exit 1
fi
