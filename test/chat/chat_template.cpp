#include "chat/chat_template.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "catch.h"

using gptrain::ChatTemplate;
using gptrain::Json;

namespace {

const std::filesystem::path fixture_folder = std::filesystem::path(GPTRAIN_TEST_DATA) / "templates";

Json message(const char* role, const char* content) {
    return {{"role", role}, {"content", content}};
}

const Json conversation = Json::array({message("system", "Be kind."), message("user", " Hi "),
                                       message("assistant", "Ho"), message("user", "Bye")});

/// The text of a template for that conversation.
std::string rendered(const std::string& source) {
    return ChatTemplate(source, "t").render(conversation, Json::object(), true);
}

std::string error_of(const std::string& source) {
    try {
        rendered(source);
    } catch (const gptrain::Error& error) {
        CHECK(error.code() == gptrain::ExitCode::bad_input);
        return error.what();
    }
    return "none";
}

}  // namespace

TEST_CASE("conversations become the texts of transformers") {
    std::map<std::string, ChatTemplate> templates;
    std::ifstream lines(fixture_folder / "expected.jsonl");
    std::string line;
    std::set<std::string> conversations;
    int texts = 0;
    const Json variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    while (std::getline(lines, line)) {
        const Json expected = gptrain::parse_json(line, "expected.jsonl");
        const auto name = expected.at("template").get<std::string>();
        if (!templates.contains(name))
            templates.emplace(
                name, ChatTemplate(gptrain::read_file(fixture_folder / name, 1 << 20), name));
        CAPTURE(name, expected.at("messages").dump(), expected.at("prompt").get<bool>());
        const auto render = [&] {
            return templates.at(name).render(expected.at("messages"), variables,
                                             expected.at("prompt").get<bool>());
        };
        if (expected.at("text").is_null()) {
            CHECK_THROWS_AS(render(), gptrain::Error);
        } else {
            CHECK(render() == expected.at("text").get<std::string>());
        }
        conversations.insert(expected.at("messages").dump());
        ++texts;
    }
    CHECK(templates.size() >= 8);
    CHECK(conversations.size() >= 30);
    CHECK(texts == 760);
}

TEST_CASE("each construct writes what it does in Jinja") {
    // The time that strftime_now writes: 2026-01-01 15:04:05.
    setenv("SOURCE_DATE_EPOCH", "1767279845", 1);
    std::ifstream lines(std::filesystem::path(GPTRAIN_TEST_DATA) / "constructs.jsonl");
    std::string line;
    REQUIRE(std::getline(lines, line));
    const Json given = gptrain::parse_json(line, "constructs.jsonl");
    int texts = 0;
    int refusals = 0;
    while (std::getline(lines, line)) {
        const Json expected = gptrain::parse_json(line, "constructs.jsonl");
        CAPTURE(expected.at("template").get<std::string>());
        const auto render = [&] {
            return ChatTemplate(expected.at("template").get<std::string>(), "t")
                .render(given.at("messages"), given.at("variables"), false);
        };
        if (expected.at("text").is_null()) {
            CHECK_THROWS_AS(render(), gptrain::Error);
            ++refusals;
        } else {
            CHECK(render() == expected.at("text").get<std::string>());
            ++texts;
        }
    }
    CHECK(texts >= 60);
    CHECK(refusals >= 25);
}

TEST_CASE("reasoning has the names that templates read, as in transformers") {
    const ChatTemplate chat("{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}", "t");
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
        const Json messages = Json::array({{{"role", "assistant"}, {name, "so"}}});
        CHECK(chat.render(messages, Json::object(), false) == "so|so");
        CHECK(chat.uses(name));
    }
    CHECK(!ChatTemplate("{{ messages[0].content }}", "t").uses("thinking"));
}

TEST_CASE("named templates write conversations as their models read them") {
    std::map<std::string, std::string> texts;
    for (const gptrain::NamedTemplate& one : gptrain::named_templates()) {
        const Json variables = {{"bos_token", std::string(one.bos_token)},
                                {"eos_token", std::string(one.eos_token)}};
        texts[std::string(one.name)] =
            ChatTemplate(one.text, "t").render(conversation, variables, true);
    }
    CHECK(texts["chatml"] ==
          "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
          "<|im_start|>assistant\nHo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
          "<|im_start|>assistant\n");
    CHECK(texts["llama3"] ==
          "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
          "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\nHo<|eot_id|>"
          "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\n");
    CHECK(texts["mistral"] == "<s>[INST] Be kind.\n\n Hi  [/INST] Ho</s>[INST] Bye [/INST]");
    CHECK(texts["plain"] == "Be kind.\n\nUser:  Hi \nAssistant: Ho\nUser: Bye\nAssistant:");
}

TEST_CASE("what the subset lacks is named with its line") {
    const auto refused = [](const std::string& source, const std::string& words) {
        CAPTURE(source);
        const std::string error = error_of(source);
        CHECK(error.starts_with("t: line "));
        CHECK(error.find(words) != error.npos);
    };
    refused("\n{% import 'x' %}", "line 2: {% import %} is not supported");
    refused("{% for a in [] recursive %}{% endfor %}", "recursive loops");
    refused("a\n\n{{ messages | groupby }}", "line 3: the filter 'groupby' is not supported");
    refused("{{ messages | map('center') }}", "the filter 'center'");
    refused("{{ 1 is filter }}", "the test 'filter'");
    refused("{{ messages[1].content.center(3) }}", "the method 'center'");
    refused("{{ joiner() }}", "the function 'joiner'");
    refused("{{ 1e999 }}", "does not begin a number");
    refused("{{ strftime_now('%Q') }}", "a directive of '%Q' is not supported");
    refused("\n{% macro f(a) %}\n{{ a.b }}{% endmacro %}{{ f() }}", "line 3: 'a' is undefined");
    refused("{% macro f(a=1, b) %}{% endmacro %}", "a parameter without a default");
    refused("{% call f %}{% endcall %}", "expected a call");
    refused("{% set f %}{% break %}{% endset %}", "outside of a loop");
    refused("{% macro f() %}{% endmacro %}{{ [f] }}", "a function inside of another value");
    refused("{{ missing.name }}", "'missing' is undefined");
    refused("{{ missing + 'x' }}", "'missing' is undefined");
    refused("{{ 'a' + 1 }}", "'+' of a string and a number");
    refused("{{ namespace() }}", "printing a namespace");
    refused("{{ messages | tojson(default=4) }}", "the argument 'default' of the filter 'tojson'");
    refused("{{ raise_exception('no, ' ~ 1) }}", "refuses the conversation: no, 1");
    refused("{{ raise_exception([1, 'a']) }}", "refuses the conversation: [1, 'a']");
    refused("{{ raise_exception() }}", "refuses the conversation and gives no reason");
    refused("{% if true %}", "expected '{% endif %}'");
    refused("{% endif %}", "{% endif %}");
    refused("{{ 'a }}", "a string has no end");
    refused("{{ 1", "a block has no end '}}'");
    refused("{# x", "a comment has no end");
    refused("{% break %}", "outside of a loop");
    refused("{{ $ }}", "byte 36");
    refused("{{ 1 // 0 }}", "division by 0");
    refused("{{ 'a'.split('a', 'b') }}", "split needs an integer");
    refused("{{ 9223372036854775807 + 1 }}", "too large");
    refused("{{ 'ß' | upper }}", "upper of 'ß' is not supported");
    refused("{{ 'Σ' | lower }}", "lower of 'Σ'");
}

TEST_CASE("letters change case, and lists become lists of an attribute, as in Python") {
    CHECK(rendered("{{ 'L’ÉTÉ ŸϓЖ1' | lower }}") == "l’été ÿϓж1");
    CHECK(rendered("{{ 'l’été ǿж' | upper }}") == "L’ÉTÉ ǾЖ");
    CHECK(rendered("{{ 'éCOLE'.capitalize() }}|{{ ''.capitalize() }}") == "École|");
    CHECK(rendered("{{ messages | map(attribute='role') | join(',') }}") ==
          "system,user,assistant,user");
}

TEST_CASE("a text is split at each separator or at the first ones, as in Python") {
    CHECK(rendered("{{ 'a_b__c'.split('_') | join('|') }}") == "a|b||c");
    CHECK(rendered("{{ 'a_b__c'.split('_', 1) | join('|') }}") == "a|b__c");
    CHECK(rendered("{{ 'a_b__c'.split('_', maxsplit=2) | join('|') }}") == "a|b|_c");
    CHECK(rendered("{{ 'a_b__c'.split('_', 0) | join('|') }}") == "a_b__c");
    CHECK(rendered("{{ 'a_b__c'.split('_', -1) | join('|') }}") == "a|b||c");
    CHECK(rendered("{{ 'a_b__c'.split('_', 9) | join('|') }}") == "a|b||c");
}

TEST_CASE("a template's work, depth and values are limited") {
    const auto error = [](const std::string& source) { return error_of(source); };
    CHECK(error("{% for a in range(99999999) %}{% endfor %}").find("too much work") !=
          std::string::npos);
    std::string loops = "x";
    for (int i = 0; i < 9; ++i)
        loops = "{% for a in range(99) %}" + loops + "{% endfor %}";
    CHECK(error(loops).find("too much work") != std::string::npos);
    const std::string doubling =
        "{% set ns = namespace(x='0123456789') %}{% for i in range(60) %}"
        "{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    CHECK(error(doubling).find("too much work") != std::string::npos);
    CHECK(error("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}"
                "{% set ns.x = ns.x | replace('a', ns.x) %}{% endfor %}")
              .find("too much work") != std::string::npos);
    CHECK(error("{% set ns = namespace(x=1) %}{% for i in range(99) %}{% set ns.x = [ns.x] %}"
                "{% endfor %}")
              .find("nested") != std::string::npos);
    CHECK(error("{% set ns = namespace() %}{% set ns.a = ns %}").find("namespace") !=
          std::string::npos);
    CHECK(error("{{ " + std::string(500, '(') + "1" + std::string(500, ')') + " }}")
              .find("levels of nesting") != std::string::npos);
    const std::string recursion = "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}";
    CHECK(error(recursion).find("levels of nested expressions and macros") != std::string::npos);
    const std::string calls =
        "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}";
    CHECK(error(calls).find("levels of nested expressions and macros") != std::string::npos);
    const std::string branching =
        "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) ~ f(n - 1) }}{% endif %}{% endmacro %}"
        "{{ f(60) }}";
    CHECK(error(branching).find("too much work") != std::string::npos);
    CHECK(error("{{ 'a' * 999999999999 }}").find("too much work") != std::string::npos);
    CHECK(error("{{ [[]] * 999999999999 }}").find("too much work") != std::string::npos);
    std::string sum = "1";
    for (int i = 0; i < 500; ++i)
        sum += " + 1";
    CHECK(error("{{ " + sum + " }}").find("too long") != std::string::npos);
    CHECK(error("{{ messages[0]['x'] is defined }}\xFF").find("not UTF-8") != std::string::npos);
    const Json invalid = Json::array({message("user", "\xFF")});
    CHECK_THROWS_AS(ChatTemplate("{{ messages[0].content | trim }}", "t").render(invalid, {}, true),
                    gptrain::Error);
}

TEST_CASE("the template of a tokenizer_config.json is found") {
    using gptrain::template_in_config;
    CHECK(template_in_config({{"chat_template", "x"}}, "c") == "x");
    CHECK(template_in_config({{"eos_token", "x"}}, "c").empty());
    CHECK(template_in_config({{"chat_template", nullptr}}, "c").empty());
    const Json tool = {{"name", "tool_use"}, {"template", "a"}};
    const Json normal = {{"name", "default"}, {"template", "b"}};
    CHECK(template_in_config({{"chat_template", Json::array({tool, normal})}}, "c") == "b");
    CHECK_THROWS_AS(template_in_config({{"chat_template", Json::array({tool})}}, "c"),
                    gptrain::Error);
    CHECK_THROWS_AS(template_in_config({{"chat_template", 3}}, "c"), gptrain::Error);
}
