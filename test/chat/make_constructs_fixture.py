#!/usr/bin/env python3
"""Makes constructs.jsonl: small templates, a construct each, and their texts in Jinja as transformers
sets it up, without gptrain. The text is null where Jinja refuses the template.

    pip install transformers==5.23.0 jinja2==3.1.6
    test/chat/make_constructs_fixture.py
"""
import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

MESSAGES = [dict(role="system", content="Be kind."), dict(role="user", content=" Hi "),
            dict(role="assistant", content="Ho", n=3), dict(role="user", content="Bye")]
VARIABLES = dict(s="a b\u00e9\nc", n=7, x=2.5, nothing=None, yes=True,
                 d=dict(b=1, A=[1, 2], c=dict(e="\u00e9")), words=["b", "A", "c", "a"],
                 many=[dict(k="x", v=2, deep=dict(z=1)), dict(k="y", v=1), dict(k="x", v=3)])
FIXED = datetime.datetime(2026, 1, 1, 15, 4, 5)  # SOURCE_DATE_EPOCH=1767279845

TEMPLATES = r"""
{% macro f(a, b='B', c=a) %}{{ a ~ b ~ c }}{% endmacro %}{{ f(1) }}|{{ f(1, c=2) }}|{{ f(b=0, a=9) }}
{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f() }}{{ f(f(f(1))) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=1) }}
{% macro f() %}{{ later }}{% endmacro %}{% set later = 'x' %}{{ f() }}{% for i in [1] %}{% set later = 'y' %}{{ f() }}{% endfor %}
{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f(a) %}{% set b = a %}{% set n = 1 %}{{ n }}{% endmacro %}{{ f(3) }}{{ b }}{{ n }}
{% for m in messages %}{% macro f() %}{{ m.role }}{% endmacro %}{{ f() }};{% endfor %}
{% macro f(x) %}{% for i in x %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endmacro %}{{ f([1, 2, 3]) }}
{% macro f() %}{% break %}{% endmacro %}
{% macro f(a, b) %}{{ a }}{% endmacro %}{% set g = f %}{{ g('x') }}{{ f is defined }}{{ f is callable }}
{% macro f() %}({{ caller() }}){% endmacro %}{% call f() %}in{{ n }}{% endcall %}
{% macro f(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) f('abc') %}{{ i }}{{ x }}{% endcall %}
{% macro f(x) %}{{ x }}{% endmacro %}{% call g() %}{% endcall %}
{% filter upper %}a{{ s }}{% endfilter %}
{% filter trim | replace('a', 'b') %}  a {{ n }} {% endfilter %}.
{% set t | upper %}x{{ n }}{% endset %}{{ t }}
{% set t %}{% set inner = 1 %}x{% endset %}{{ t }}{{ inner }}
{% with a = 1, n = n + 1 %}{{ a + n }}{% endwith %}{{ a }}{{ n }}
{{ 1.5 }} {{ 1e3 }} {{ 2.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.125 }} {{ -0.5 }} {{ 0.1 + 0.2 }}
{{ 7 / 2 }} {{ 8 / 2 }} {{ 7 // 2.0 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }}
{{ x * n }} {{ x > 2 }} {{ x == 2.5 }} {{ 2.0 == 2 }} {{ 1 == true }} {{ +n }} {{ -x }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 in [1, 2] == true }}
{{ 1 / 0 }}
{{ x // 0 }}
{{ '12' | int + 1 }} {{ ' 3.9 ' | int }} {{ 'z' | int }} {{ 'z' | int(5) }} {{ x | int }} {{ none | int }} {{ true | int }} {{ [] | int(default=4) }}
{{ '2.5' | float }} {{ 'z' | float }} {{ 3 | float }} {{ 'z' | float(1) }}
{{ missing | int }}
{{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 2.1 | round(method='ceil') }} {{ 2.675 | round(2, 'floor') }} {{ 7 | round }}
{{ -3 | abs }} {{ (-2.5) | abs }}
{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}
{% for k, v in {2: 'b', 1: 'a'} | dictsort %}{{ k }}={{ v }};{% endfor %}{{ {1: 2, 'a': none, 2.5: 3} }}
{{ d | dictsort(case_sensitive=true) | map('first') | join }} {{ dict(a=2, b=1) | dictsort(by='value', reverse=true) }}
{% for k, v in d | items %}{{ k }},{% endfor %}{% for k in missing | items %}{% endfor %}
{{ none | items | list }}
{{ 'a\n\nb' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}|{{ 'a\n' | indent(first=false) }}|
{{ none | indent }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %A %a %j %I %p %y %%') }} {{ strftime_now is defined }}
{{ words | sort | join }} {{ words | sort(reverse=true) | join }} {{ words | sort(case_sensitive=true) | join }} {{ many | sort(attribute='v') | map(attribute='v') | join }}
{{ [1, 'a'] | sort }}
{{ none | sort }}
{{ words | min }} {{ [3, 1.5, 2] | min }} {{ [3, 1] | max }} {{ many | max(attribute='v') | string }} {{ [] | max }}
{{ many | map(attribute='k') | unique | join }} {{ ['a', 'A', 'b'] | unique | join }} {{ ['a', 'A'] | unique(true) | join }}
{{ [1, 2, 3] | reverse | join }} {{ 'abc' | reverse }}
{{ [0, 1, '', 'a'] | select | join(',') }} {{ [1, 2, 3] | select('odd') | join }} {{ [1, 2, 3] | reject('equalto', 2) | join }} {{ [1, 5] | select('>', 2) | list }}
{{ many | selectattr('k', 'equalto', 'x') | map(attribute='v') | list }} {{ many | selectattr('deep') | list | length }} {{ many | rejectattr('k', 'in', ['x']) | first }}
{{ many | selectattr('deep.z', 'defined') | list }}
{{ many | selectattr('deep') | map(attribute='deep.z') | list }}
{{ none | selectattr('a') | list }}{{ none | map(attribute='a') | list }}{{ none | select | list }}{{ missing | map('upper') | list }}
{% if none | selectattr('a') %}true{% endif %}{% if [] | map('upper') %}true{% endif %}{% if [] | list %}no{% endif %}
{{ many | selectattr('k') | length }}
{{ none | length }}
{{ none | list }}
{{ none | join }}
{{ none | first }}
{{ none | upper }} {{ none | trim }} {{ none | string }} {{ none | default('d') }} {{ none | default('d', true) }} {{ none | tojson }} {{ none | replace('o', '0') }}
{{ words | map('upper') | join }} {{ ['a-b'] | map('replace', '-', '+') | first }} {{ many | map(attribute='deep', default='-') | list }} {{ many | map(attribute='deep.z', default=0) | first }}
{{ d }} {{ [1, 2.0, 'a', none, true, "it's", 'q"', '\n\t\x01é\u200b'] }} {{ (1,) }} {{ () }} {{ (1, 'a') }} {{ d.items() | list }}
{{ d | tojson }} {{ d | tojson(indent=2) }} {{ [] | tojson(indent=1) }} {{ [1.5, 1e20, true, none] | tojson }} {{ 'é<&\u007f' | tojson(ensure_ascii=true) }} {{ dict(b=1, a=2) | tojson(sort_keys=true, separators=(',', ':')) }} {{ {1: 2} | tojson }}
{{ missing | tojson }}
{{ d == {'b': 1, 'A': [1, 2], 'c': {'e': 'é'}} }} {{ [1, [2]] == [1, [2.0]] }} {{ (1, 2) == [1, 2] }} {{ [1] in [[1]] }} {{ d != d }}
{{ [1] + [2, 3] }} {{ 'ab' * 2 }} {{ [0] * 2 }} {{ '-' * n }} {{ (1,) + (2,) }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ [1, 2, 3, 4][::2] }} {{ 'abcdef'[1:-1:2] }} {{ s[2:4] }} {{ 'abc'[::-1] }} {{ [1, 2, 3][-2:] }} {{ 'é漢字'[1] }} {{ [1, 2][5] is defined }} {{ words.0 }}
{{ [1][::0] }}
{{ d.items is defined }} {{ d.items is callable }} {{ d['items'] is defined }} {{ s.upper is defined }} {{ words.append is defined }} {{ d.b }} {{ {'items': 3}['items'] }} {{ {'items': 3}.items is callable }}
{{ words.append('d') }}
{{ d.update({}) }}
{{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys() | list }} {{ d.values() | list }}
{{ ' a b  c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'abc'.find('c') }} {{ 'abc'.find('x') }} {{ ','.join(words) }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}
{{ '{}-{}'.format(1, 'x') }} {{ '{1}{0}{{}}{k}'.format(1, 2, k='v') }}
{{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('bc') }}
{{ 'abc'.startswith(['a']) }}
{{ 'a<b'|safe + '<' }} {{ '<' + '&'|safe }} {{ '<'|safe ~ '<' }} {{ '<' | e }} {{ "'\"&>" | escape }}
{{ missing is sequence }} {{ 'a' is sequence }} {{ 1.5 is float }} {{ 1 is integer }} {{ true is integer }} {{ true is number }} {{ 1.0 is number }} {{ 4 is even }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 1 is lt 2 }} {{ 2 is ge(3) }} {{ 1 is ne 2 }} {{ none is sameas none }} {{ d is mapping }} {{ d is iterable }}
{{ 'x' if missing is not defined else 'y' }} {{ n is not none and n is number }} {{ not n is none }}
{{ range(3) | list }} {{ range(1, 7, 3) | list }} {{ range(3, 0, -1) | list }} {{ range(0) | list }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}{% set t = 1, %}{{ t }}
{% set ns = namespace(a=1) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}
{{ raise_exception('no') }}
{{ messages | length }}{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ loop.nextitem is defined }}{% else %}none{% endfor %}
{{ missing.name }}
{{ none.name is defined }}
{{ messages[2].n }}{{ messages[0]['n'] is defined }}{{ messages[-1]['content'] }}{{ messages | last | tojson }}
{% for c in 'ab' %}{{ c }}{{ loop.last }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{{ 'a' 'b' }}{{ 'a' ~ 1 ~ none }}{{ 1 if false }}{{ (1 if false) is defined }}
{{ nothing }} {{ nothing == none }} {{ not nothing }} {{ nothing or 'x' }} {{ yes and n }}
{{ 'a' < 'b' }} {{ words | sort | first < 'b' }}
{{ none < 1 }}
{{ [none, 1] | min }}
""".strip().split("\n")


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return FIXED


def main():
    chat_template_utils.datetime = Frozen
    with open(pathlib.Path(__file__).parent / "constructs.jsonl", "w", encoding="utf-8") as out:
        first = dict(messages=MESSAGES, variables=VARIABLES)
        out.write(json.dumps(first, ensure_ascii=False) + "\n")
        for template in TEMPLATES:
            try:
                texts, _ = chat_template_utils.render_jinja_template(
                    conversations=[MESSAGES], chat_template=template, **VARIABLES)
                text = texts[0]
            except Exception:
                text = None
            out.write(json.dumps(dict(template=template, text=text), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
