#!/usr/bin/env python3
"""gptrain renders the chat templates of published models as Jinja does, the way transformers sets it up,
and learns from conversations by the rule of docs/fine-tuning.md.

    test/peers/templates.py [--templates DIR]

The templates are those in the sources of llama-cpp-python (models/templates of llama.cpp), or the files
*.jinja of a folder. The build needs the target render_lines. Where Jinja refuses a conversation, gptrain
has to refuse it, too.
"""

import collections
import datetime
import json
import os
import subprocess
import sys
import tarfile

import support

SOURCES = "llama-cpp-python==0.3.36"
TOKENS = dict(bos_token="<s>", eos_token="</s>")
TIME = datetime.datetime(2026, 1, 1)
SECONDS = "1767225600"  # of TIME in UTC, since 1970


def user(content):
    return dict(role="user", content=content)


def assistant(content, **more):
    return dict(role="assistant", content=content, **more)


def call(arguments, name="abc123def"):
    return dict(type="function", id=name, function=dict(name="weather", arguments=arguments))


def result(content, name="abc123def"):
    return dict(role="tool", name="weather", tool_call_id=name, content=content)


PARAMETERS = dict(
    type="object", required=["city"], properties=dict(
        city=dict(type="string", description="The city's name"),
        days=dict(type="integer", default=1, enum=[1, 2, 3]),
        list=dict(type="array", items=dict(type="number")), real=dict(type="number", default=0.5),
        deep=dict(type="object", properties=dict(a=dict(type=["string", "null"])))))
TOOLS = [
    dict(type="function", function=dict(name="weather", description='The "weather" <now>, it\'s \u00e9',
                                        parameters=PARAMETERS)),
    dict(type="function", function=dict(name="now", description="The time",
                                        parameters=dict(type="object", properties={})))]
ARGUMENTS = dict(city="Rome", days=2, real=0.5, yes=True, nothing=None, list=[1, "\u00e9"])
# Messages, and whether the tools are given.
CONVERSATIONS = {
    "one turn": ([user("Hi\n there ")], False),
    "two turns": ([user("Hi"), assistant("Hello! 1 < 2"), user("Bye"), assistant("See you.")], False),
    "system": ([dict(role="system", content="Be brief."), user("Hi"), assistant("Yo"), user("?")], False),
    "parts": ([user([dict(type="text", text="Hi "), dict(type="text", text="there")]), assistant("ok")],
              False),
    "tools": ([user("Weather in Rome?"), assistant("Sunny."), user("and?")], True),
    "calls": ([dict(role="system", content="Be brief."), user("Weather in Rome?"),
               assistant("", tool_calls=[call(ARGUMENTS)]), result('{"t": 20}'),
               assistant("20 degrees."), user("Thanks")], True),
    "two calls": ([user("Weather?"),
                   assistant(None, tool_calls=[call(dict(city="Rome")),
                                               call(dict(city="Oslo"), "abc123deg")]),
                   result("20"), result("-3", "abc123deg"), assistant("20 and -3.")], True),
    "calls as text": ([user("Weather?"), assistant("", tool_calls=[call('{"city": "Rome"}')]),
                       result("20"), assistant("20 degrees.")], True),
    "reasoning": ([user("2+2?"), assistant("4", reasoning_content="two and\n two"), user("3+3?"),
                   assistant("6", reasoning_content="three")], False),
    "thoughts": ([user("2+2?"), assistant("<think>\nadd\n</think>\n\n4"), user("3+3?"),
                  assistant("<think>\nagain\n</think>\n\n6")], False),
    "nothing": ([], False),
}


def fetch_templates(proof):
    """{name: text}"""
    if folder := proof.options.templates:
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jinja"))}
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                           "--no-binary", SOURCES.split("==")[0], "--dest", str(proof.work), SOURCES],
                          capture_output=True, text=True)
    archives = list(proof.work.glob("*.tar.gz"))
    if not archives:
        raise support.NotRun(f"pip download {SOURCES}: {done.stderr.strip().splitlines()[-1]}")
    with tarfile.open(archives[0]) as archive:
        return {os.path.basename(member.name): archive.extractfile(member).read().decode()
                for member in archive
                if member.name.endswith(".jinja") and "models/templates" in member.name}


def renderer():
    """A function that renders with transformers, at a fixed time."""
    from transformers.utils import chat_template_utils

    class Frozen(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return TIME

    chat_template_utils.datetime = Frozen

    def render(template, messages, prompt, variables):
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[messages], chat_template=template, add_generation_prompt=prompt, **TOKENS,
            **variables)
        return texts[0]

    return render


def by_gptrain(proof, requests):
    program = proof.options.build / "test/chat/render_lines"
    if not program.exists():
        raise support.NotRun(f"there is no {program}; build the target render_lines")
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True,
                          env=os.environ | {"SOURCE_DATE_EPOCH": SECONDS})
    return [json.loads(line) for line in done.stdout.splitlines()]


def requests_of(template):
    """All conversations, with and without generation prompt, and thoughts on and off."""
    kwargs = [{}]
    if "thinking" in template:
        kwargs += [dict(enable_thinking=True), dict(enable_thinking=False)]
    for kind, (messages, tools) in CONVERSATIONS.items():
        for more in kwargs:
            variables = more | (dict(tools=TOOLS) if tools else {})
            for prompt in (False, True):
                yield kind, dict(template=template, messages=messages, variables=TOKENS | variables,
                                 prompt=prompt)


def text_or_none(render, request):
    variables = {key: value for key, value in request["variables"].items() if key not in TOKENS}
    try:
        return render(request["template"], request["messages"], request["prompt"], variables)
    except Exception:
        return None


def compare_texts(proof, templates, render):
    requests = [(name, kind, request) for name, template in templates.items()
                for kind, request in requests_of(template)]
    answers = by_gptrain(proof, [request for _, _, request in requests])
    wrong, refused = {}, 0
    for (name, kind, request), answer in zip(requests, answers, strict=True):
        expected = text_or_none(render, request)
        refused += expected is None
        if answer.get("text") != expected:
            wrong.setdefault(name, f"{kind}: {answer!r:.300}, not {expected!r:.300}")
    proof.claim(not wrong, "the texts of Jinja",
                f"{len(templates) - len(wrong)} of {len(templates)} templates, {len(requests)} texts, "
                f"{refused} of them refused" + "".join(f"; {name}: {why}" for name, why in wrong.items()))


def compare_learned(proof, templates, render):
    """Templates with {% generation %} are left out: test/chat/learned has them."""
    import make_learned_fixture

    requests = []
    for name, template in templates.items():
        for messages, tools in CONVERSATIONS.values():
            while messages and messages[-1]["role"] != "assistant":
                messages = messages[:-1]
            if messages and "{% generation" not in template.replace("{%-", "{%"):
                variables = dict(tools=TOOLS) if tools else {}
                requests.append((name, variables, dict(template=template, messages=messages,
                                                       variables=TOKENS | variables, learn=True)))
    answers = by_gptrain(proof, [request for _, _, request in requests])
    wrong, counts = {}, collections.Counter()
    for (name, variables, request), answer in zip(requests, answers, strict=True):
        def text_of(messages, prompt):
            return render(request["template"], messages, prompt, variables)

        expected = make_learned_fixture.learned_texts(text_of, request["messages"])
        counts["refused" if expected is None else "one" if len(expected) == 1 else "several"] += 1
        found = answer.get("texts")
        found = found and [(one["text"], [tuple(part) for part in one["learned"]]) for one in found]
        expected = expected and [
            (text, [(len(text[:a].encode()), len(text[:b].encode())) for a, b in parts])
            for text, parts in expected]
        if found != expected:
            wrong.setdefault(name, f"{answer!r:.300}, not {expected!r:.300}")
    proof.claim(not wrong, "what is learned follows the rule",
                f"{len(requests)} conversations: {counts['one']} make one text, {counts['several']} several, "
                f"{counts['refused']} are refused" + "".join(f"; {n}: {why}" for n, why in wrong.items()))


def prove(proof):
    sys.path.insert(0, str(support.ROOT / "test/chat"))
    print(f"{proof.name}: {support.versions('transformers', 'jinja2')}, {SOURCES}")
    render = renderer()
    templates = fetch_templates(proof)
    compare_texts(proof, templates, render)
    compare_learned(proof, templates, render)


support.main("templates", __doc__, prove, templates="a folder of *.jinja files to render")
