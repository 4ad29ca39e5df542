#!/usr/bin/env python3
"""OpenAI's own client drives gptrain serve: models, completions, logprobs, echo, streaming, chat, and
errors as the client's own exceptions.

    pip install openai==3.54
    test/peers/openai_client.py

The model is the small one of test/tasks. Whatever the client receives is compared with what
`gptrain generate` writes.
"""

import json

import support

KEY = "secret-1"
PROMPTS = ["and the earth was", "light day evening", "waters under heaven let", "it's don't",
           "café naïve Äther"]
TOKENS = 24
CLOSE = 1e-4  # of log-probabilities


def generate(proof, model, prompt, *options):
    """The text that `generate` adds to a prompt by greedy decoding."""
    return proof.run(proof.gptrain, "generate", "--checkpoint", model, "--prompt", prompt,
                     "--max-tokens", TOKENS, "--temperature", 0, *options)[:-1]


def count(found, expected):
    """How many are as expected, and the words for it."""
    same = sum(a == b for a, b in zip(found, expected, strict=True))
    return same == len(expected), f"{same} of {len(expected)}"


def check_texts(proof, client, name, expected):
    whole = client.completions.create(model=name, prompt=PROMPTS, max_tokens=TOKENS, temperature=0)
    passed, figure = count([choice.text for choice in whole.choices], expected)
    usage = whole.usage
    passed = passed and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    proof.claim(passed, "completions are what `generate` writes", f"{figure} prompts, "
                f"{usage.prompt_tokens} + {usage.completion_tokens} tokens counted")

    streamed, events = [], 0
    for prompt in PROMPTS:
        stream = client.completions.create(model=name, prompt=prompt, max_tokens=TOKENS,
                                           temperature=0, stream=True)
        pieces = [event.choices[0].text for event in stream]
        events += len(pieces)
        streamed.append("".join(pieces))
    passed, figure = count(streamed, expected)
    proof.claim(passed and events > 2 * len(PROMPTS), "streamed completions are the same texts",
                f"{figure}, in {events} events")

    stopped = client.completions.create(model=name, prompt=PROMPTS[0], max_tokens=TOKENS,
                                        temperature=0, stop=[expected[0][9:14]])
    proof.claim(stopped.choices[0].text == expected[0][:expected[0].index(expected[0][9:14])]
                and stopped.choices[0].finish_reason == "stop", "a text of `stop` ends the answer",
                f"{len(stopped.choices[0].text)} of {len(expected[0])} characters, "
                f"finish_reason {stopped.choices[0].finish_reason}")


def check_logprobs(proof, client, name):
    """Log-probabilities of an answer, and of the same text as an echoed prompt."""
    largest, tokens, likeliest, echoed = 0, 0, 0, 0
    for prompt in PROMPTS:
        answer = client.completions.create(model=name, prompt=prompt, max_tokens=TOKENS,
                                           temperature=0, logprobs=3).choices[0]
        logprobs = answer.logprobs
        tokens += len(logprobs.tokens)
        for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs,
                                     logprobs.top_logprobs, strict=True):
            likeliest += top.get(token) == value == max(top.values())
        echo = client.completions.create(model=name, prompt=prompt + answer.text, max_tokens=0,
                                         logprobs=0, echo=True).choices[0]
        scored = echo.logprobs.token_logprobs
        # The answer may be divided into other tokens as a part of a prompt.
        if echo.logprobs.tokens[-len(logprobs.tokens):] == logprobs.tokens:
            pairs = list(zip(scored[-len(logprobs.tokens):], logprobs.token_logprobs))
            largest = max(largest, max(abs(a - b) for a, b in pairs))
            echoed += scored[0] is None and echo.text == prompt + answer.text
    proof.claim(likeliest == tokens, "by greedy decoding each token is the likeliest in logprobs",
                f"{likeliest} of {tokens} tokens")
    proof.claim(echoed >= 3 and largest < CLOSE,
                f"echoed texts have the log-probabilities of the answers within {CLOSE:g}",
                f"{echoed} texts, largest difference {largest:.1e}")


def check_chat(proof, client, name, model):
    expected = [generate(proof, model, prompt, "--chat", "--template", "chatml")
                for prompt in PROMPTS]

    def chat(prompt, **settings):
        return client.chat.completions.create(
            model=name, messages=[dict(role="user", content=prompt)], max_tokens=TOKENS,
            temperature=0, **settings)

    passed, figure = count([chat(prompt).choices[0].message.content for prompt in PROMPTS], expected)
    proof.claim(passed, "answers in a chat are what `generate --chat` writes", figure)

    streamed, usages = [], 0
    for prompt in PROMPTS:
        events = list(chat(prompt, stream=True, stream_options=dict(include_usage=True)))
        usages += events[-1].usage is not None and events[-1].usage.completion_tokens == TOKENS
        streamed.append("".join(event.choices[0].delta.content or ""
                                for event in events if event.choices))
    passed, figure = count(streamed, expected)
    proof.claim(passed and usages == len(PROMPTS), "streamed answers are the same, with usage",
                f"{figure}, usage in {usages}")

    scored = chat(PROMPTS[0], logprobs=True, top_logprobs=2).choices[0].logprobs.content
    right = sum(len(token.top_logprobs) == 2 and token.top_logprobs[0].logprob == token.logprob
                for token in scored)
    proof.claim(right == TOKENS, "answers in a chat have logprobs", f"{right} of {TOKENS} tokens")


def check_errors(proof, openai, client, url, name):
    def refused(claim, error, status, words, call):
        try:
            figure, passed = f"no error: {call()}", False
        except openai.APIStatusError as caught:
            message = (caught.body or {}).get("message", "")
            passed = isinstance(caught, error) and caught.status_code == status and words in message
            figure = f"{type(caught).__name__}, status {caught.status_code}, {json.dumps(message)}"
        proof.claim(passed, claim + " is refused", figure)

    stranger = openai.OpenAI(base_url=url, api_key="secret-2", max_retries=0)
    refused("a wrong key", openai.AuthenticationError, 401, "", stranger.models.list)
    refused("too long an answer", openai.BadRequestError, 400, "there is room for", lambda:
            client.completions.create(model=name, prompt=PROMPTS[0], max_tokens=5000))
    refused("too long a prompt", openai.BadRequestError, 400, "there is room for", lambda:
            client.completions.create(model=name, prompt="light " * 500, max_tokens=1))
    refused("another model", openai.NotFoundError, 404, name, lambda:
            client.completions.create(model="other", prompt=PROMPTS[0]))
    refused("a key that gptrain does not support", openai.BadRequestError, 400, "tools", lambda:
            client.chat.completions.create(
                model=name, messages=[dict(role="user", content="light")],
                tools=[dict(type="function", function=dict(name="f", parameters={}))]))


def prove(proof):
    import openai

    model = support.ROOT / "test/tasks/model"
    key = proof.work / "key"
    key.write_text(KEY + "\n", encoding="ascii")
    with proof.server(model, "--token-file", key, "--template", "chatml") as server:
        url = server.url + "/v1"
        client = openai.OpenAI(base_url=url, api_key=KEY, max_retries=0)
        names = [found.id for found in client.models.list()]
        name = names[0]
        proof.claim(names == [model.name] and client.models.list().data[0].object == "model",
                    f"models, asked with {support.versions('openai')}", ", ".join(names))
        check_texts(proof, client, name, [generate(proof, model, prompt) for prompt in PROMPTS])
        check_logprobs(proof, client, name)
        check_chat(proof, client, name, model)
        check_errors(proof, openai, client, url, name)


support.main("openai", __doc__, prove)
