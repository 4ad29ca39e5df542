# Shared by the scripts that look at a page in a headless Chromium; sourced after lib.sh.
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    not_run "there is no Chromium"

# browse OPTION... URL
browse() {
    timeout --signal=KILL 60 "$chromium" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$work/chromium" --virtual-time-budget=100000000 "$@" 2>chromium.err
}
# render OPTION... URL: the page after its scripts have run, in the file page.
render() { browse --dump-dom "$@" >page; }

render about:blank || not_run "Chromium does not start: $(tail -n 1 chromium.err)"
