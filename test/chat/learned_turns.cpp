#include <string>
#include <vector>

#include "chat/conversation.h"
#include "chat/turns.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

std::vector<LearnedText> learned_with(const std::string& source, const Json& messages) {
    return render_learned(ChatTemplate(source, "t"), {messages}, variables);
}

/// The texts, with their learned parts in braces.
std::vector<std::string> shown_with(const std::string& source, const Json& messages) {
    std::vector<std::string> shown;
    for (LearnedText& text : learned_with(source, messages)) {
        for (auto range = text.learned.rbegin(); range != text.learned.rend(); ++range) {
            text.text.insert(range->end, "}");
            text.text.insert(range->begin, "{");
        }
        shown.push_back(text.text);
    }
    return shown;
}

}  // namespace

TEST_CASE("a template that does not say what the assistant writes is refused") {
    const Json two = Json::array({message("user", "a"), message("assistant", "b"),
                                  message("user", "c"), message("assistant", "d")});
    // Writes the last turn differently from earlier ones, the user's too.
    const std::string last =
        "{% for m in messages %}{{ m.content }}{{ '!' if loop.last else '.' }}{% endfor %}";
    CHECK(error_of([&] {
              learned_with(last, two);
          }).find("messages[3]: the template does not write the answer behind") == 0);
    CHECK(error_of([&] { learned_with(last, two); }).find("from byte 5 on") != std::string::npos);
    const std::string longer =
        "{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}and so on{% endif %}";
    CHECK(error_of([&] { learned_with(longer, two); }).find("messages[3]") == 0);
    const std::string in_set =
        "{% set x %}{% generation %}{{ 1 }}{% endgeneration %}{% endset %}{{ x }}";
    CHECK(error_of([&] { learned_with(in_set, two); }).find("inside a macro or {% set %}") !=
          std::string::npos);
    // Without a mask to make, such a template is one like others.
    CHECK(ChatTemplate(in_set, "t").render(two, variables, true) == "1");

    // A conversation that begins with the assistant, with a template that looks at the first
    // message.
    const std::string first = "{{ messages[0].content }}";
    const Json alone = Json::array({message("assistant", "a")});
    const std::string early = error_of([&] { learned_with(first, alone); });
    CHECK(early.find("messages[0]: the conversation begins with the assistant") == 0);
    CHECK(early.find("'0' is undefined") != std::string::npos);

    Json many = Json::array();
    for (std::int64_t i = 0; i <= max_learned_turns; ++i)
        many.push_back(message("assistant", "x"));
    const std::string plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
    CHECK(error_of([&] { learned_with(plain, many); }).find("the limit is 1024") !=
          std::string::npos);
    many.erase(many.begin());
    CHECK(learned_with(plain, many)[0].learned.size() == std::size_t{max_learned_turns});
    const std::string tagged =
        "{% for m in messages %}{% generation %}{{ m.content }}"
        "{% endgeneration %}{% endfor %}";
    many.push_back(message("assistant", "y"));
    CHECK(parts_of(learned_with(tagged, many)).back() == "y");
}

TEST_CASE("a message is learned as it is written where it is the last") {
    const Json two = Json::array({message("user", "a"), message("assistant", "b"),
                                  message("user", "c"), message("assistant", "d")});
    using Texts = std::vector<std::string>;
    const std::string head =
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}<think>"
        "</think>{% endif %}{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}"
        "<assistant>";
    // Qwen3 writes an empty thought in the last answer only.
    CHECK(shown_with(head + "{% endif %}", two) ==
          Texts{"<user>a</><assistant>{<think></think>b</>}",
                "<user>a</><assistant>b</><user>c</><assistant>{<think></think>d</>}"});
    // Phi 3.5 ends every text with the end of document.
    const std::string ends =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if "
        "add_generation_prompt %}<assistant>{% else %}</s>{% endif %}";
    CHECK(shown_with(ends, two) ==
          Texts{"<user>a</><assistant>{b</></s>}",
                "<user>a</><assistant>b</><user>c</><assistant>{d</></s>}"});
    // DeepSeek R1 begins a thought that answers lack: what both have in common is not learned, and
    // no part of a mark.
    const std::string thinks =
        "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}</>{% endfor %}"
        "{% if add_generation_prompt %}<assistant><think>{% endif %}";
    CHECK(shown_with(thinks, two) ==
          Texts{"<user>a</><assistant>{b</>}<user>c</><assistant>{d</>}"});
    Json marked = two;
    marked[1]["content"] = "<thing>";
    CHECK(shown_with(thinks, marked)[0].find("<assistant>{<thing></>}") != std::string::npos);
    marked[1]["content"] = "<think>why</think>b";
    CHECK(error_of([&] {
              learned_with(thinks, marked);
          }).find("messages[1]: the template leaves out the reasoning") == 0);
    // Words that an answer shares with the prompt by chance are learned.
    const std::string begins =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>So let{% endif %}";
    marked[1]["content"] = "So what";
    CHECK(shown_with(begins, marked) ==
          Texts{"<user>a</><assistant>{So what</>}<user>c</><assistant>{d</>}"});
    // A text that nobody learns is no document.
    Json asked = two;
    asked.push_back(message("user", "e"));
    CHECK(shown_with(ends, asked).size() == 2);
}

TEST_CASE("an error of a template names the message") {
    const Json three = Json::array({message("user", "a"), message("assistant", "b"),
                                    message("tool", "c"), message("user", "d")});
    const ChatTemplate chat(
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}"
        "{% endif %}{{ m.content }}{% endfor %}{{ 'x' if add_generation_prompt else '' }}",
        "t");
    CHECK(error_of([&] { render_messages(chat, three, variables, true); }) ==
          "messages[2]: t: line 1: the template refuses the conversation: no tools");
    CHECK(error_of([&] {
              render_learned(chat, {three, {}, "turns"}, variables);
          }).starts_with("turns[2]: t: line 1:"));
    // One that no message causes names none.
    const ChatTemplate broken("{{ missing.x }}", "t");
    CHECK(error_of([&] { render_messages(broken, three, variables, true); }) ==
          "t: line 1: 'missing' is undefined");
}

TEST_CASE("messages are learned with their weights, and one of the weight 0 is not") {
    const Json messages = Json::array({message("user", "a"), message("assistant", "BAD"),
                                       message("user", "b"), message("assistant", "GOOD")});
    using Parts = std::vector<std::string>;
    const std::string plain = "{% for m in messages %}{{ m.content }}|{% endfor %}";
    const std::string tags =
        "{% for m in messages %}{% if m.role == 'user' %}u{% else %}{% generation %}"
        "{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}";
    const auto learned = [&](const std::string& source) {
        return render_learned(ChatTemplate(source, "t"), {messages, {{1, 0.0f}, {3, 0.25f}}},
                              variables);
    };
    CHECK(parts_of(learned(plain)) == Parts{"GOOD|"});
    CHECK(parts_of(learned(tags)) == Parts{"GOOD"});
    for (const std::string& source : {plain, tags})
        CHECK(learned(source).front().weights == std::vector<float>{0.25f});
    const auto both = render_learned(ChatTemplate(plain, "t"), {messages, {{1, 0.5f}}}, variables);
    CHECK(both.front().weights == std::vector<float>{0.5f, 1.0f});
    // "a|BAD|b|GOOD|": tokens that begin at these bytes.
    CHECK(token_weights(std::vector<std::size_t>{0, 2, 5, 6, 8, 12}, both.front()) ==
          std::vector<float>{0, 0.5f, 0.5f, 0, 1, 1});
    const std::string twice = "{% generation %}a{% endgeneration %}";
    CHECK(error_of([&] { learned(twice); }).find("encloses 1 texts in {% generation %} for 2") !=
          std::string::npos);
}
