# shellcheck shell=bash
# Sourced by scripts for their options.

# take_options NAME... -- ARGUMENT...: sets the variable NAME for each --NAME VALUE, NAME_A for
# --NAME-A VALUE. For a name that ends in "?", --NAME has no value and sets the variable to the option
# itself. The first argument that is no option sets the name that ends in "="; all such arguments
# become elements of the array that ends in "+". --help prints the head of the script. Any other
# argument ends the script with exit code 2.
take_options() {
    local known=" " name operand='' operands=''
    while [[ $1 != -- ]]; do
        case $1 in
            *=) operand=${1%=} ;;
            *+) operands=${1%+} ;;
            *) known+="$1 " ;;
        esac
        shift
    done
    shift
    while (($#)); do
        name=${1#--}
        name=${name//-/_}
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
        elif [[ $1 != -* && -n $operand ]]; then
            printf -v "$operand" %s "$1"
            operand=
            shift
        elif [[ $1 != -* && -n $operands ]]; then
            local -n array=$operands
            array+=("$1")
            shift
        else
            echo "error: unknown option '$1' (--help lists them)" >&2
            exit 2
        fi
    done
}
