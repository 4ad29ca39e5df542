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
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 48rem; margin: 0 auto; padding: 1rem; }
  h1 { font-size: 1.2rem; }
  #talk { min-height: 12rem; }
  #talk div { white-space: pre-wrap; overflow-wrap: anywhere; padding: .5rem .75rem;
              margin: .5rem 0; border-radius: .5rem; }
  #talk .user { background: #8883; margin-left: 3rem; }
  #talk .error { color: #c00; }
  textarea { width: 100%; box-sizing: border-box; font: inherit; }
  label { margin-right: 1rem; }
  input { font: inherit; width: 6rem; }
</style>
</head>
<body>
<h1 id="model">gptrain serve</h1>
<main id="talk" aria-live="polite" aria-busy="false"></main>
<form id="form">
  <textarea id="text" rows="3" autofocus aria-label="Your text"></textarea>
  <p>
    <button id="send">Send</button>
    <button id="stop" type="button" disabled>Stop</button>
    <button id="clear" type="button">Start over</button>
  </p>
  <p>
    <label>Temperature <input id="temperature" type="number" min="0" step="0.1" value="0.8"></label>
    <label>Tokens <input id="tokens" type="number" min="1" value="200"></label>
    <label>Token of the server <input id="token" type="password" autocomplete="off"></label>
  </p>
</form>
<script>
'use strict';
const at = id => document.getElementById(id);
let model = null, messages = [], stopper = null;

const headers = () => {
  const all = {'Content-Type': 'application/json'};
  if (at('token').value) all.Authorization = 'Bearer ' + at('token').value;
  return all;
};
const show = (kind, text) => {
  const box = document.createElement('div');
  box.className = kind;
  box.textContent = text;
  at('talk').append(box);
  return box;
};
const failure = async reply => {
  const body = await reply.json().catch(() => null);
  return new Error(body && body.error ? body.error.message : 'status ' + reply.status);
};
const load = async () => {
  const reply = await fetch('/v1/models', {headers: headers()});
  if (!reply.ok) throw await failure(reply);
  model = (await reply.json()).data[0];
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

const answer = async text => {
  if (!model) await load();
  const turns = messages;
  const turn = {role: 'user', content: text};
  const box = show('assistant', model.chat ? '' : text);
  const asked = {model: model.id, stream: true, temperature: Number(at('temperature').value),
                 max_tokens: Number(at('tokens').value)};
  if (model.chat) asked.messages = [...turns, turn]; else asked.prompt = text;
  let said = '';
  try {
    const reply = await fetch(model.chat ? '/v1/chat/completions' : '/v1/completions',
      {method: 'POST', headers: headers(), body: JSON.stringify(asked), signal: stopper.signal});
    if (!reply.ok) throw await failure(reply);
    await readEvents(reply, event => {
      if (event.error) throw new Error(event.error.message);
      const choice = event.choices[0];
      const piece = (model.chat ? choice.delta.content : choice.text) || '';
      said += piece;
      box.textContent += piece;
    });
  } finally {
    // Templates may require that roles alternate: a turn without an answer is forgotten.
    if (said) turns.push(turn, {role: 'assistant', content: said});
  }
};

const say = async text => {
  stopper = new AbortController();
  at('stop').disabled = false;
  at('talk').ariaBusy = true;
  show('user', text);
  try {
    await answer(text);
  } catch (error) {
    if (error.name !== 'AbortError') show('error', error.message);
  }
  stopper = null;
  at('stop').disabled = true;
  at('talk').ariaBusy = false;
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
