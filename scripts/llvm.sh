# shellcheck shell=bash
# Sourced by the checks that need a tool of LLVM 14.

# llvm_tool NAME: prints the name of the program; exit code 1 if there is none of version 14.
llvm_tool() {
    local candidate
    for candidate in "$1-14" "$1"; do
        if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
            echo "$candidate"
            return
        fi
    done
    return 1
}
