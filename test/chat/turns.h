// Helpers of tests of conversations.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "chat/conversation.h"

namespace gptrain::test {

inline const Json variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

inline Json message(const std::string& role, const std::string& content) {
    return {{"role", role}, {"content", content}};
}

std::string error_of(const auto& act) {
    try {
        act();
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_input);
        return error.what();
    }
    return "none";
}

/// The learned parts of texts.
inline std::vector<std::string> parts_of(const std::vector<LearnedText>& texts) {
    std::vector<std::string> parts;
    for (const LearnedText& text : texts)
        for (const TextRange& range : text.learned)
            parts.push_back(text.text.substr(range.begin, range.end - range.begin));
    return parts;
}

}  // namespace gptrain::test
