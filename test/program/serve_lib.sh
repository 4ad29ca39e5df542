# Shared by the scripts that talk to gptrain serve; sourced after lib.sh.

# serve OPTION...: starts a server in the background, as the process $server; $url reaches it. Its
# output goes to the files out and err. `launch` begins the command.
launch=()
serve() {
    : >out
    "${launch[@]}" "$gptrain" serve --port 0 "$@" >out 2>err &
    server=$!
    wait_for out "serving "
    url=$(sed -n 's|^serving .* at \(http://[^ ]*\)/ .*|\1|p' out)
}

# ends_well: stops the server, which says so and exits 0.
ends_well() {
    kill -TERM "$server"
    wait "$server"
    check_exit 0 $? "the server"
    says err "SIGTERM: the server finishes the answers that it has begun and stops"
}

# ask STATUS PATH [CURL-OPTION...]: the answer goes to the file reply.
ask() {
    local wanted=$1 path=$2 status
    shift 2
    status=$(curl -s -m 60 -o reply -w '%{http_code}' "$url$path" "$@")
    [[ $status == "$wanted" ]] || fail "status $status instead of $wanted: $path $*: $(head -c 400 reply)"
}

# complete STATUS JSON [CURL-OPTION...]: a completion of a request with these members.
complete() { ask "$1" /v1/completions -d "{$2}" "${@:3}"; }

# texts FILE: the texts of its choices, one a line.
texts() { grep -o '"text":"[^"]*"' "$1" | sed 's/^"text":"//; s/"$//'; }

# numbers NAME: the members of the list NAME in the file reply, one a line.
numbers() { grep -o "\"$1\":\[[^]]*\]" reply | tr ',' '\n' | tr -d '][' | sed "s/\"$1\"://"; }

# metric NAME: its value.
metric() {
    curl -s -m 10 "${auth[@]}" "$url/metrics" |
        awk -v line="$1 " 'index($0, line) == 1 { print $NF }'
}
auth=()

# has_metric NAME VALUE: it has that value within 10 seconds.
has_metric() {
    local i
    for ((i = 0; i < 100; ++i)); do
        [[ $(metric "$1") == "$2" ]] && return
        sleep 0.1
    done
    fail "$1 is $(metric "$1") instead of $2"
}
