// Renders conversations for test/peers/templates.py. Each line of stdin is a JSON object: a
// template, messages, variables, and "prompt", which adds the generation prompt, or "learn", which
// asks for what a model learns. Each line of stdout is the text, or the texts with their learned
// parts (in bytes), or an error.
#include <iostream>
#include <string>

#include "base/error.h"
#include "chat/conversation.h"

using namespace gptrain;

namespace {

Json answer_to(const Json& request) {
    const ChatTemplate chat(request.at("template").get<std::string>(), "template");
    const Json& messages = request.at("messages");
    const Json& variables = request.at("variables");
    if (!request.contains("learn"))
        return {{"text", chat.render(messages, variables, request.at("prompt").get<bool>())}};
    Json texts = Json::array();
    for (const LearnedText& one : render_learned(chat, {messages}, variables)) {
        Json learned = Json::array();
        for (const TextRange& part : one.learned)
            learned.push_back({part.begin, part.end});
        texts.push_back({{"text", one.text}, {"learned", learned}});
    }
    return {{"texts", texts}};
}

}  // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        Json answer;
        try {
            answer = answer_to(parse_json(line, "the request"));
        } catch (const Error& error) {
            answer = {{"error", error.what()}};
        }
        std::cout << to_line(answer) << '\n';
    }
}
