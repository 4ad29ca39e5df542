#!/usr/bin/env bash
# The page of gptrain report, in a headless Chromium: it loads nothing else, and all its charts show
# their values at the step under the pointer. It fits on a phone and on paper.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/browser_lib.sh"
make_data
make_spec
train 0 run training.steps=20 training.eval_interval=5
expect_exit 0 "$gptrain" report run --output report.html
if grep -oE '(src|href)=' report.html; then fail "the page loads something"; fi

# A visitor: a line with the legends of all charts at the start, with the pointer at two steps, and
# when it has left. The page admits only scripts that have its nonce.
nonce=$(sed -n 's/.*<script nonce="\([0-9]*\)">.*/\1/p' report.html)
cat >visitor <<END
<script nonce="$nonce">
const charts = [...document.querySelectorAll("figure.chart")];
const lines = [];
const look = () => lines.push(charts.map((chart) =>
  [".at", ".key b"].map((name) => chart.querySelector(name).textContent).join(" ") + " " +
  chart.querySelector(".cursor").style.visibility).join("|"));
const plot = charts[0].querySelector(".plot");
const {left, right, first, last} = plot.dataset;
const point = (step) => {
  const box = plot.getBoundingClientRect();
  const x = +left + (right - left) * (step - first) / (last - first);
  const clientX = box.left + x * box.width / plot.viewBox.baseVal.width;
  plot.dispatchEvent(new PointerEvent("pointermove", {clientX, clientY: box.top + 1}));
};
look();
point(7);
look();
point(13);
look();
plot.dispatchEvent(new PointerEvent("pointerleave"));
look();
document.body.append(Object.assign(document.createElement("pre"),
                                   {id: "seen", textContent: lines.join("\n")}));
</script>
END
cat report.html visitor >visited.html
render "file://$work/visited.html" || fail "Chromium: $(tail -n 3 chromium.err)"
sed -n '/<pre id="seen">/,/<\/pre>/p' page | sed 's/<[^>]*>//g' >seen
(($(wc -l <seen) == 4)) || fail "the visitor saw: $(cat seen) in $(tail -c 800 page)"

# loss STEP: as logged.
loss() { sed -n "s/^{\"step\": $1, \"loss\": \([^,]*\),.*/\1/p" run/metrics.jsonl; }
# shows LINE STEP VISIBILITY: the first chart is that of the loss, and every chart is at the step.
shows() {
    local line
    line=$(sed -n "$1p" seen)
    awk -v line="$line" -v loss="$(loss "$2")" -v step="$2" -v visible="$3" 'BEGIN {
        charts = split(line, chart, "|")
        if (charts < 4) exit 1
        split(chart[1], words, " ")
        if ((words[3] - loss) ^ 2 > (1e-4 * loss) ^ 2) exit 1
        for (i = 1; i <= charts; ++i) if (chart[i] !~ "^step " step " .*" visible "$") exit 1
    }' || fail "not step $2 and the loss $(loss "$2"), $3: $line"
}
shows 1 20 ""
shows 2 7 visible
shows 3 13 visible
shows 4 20 hidden

# As wide as a phone, nothing sticks out.
cat >phone.html <<'END'
<iframe src="report.html" width="390" height="800"></iframe>
<script>
addEventListener("load", () => {
  const {scrollWidth, clientWidth} = frames[0].document.documentElement;
  document.body.append(`widths: ${scrollWidth} in ${clientWidth}`);
});
</script>
END
render --allow-file-access-from-files "file://$work/phone.html" || fail "Chromium: $(tail -n 3 chromium.err)"
read -r inside outside < <(sed -n 's/.*widths: \([0-9]*\) in \([0-9]*\).*/\1 \2/p' page)
((outside > 300 && outside <= 390 && inside <= outside)) || fail "$inside pixels in $outside on a phone"

browse --print-to-pdf="$work/report.pdf" "file://$work/report.html" >/dev/null || fail "Chromium: $(tail -n 3 chromium.err)"
pages=$(grep -ac '/Type /Page$' report.pdf)
[[ $(head -c 5 report.pdf) == %PDF- ]] && ((pages > 0)) || fail "no pages in print: $pages"
finish
