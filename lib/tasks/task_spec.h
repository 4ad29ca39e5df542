// A task: what to ask a model about each document of a data file, and how to judge its answers
// (docs/evaluation.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/spec_words.h"

namespace gptrain {

enum class TaskKind {
    multiple_choice,  ///< which of several texts is likeliest after a prompt
    last_word,        ///< is the last word of a text what the model would write (LAMBADA)
    perplexity,       ///< how likely whole texts are
    exact_match,      ///< is what the model writes after a prompt the expected text
};
constexpr auto words_of(TaskKind) {
    using enum TaskKind;
    return std::to_array<Word<TaskKind>>({{multiple_choice, "multiple_choice"},
                                          {last_word, "last_word"},
                                          {perplexity, "perplexity"},
                                          {exact_match, "exact_match"}});
}

/// The documents of a plain text.
enum class PlainText { whole, lines, wikitext_pages };
constexpr auto words_of(PlainText) {
    using enum PlainText;
    return std::to_array<Word<PlainText>>(
        {{whole, "whole"}, {lines, "lines"}, {wikitext_pages, "wikitext_pages"}});
}

/// How the texts of a data set are cleaned (clean_text.h).
enum class TextCleaning { none, hellaswag, wikitext };
constexpr auto words_of(TextCleaning) {
    using enum TextCleaning;
    return std::to_array<Word<TextCleaning>>(
        {{none, "none"}, {hellaswag, "hellaswag"}, {wikitext, "wikitext"}});
}

/// How what the model writes is compared with the expected text.
enum class AnswerMatch {
    exact,
    stripped,  ///< without white space at both ends
    number,    ///< the last number in each of them
};
constexpr auto words_of(AnswerMatch) {
    using enum AnswerMatch;
    return std::to_array<Word<AnswerMatch>>(
        {{exact, "exact"}, {stripped, "stripped"}, {number, "number"}});
}

/// A text of any number of lines.
struct BlockText {
    std::string text;
};

/// One template or a list of them.
struct TemplateTexts {
    std::vector<std::string> texts;
    bool is_list = false;
};

struct TaskSpec {
    std::string name;    ///< the file's, without its extension; not a key
    std::string source;  ///< the file, for errors; not a key
    TaskKind kind = TaskKind::multiple_choice;
    std::string data;  ///< JSON lines, or plain text
    PlainText documents = PlainText::whole;
    std::optional<std::string> labels;  ///< a file with one line for each document
    TextCleaning clean = TextCleaning::none;

    // Of a prompt.
    BlockText description;                ///< before everything else
    std::int64_t few_shot = 0;            ///< solved examples before the question
    std::optional<std::string> examples;  ///< where they come from; not given: data
    std::optional<TemplateTexts> prompt;

    // Of multiple_choice.
    std::optional<TemplateTexts> choices;
    std::optional<BlockText> answer;  ///< template: the index of the right choice, or its name
    std::optional<TemplateTexts> answer_names;

    std::optional<BlockText> text;  ///< template, of last_word and perplexity

    // Of exact_match.
    std::optional<BlockText> target;  ///< template
    std::vector<BlockText> stop = {{"\n\n"}};
    std::int64_t max_tokens = 256;
    AnswerMatch match = AnswerMatch::stripped;
    bool ignore_case = false;
    bool ignore_punctuation = false;
};

}  // namespace gptrain
