// The page at "/": talk to the model from a browser. It is one file and loads nothing else.
#pragma once

#include <string_view>

namespace gptrain {

constexpr std::string_view chat_page = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gptrain serve</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.55 system-ui, sans-serif;
          --page: #fff; --box: #f3f5f7; --text: #1b1f24; --soft: #57606a; --line: #c9d1d9;
          --main: #0b57d0; --on-main: #fff; --user: #dfeaff; --bad: #a1160a; --bad-box: #fdeceb; }
  @media (prefers-color-scheme: dark) {
    :root { --page: #14171c; --box: #20252c; --text: #e6e9ee; --soft: #a5b0bc; --line: #434d59;
            --main: #8ab4f8; --on-main: #10203a; --user: #253c61; --bad: #ffb4ab; --bad-box: #44211e; }
  }
  * { box-sizing: border-box; }
  [hidden] { display: none !important; }
  body { display: flex; flex-direction: column; height: 100vh; height: 100dvh; margin: 0;
         color: var(--text); background: var(--page); }
  body > * { padding: .75rem max(1rem, 50% - 24rem); }
  h1 { margin: 0; border-bottom: 1px solid var(--line); font-size: 1.05rem; overflow-wrap: anywhere; }
  main { display: flex; flex: 1; flex-direction: column; gap: .75rem; min-height: 8rem;
         overflow-y: auto; }
  main:empty::before { content: "Say something to the model."; margin: auto; color: var(--soft); }
  main div { flex: none; max-width: 100%; padding: .5rem .85rem; border-radius: .8rem; white-space: pre-wrap;
             overflow-wrap: anywhere; }
  .user { align-self: flex-end; margin-left: 15%; background: var(--user); }
  .assistant { align-self: flex-start; background: var(--box); }
  .note { align-self: center; color: var(--soft); font-size: .875rem; }
  .error { background: var(--bad-box); color: var(--bad); }
  main[aria-busy=true] .assistant:last-child::after { content: " \2026"; color: var(--soft); }
  form { border-top: 1px solid var(--line); }
  textarea, input, button { border: 1px solid var(--line); border-radius: .6rem; font: inherit; }
  textarea { display: block; width: 100%; padding: .6rem .85rem; resize: vertical;
             color: var(--text); background: var(--page); }
  input { padding: .25rem .5rem; color: var(--text); background: var(--page); }
  button { padding: .4rem 1rem; color: var(--text); background: var(--box); cursor: pointer; }
  #send { border-color: var(--main); color: var(--on-main); background: var(--main); }
  :focus-visible { outline: 2px solid var(--main); outline-offset: 1px; }
  .row { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin-top: .6rem; }
  label { display: flex; gap: .5rem; align-items: center; color: var(--soft); font-size: .875rem; }
  #temperature, #tokens { width: 4.25rem; }
  #token { width: 10rem; }
  ::placeholder { color: var(--soft); opacity: 1; }
</style>
</head>
<body>
<h1 id="model">gptrain serve</h1>
<main id="talk" aria-live="polite" aria-busy="false"></main>
<form id="form">
  <textarea id="text" rows="2" autofocus aria-label="Your text" placeholder="Your text"></textarea>
  <div class="row">
    <button id="send">Send</button>
    <button id="stop" type="button" hidden>Stop</button>
    <button id="clear" type="button">Start over</button>
    <label>Temperature <input id="temperature" type="number" min="0" step="0.1" value="0.8"></label>
    <label>Tokens <input id="tokens" type="number" min="1" placeholder="all"></label>
    <label id="token-field" hidden>Token of the server
      <input id="token" type="password" autocomplete="off"></label>
  </div>
</form>
<script>
'use strict';
const at = id => document.getElementById(id);
let model = null, messages = [], stopper = null, hasForgotten = false;

const show = (kind, text) => {
  const box = document.createElement('div');
  box.className = kind;
  box.textContent = text;
  at('talk').append(box);
  scrollToEnd();
  return box;
};
const isAtEnd = () =>
  at('talk').scrollHeight - at('talk').scrollTop - at('talk').clientHeight < 80;
const scrollToEnd = () => { at('talk').scrollTop = at('talk').scrollHeight; };

// The reply to a request, which has a body or is a GET.
const ask = async (path, body) => {
  const headers = {'Content-Type': 'application/json'};
  if (at('token').value) headers.Authorization = 'Bearer ' + at('token').value;
  const reply = await fetch(path, body === undefined ? {headers} :
    {method: 'POST', headers, body: JSON.stringify(body), signal: stopper && stopper.signal});
  if (reply.ok) return reply;
  if (reply.status === 401) at('token-field').hidden = false;
  const error = await reply.json().catch(() => null);
  throw new Error(error && error.error ? error.error.message : 'status ' + reply.status);
};
const load = async () => {
  model = (await (await ask('/v1/models')).json()).data[0];
  document.title = model.id;
  at('model').textContent = model.id + (model.chat ? '' : ' (continues your text)');
};

// Calls `take` with each event of a stream.
const readEvents = async (reply, take) => {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, '');
      if (data !== '[DONE]') take(JSON.parse(data));
    }
  }
};

const countTokens = async asked => {
  if (asked.messages) return (await (await ask('/tokenize', asked)).json()).count;
  const reply = await ask('/v1/completions', {...asked, max_tokens: 0});
  return (await reply.json()).usage.prompt_tokens;
};
// Leaves out the oldest turns until a quarter of all tokens, or as many as are wanted, are free for
// the answer. Returns what to ask, and the tokens that the answer has room for.
const fit = async (asked, wanted) => {
  const all = model.max_model_len;
  const quarter = Math.max(Math.floor(all / 4), 1);
  const free = Math.min(wanted || quarter, quarter);
  let used = await countTokens(asked), forgot = false;
  while (asked.messages && used + free > all) {
    const next = asked.messages.findIndex((turn, i) => i > 0 && turn.role === 'user');
    if (next < 0) break;
    asked = {messages: asked.messages.slice(next)};
    used = await countTokens(asked);
    forgot = true;
  }
  if (used >= all)
    throw new Error(`the message has ${used} tokens, but only ${all} fit together with the ` +
                    'answer; shorten it, or start the server with a larger --context');
  if (forgot && !hasForgotten)
    show('note', `The conversation no longer fits into ${all} tokens; its oldest turns are forgotten.`);
  hasForgotten = hasForgotten || forgot;
  return [asked, all - used];
};

const answer = async text => {
  if (!model) await load();
  const before = messages;
  const wanted = Number(at('tokens').value);
  const [asked, room] = await fit(
    model.chat ? {messages: [...before, {role: 'user', content: text}]} : {prompt: text}, wanted);
  const box = show('assistant', model.chat ? '' : text);
  let said = '', end = null;
  try {
    const reply = await ask(model.chat ? '/v1/chat/completions' : '/v1/completions',
      {...asked, model: model.id, stream: true, temperature: Number(at('temperature').value),
       max_tokens: Math.min(wanted || room, room)});
    await readEvents(reply, event => {
      if (event.error) throw new Error(event.error.message);
      const choice = event.choices[0], follow = isAtEnd();
      const piece = (model.chat ? choice.delta.content : choice.text) || '';
      said += piece;
      box.textContent += piece;
      end = choice.finish_reason;
      if (follow) scrollToEnd();
    });
    if (!said) show('note', 'The model says nothing.');
    if (end === 'length' && !(wanted && wanted < room))
      show('note', `The answer ends because there is room for only ${model.max_model_len} tokens.`);
  } finally {
    // Templates may require that roles alternate: a turn without an answer is forgotten.
    if (!said) box.remove();
    else if (model.chat && messages === before)
      messages = [...asked.messages, {role: 'assistant', content: said}];
  }
};

const setBusy = busy => {
  at('send').hidden = busy;
  at('stop').hidden = !busy;
  at('talk').ariaBusy = busy;
};
const say = async text => {
  stopper = new AbortController();
  setBusy(true);
  show('user', text);
  try {
    await answer(text);
  } catch (error) {
    if (error.name !== 'AbortError') show('error', error.message);
  }
  stopper = null;
  setBusy(false);
};
at('form').onsubmit = event => {
  event.preventDefault();
  const text = at('text').value;
  if (!text || stopper) return;
  at('text').value = '';
  say(text);
};
at('text').onkeydown = event => {
  // While an input method composes, Enter chooses a word.
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at('form').requestSubmit();
  }
};
at('stop').onclick = () => stopper && stopper.abort();
at('clear').onclick = () => {
  if (stopper) stopper.abort();
  messages = [];
  hasForgotten = false;
  at('talk').replaceChildren();
};
// A link can fill in the form, and say one thing after the other:
// #temperature=0&tokens=20&say=Hello&say=Why
const given = new URLSearchParams(location.hash.slice(1));
for (const name of ['temperature', 'tokens']) if (given.has(name)) at(name).value = given.get(name);
(async () => {
  if (!given.has('say')) await load().catch(() => {});
  for (const text of given.getAll('say')) if (text) await say(text);
})();
</script>
</body>
</html>
)html";

}  // namespace gptrain
