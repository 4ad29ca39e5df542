// The questions of a task as texts, before any tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task_documents.h"
#include "tasks/task_spec.h"
#include "tasks/task_template.h"

namespace gptrain {

/// The question about one document. Each kind of task fills different fields.
struct TaskItem {
    std::string place;  ///< of the document, for errors

    // multiple_choice: the model compares prompts[i] + choices[i]; a single entry is combined with
    // every entry of the other list. exact_match has one prompt.
    std::vector<std::string> prompts;
    std::vector<std::string> choices;  ///< without the space before them
    bool in_chat = false;              ///< choices are whole answers: no space is before them
    std::int64_t answer = 0;           ///< index of the right one

    std::string text;      ///< last_word, perplexity
    std::string original;  ///< text before it was cleaned
    std::string target;    ///< exact_match
};

/// How a question becomes a conversation.
struct TaskChat {
    /// The text of a conversation up to where the answer begins. `system` may be empty.
    std::function<std::string(const std::string& system, const std::string& user)> render;
    std::string end_of_turn;  ///< a text that ends an answer, besides the task's; empty: none
};

/// Where the data are and how much of them to use.
struct TaskUse {
    std::filesystem::path folder;          ///< of data files; empty: the task file's
    std::optional<std::int64_t> limit;     ///< documents of each task
    std::optional<std::int64_t> few_shot;  ///< instead of the task's own
    std::optional<TaskChat> chat = {};     ///< empty: a question is a text to continue
    // The options or keys that set these, for errors.
    std::string_view folder_key = "--task-data";
    std::string_view few_shot_key = "--few-shot";
};

/// A task that is ready to ask.
class Task {
public:
    /// Error (usage) if a template is faulty.
    explicit Task(TaskSpec spec);

    const TaskSpec& spec() const { return spec_; }

    /// The questions about all documents. Solved examples are the first few of their file, without
    /// the document itself. In a conversation the description is the system's message, and the
    /// examples with the prompt are the user's. Errors (bad_input) name the document; (usage): the
    /// kind has no prompt for examples or a conversation.
    std::vector<TaskItem> items(const TaskUse& use) const;
    /// The question about one document, without examples. Error (bad_input) that names it.
    TaskItem item_of(const TaskDocument& document) const;

private:
    /// One template, or several.
    struct Templates {
        std::vector<TaskTemplate> templates;
        bool is_list = false;
    };
    Templates compile(const std::optional<TemplateTexts>& texts, std::string_view key) const;
    Templates compile(const std::optional<BlockText>& text, std::string_view key) const;
    /// Compiles templates that must be a list, or one expression that gives a list; otherwise Error
    /// (usage).
    Templates compile_list(const std::optional<TemplateTexts>& texts, std::string_view key) const;
    /// The texts: those of the list, or those that the expression gives.
    static std::vector<std::string> texts_of(const Templates& templates, const Json& fields);
    void fill_choices(const Json& fields, TaskItem& item) const;
    std::int64_t answer_of(const Json& fields, std::int64_t choices) const;
    /// The solved examples before the question about `document`.
    std::string solved(const std::vector<TaskDocument>& examples, std::int64_t count,
                       const TaskDocument& document) const;

    /// The description and the examples before the prompts, or all as a conversation.
    void put_before(TaskItem& item, const std::string& examples,
                    const std::optional<TaskChat>& chat) const;

    TaskSpec spec_;
    Templates prompt_;
    Templates choices_;
    Templates answer_;
    Templates answer_names_;
    Templates text_;
    Templates target_;
};

}  // namespace gptrain
