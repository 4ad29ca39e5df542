// The forms of lines of JSON that hold a conversation.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "chat/chat_template.h"

namespace gptrain {

/// The keys of a line.
struct ChatLineKeys {
    std::string messages = "messages";
    std::string role = "role";
    std::string content = "content";
    std::string prompt = "prompt";
    std::string response = "response";
};

/// The contents of a line.
struct ChatLine {
    enum class Form {
        conversation,
        pair,  ///< a prompt and its response, which without a template follow each other
    };
    Form form = Form::conversation;
    std::string source;                    ///< the key of the messages, for errors
    Json messages = Json::array();         ///< [{"role": ..., "content": ..., ...}]
    std::map<std::size_t, float> weights;  ///< of the assistant's messages, where below 1
    Json variables = Json::object();       ///< tools, documents and chat_template_kwargs
    std::set<std::string> unread_keys{};   ///< of the line; nothing of a conversation
};

/// Reads one of these forms:
/// - a list of messages under the key of messages, or "conversations" without it. The prompt may
///   stand next to it once more, as in UltraChat. A message has a
///   role and a content, or "from" and "value" (ShareGPT), whose roles human and gpt become user
///   and assistant. The key "weight" of the assistant's messages is a number from 0 to 1;
/// - a prompt and a response;
/// - "instruction", "input" and "output" (Alpaca): instruction and input, if any, are the user's.
/// Errors (bad_input), without a place: neither or several of them, or another key that holds words
/// of a conversation but is no part of these forms.
ChatLine read_chat_line(const Json& line, const ChatLineKeys& keys);

/// Error (bad_input) if the line has something that the template does not use: a key of a message,
/// tools or documents. `name` is the template's for the message. The templates that have a name
/// take only texts.
void require_used(const ChatLine& line, const ChatTemplate& chat_template, std::string_view name);

}  // namespace gptrain
