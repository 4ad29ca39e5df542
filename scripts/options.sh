# shellcheck shell=bash
# Sourced by scripts for their options.

# take_options NAME... -- ARGUMENT...: sets the variable NAME for each --NAME VALUE; for a name that
# ends in "?", --NAME has no value and sets the variable to the option itself. --help prints the
# head of the script; what is no option of it ends it with exit code 2.
take_options() {
    local known=" " name
    while [[ $1 != -- ]]; do
        known+="$1 "
        shift
    done
    shift
    while (($#)); do
        name=${1#--}
        if [[ $1 == -h || $1 == --help ]]; then
            sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
            exit 0
        elif [[ $1 == --* && $known == *" $name? "* ]]; then
            printf -v "$name" %s "$1"
            shift
        elif [[ $1 == --* && $known == *" $name "* ]]; then
            (($# > 1)) || { echo "error: $1 needs a value" >&2 && exit 2; }
            printf -v "$name" %s "$2"
            shift 2
        else
            echo "error: unknown option '$1' (--help lists them)" >&2
            exit 2
        fi
    done
}
