# shellcheck shell=bash
# Sourced by scripts whose options all have a value.

# take_options NAME... -- ARGUMENT...: sets the variable NAME for each --NAME VALUE. --help prints the
# head of the script; what is no option of it ends it with exit code 2.
take_options() {
    local known=() name
    while [[ $1 != -- ]]; do
        known+=("$1")
        shift
    done
    shift
    while (($#)); do
        if [[ $1 == -h || $1 == --help ]]; then
            sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
            exit 0
        fi
        for name in "${known[@]}" ""; do
            [[ $1 != "--$name" ]] || break
        done
        if [[ -z $name ]]; then
            echo "error: unknown option '$1' (--help lists them)" >&2
            exit 2
        fi
        printf -v "$name" %s "${2:?$1 needs a value}"
        shift 2
    done
}
