#!/usr/bin/env bash
# The page of gptrain serve, in a headless Chromium: it loads nothing else, and shows what the model
# says, or why it says nothing. It can be read on any screen.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/browser_lib.sh"
make_data
make_spec
train 0 run training.steps=40 training.global_batch_size=8 lr_schedule.decay_steps=60 \
    model.max_position_embeddings=64

# show HASH: the page with this fragment, when it has its answer; its elements go to the file page.
show() {
    local i
    for ((i = 0; i < 10; ++i)); do
        render "$url/#$1" || fail "Chromium: $(tail -n 3 chromium.err)"
        # Its virtual time does not always wait for a stream.
        grep -q 'aria-busy="false"' page && return
    done
    fail "no answer: $(head -c 2000 page)"
}
# box KIND: the text of its last box of that kind.
box() { tr '\n' '~' <page | grep -o "<div class=\"$1\">[^<]*" | tail -n 1 | sed 's/^[^>]*>//' | tr '~' '\n'; }

serve --checkpoint run --template plain
show 'temperature=0&tokens=6&say=light'
[[ $(box user) == light ]] || fail "the user said: $(box user)"
expect_exit 0 "$gptrain" generate --checkpoint run --chat --template plain --prompt light --max-tokens 6 --temperature 0
[[ -n $(cat out) && $(box assistant) == "$(cat out)" ]] || fail "the page says $(box assistant), not $(cat out)"
# A turn that failed is forgotten, and does not spoil the next; one that was answered is not.
show "temperature=0&tokens=6&say=$(yes light | head -n 80 | tr '\n' '+')&say=light"
[[ $(box error) == *'but only 64 fit together with the answer; shorten it'* ]] || fail "error: $(box error)"
[[ $(box assistant) == "$(cat out)" ]] || fail "the page says $(box assistant), not $(cat out)"
show 'temperature=0&tokens=6&say=light&say=earth'
expect_exit 0 "$gptrain" generate --checkpoint run --chat --template plain --max-tokens 6 --temperature 0 \
    < <(printf 'light\nearth\n')
[[ $(box assistant) == "$(tail -n 1 out)" ]] || fail "the page says $(box assistant), not $(cat out)"
# Without a number of tokens it asks for all that there is room for, and forgets the oldest turns, as
# generate does.
show 'temperature=0&say=light&say=earth&say=darkness'
expect_exit 0 "$gptrain" generate --checkpoint run --chat --template plain --temperature 0 \
    < <(printf 'light\nearth\ndarkness\n')
[[ $(box assistant) == "$(grep . out | tail -n 1)" ]] || fail "the page says $(box assistant), not $(cat out)"
says err "its oldest turns are forgotten"
[[ $(box note) == "The answer ends because there is room for only 64 tokens." ]] || fail "note: $(box note)"
says page '>The conversation no longer fits into 64 tokens; its oldest turns are forgotten.<'
(($(grep -o 'are forgotten' page | wc -l) == 2)) || fail "not one note: $(grep -o '.\{60\}are forgotten' page)"
says page '<label id="token-field" hidden="">'
if grep -oE '(src|href)=' page; then fail "the page loads something"; fi
kill -TERM "$server"
wait "$server"

echo secret >token
serve --checkpoint run --token-file token
show 'say=light'
[[ $(box error) == "send the server's token: 'Authorization: Bearer TOKEN'" ]] || fail "error: $(box error)"
says page '<label id="token-field">'
show ''
says page '<label id="token-field">'
kill -TERM "$server"
wait "$server"

# Without a template it continues a text.
for tokens in 6 100; do
    expect_exit 0 "$gptrain" generate --checkpoint run --prompt "and the earth" --max-tokens $tokens --temperature 0
    cp out continued$tokens
done
serve --checkpoint run
show 'temperature=0&tokens=6&say=and%20the%20earth'
[[ $(box assistant) == "and the earth$(cat continued6)" ]] || fail "the page says $(box assistant), not $(cat continued6)"
show 'temperature=0&say=and%20the%20earth'
[[ $(box assistant) == "and the earth$(cat continued100)" ]] || fail "the page says $(box assistant), not $(cat continued100)"

# ---- how it looks ----

# The page, with every kind of box and a server that answers at once; then what it measures of itself:
# the width of the window, what does not fit into it, and the texts with less contrast than 4.5
# (WCAG 2.1, success criterion 1.4.3).
cat >server.js <<'END'
const json = (value, status = 200) => new Response(JSON.stringify(value), {status});
let asked = 0;
globalThis.fetch = async (path, options) => {
  if (path === '/v1/models') return json({data: [{id: 'x'.repeat(80), chat: true, max_model_len: 64}]});
  if (path === '/tokenize') return json({count: 20 * JSON.parse(options.body).messages.length});
  if (++asked === 3) return json({error: {message: 'wrong '.repeat(30)}}, 401);
  const choice = {delta: {content: 'Some words. '.repeat(20) + 'y'.repeat(200)}, finish_reason: 'length'};
  return new Response('data: ' + JSON.stringify({choices: [choice]}) + '\n\n');
};
location.hash = '#say=Hello&say=' + 'z'.repeat(200) + '&say=more&say=words';
END
cat >measure.js <<'END'
const channels = color => color.match(/[\d.]+/g).map(Number);
const luminance = color => {
  const part = c => c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = channels(color);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const background = element => {
  const color = getComputedStyle(element).backgroundColor;
  return channels(color)[3] === 0 && element.parentElement ? background(element.parentElement) : color;
};
const contrast = (element, pseudo) => {
  const [a, b] = [getComputedStyle(element, pseudo).color, background(element)].map(luminance);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const measure = () => {
  const result = {width: innerWidth, wide: [], pale: [], texts: 0};
  if (document.documentElement.scrollWidth > innerWidth) result.wide.push('page');
  for (const element of document.body.querySelectorAll('*')) {
    const box = element.getBoundingClientRect();
    if (box.width === 0) continue;
    if (box.left < 0 || box.right > innerWidth || element.scrollWidth > element.clientWidth + 1)
      result.wide.push(element.tagName + '.' + element.className);
    const pseudos = element.placeholder ? ['', '::placeholder'] : [''];
    for (const pseudo of pseudos) {
      const has = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
      if (!has && element.tagName !== 'TEXTAREA' && element.tagName !== 'INPUT') continue;
      ++result.texts;
      if (contrast(element, pseudo) < 4.5) result.pale.push(element.tagName + '.' + element.className + pseudo);
    }
  }
  result.page = background(document.body);
  parent.postMessage(JSON.stringify(result), '*');
};
const wait = () => document.querySelectorAll('.assistant').length < 3 || at('talk').ariaBusy === 'true' ?
  setTimeout(wait, 20) : measure();
wait();
END
curl -s "$url/" >served.html
{ sed '/<script>/,$d' served.html; echo '<script>'; cat server.js; echo '</script>'
  sed -n '/<script>/,/<\/script>/p' served.html; echo '<script>'; cat measure.js; echo '</script></body></html>'; } >look.html
# A window of Chromium is not that narrow.
cat >frames.html <<'END'
<!DOCTYPE html><body style="display: flex; margin: 0; gap: 20px; background: #888">
<script>onmessage = event => document.body.append(event.data + '\n');</script>
<iframe src="look.html" style="width: 360px; height: 800px; border: 0; flex: none"></iframe>
<iframe src="look.html" style="width: 1280px; height: 800px; border: 0; flex: none"></iframe>
END
for scheme in dark=0 light=1; do
    render --window-size=1700,800 --hide-scrollbars --blink-settings=preferredColorScheme="${scheme#*=}" \
        --screenshot="$work/${scheme%=*}.png" "file://$work/frames.html"
    for width in 360 1280; do
        measured=$(grep -o "{\"width\":$width,.*}" page)
        [[ $measured == '{"width":'$width',"wide":[],"pale":[],"texts":'* ]] || fail "$scheme: $measured, $(tail -n 1 page)"
        echo "$measured" >>looks
    done
    [[ -s ${scheme%=*}.png ]] || fail "no picture: $(tail -n 3 chromium.err)"
done
(($(grep -o '"page":.*' looks | sort -u | wc -l) == 2)) || fail "not light and dark: $(cat looks)"
ends_well
finish
