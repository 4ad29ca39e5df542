#include "tasks/task_items.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tasks/clean_text.h"

namespace gptrain {

Task::Task(TaskSpec spec)
    : spec_(std::move(spec)),
      prompt_(compile(spec_.prompt, "prompt")),
      choices_(compile_list(spec_.choices, "choices")),
      answer_(compile(spec_.answer, "answer")),
      answer_names_(compile_list(spec_.answer_names, "answer_names")),
      text_(compile(spec_.text, "text")),
      target_(compile(spec_.target, "target")) {}

Task::Templates Task::compile(const std::optional<TemplateTexts>& texts,
                              std::string_view key) const {
    Templates compiled;
    if (!texts) return compiled;
    compiled.is_list = texts->is_list;
    for (const std::string& one : texts->texts)
        compiled.templates.emplace_back(one, text(spec_.source, ": ", key));
    return compiled;
}

Task::Templates Task::compile(const std::optional<BlockText>& text, std::string_view key) const {
    if (!text) return {};
    return compile(TemplateTexts{.texts = {text->text}, .is_list = true}, key);
}

Task::Templates Task::compile_list(const std::optional<TemplateTexts>& texts,
                                   std::string_view key) const {
    Templates compiled = compile(texts, key);
    if (texts && !texts->is_list && !compiled.templates.front().is_expression()) {
        fail(ExitCode::usage, spec_.source, ": ", key,
             ": must be a list, or one expression that gives a list, such as \"{{ ", key, " }}\"");
    }
    return compiled;
}

std::vector<std::string> Task::texts_of(const Templates& templates, const Json& fields) {
    if (!templates.is_list) return templates.templates.front().render_list(fields);
    std::vector<std::string> texts;
    for (const TaskTemplate& one : templates.templates)
        texts.push_back(one.render(fields));
    return texts;
}

std::int64_t Task::answer_of(const Json& fields, std::int64_t choices) const {
    const std::string answer = answer_.templates.front().render(fields);
    if (!answer_names_.templates.empty()) {
        const std::vector<std::string> names = texts_of(answer_names_, fields);
        const auto found = std::find(names.begin(), names.end(), answer);
        if (found == names.end() || found - names.begin() >= choices)
            fail(ExitCode::bad_input, "the answer '", answer, "' is none of the names of choices");
        return found - names.begin();
    }
    const auto index = parse_int(answer);
    if (!index || *index < 0 || *index >= choices) {
        fail(ExitCode::bad_input, "the answer '", answer, "' is not an index from 0 to ",
             choices - 1, "; see answer_names");
    }
    return *index;
}

void Task::fill_choices(const Json& fields, TaskItem& item) const {
    item.choices = texts_of(choices_, fields);
    for (std::string& choice : item.choices)
        choice = clean_text(std::move(choice), spec_.clean);
    const std::size_t prompts = item.prompts.size();
    const std::size_t choices = item.choices.size();
    const std::size_t count = std::max(prompts, choices);
    if (count < 2 || choices == 0)
        fail(ExitCode::bad_input, "has ", choices, " choices, but a question needs two");
    if (prompts > 1 && choices > 1) {
        fail(ExitCode::bad_input, "has ", prompts, " prompts and ", choices,
             " choices; one of the two must be a single text");
    }
    item.answer = answer_of(fields, static_cast<std::int64_t>(count));
}

TaskItem Task::item_of(const TaskDocument& document) const {
    const Json& fields = document.fields;
    TaskItem item;
    item.place = document.place;
    try {
        for (const TaskTemplate& one : prompt_.templates)
            item.prompts.push_back(clean_text(one.render(fields), spec_.clean));
        if (spec_.kind == TaskKind::multiple_choice) fill_choices(fields, item);
        if (!text_.templates.empty()) {
            item.original = text_.templates.front().render(fields);
            item.text = clean_text(item.original, spec_.clean);
        }
        if (!target_.templates.empty()) item.target = target_.templates.front().render(fields);
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_input) throw;
        fail(ExitCode::bad_input, document.place, ": ", error.what());
    }
    return item;
}

namespace {

/// The text that follows the prompt of a solved example.
const std::string& solution_of(const TaskItem& item, TaskKind kind) {
    if (kind == TaskKind::exact_match) return item.target;
    const bool single = item.choices.size() == 1;
    return item.choices[single ? 0 : static_cast<std::size_t>(item.answer)];
}

}  // namespace

std::string Task::solved(const std::vector<TaskDocument>& examples, std::int64_t count,
                         const TaskDocument& document) const {
    std::string out;
    for (const TaskDocument& example : examples) {
        if (count == 0) break;
        if (example.fields == document.fields) continue;
        const TaskItem item = item_of(example);
        const bool single = item.prompts.size() == 1;
        out += text(item.prompts[single ? 0 : static_cast<std::size_t>(item.answer)], " ",
                    solution_of(item, spec_.kind), "\n\n");
        --count;
    }
    if (count > 0) {
        fail(ExitCode::bad_input, document.place, ": needs ", counted(count, "more solved example"),
             ", besides the document itself; add them to their file or ask for fewer");
    }
    return out;
}

void Task::put_before(TaskItem& item, const std::string& examples,
                      const std::optional<TaskChat>& chat) const {
    const std::string& description = spec_.description.text;
    item.in_chat = chat.has_value();
    for (std::string& prompt : item.prompts) {
        if (!chat) {
            prompt.insert(0, text(description, examples));
            continue;
        }
        try {
            prompt = chat->render(description, text(examples, prompt));
        } catch (const Error& error) {
            fail(error.code(), item.place, ": ", error.what());
        }
    }
}

std::vector<TaskItem> Task::items(const TaskUse& use) const {
    const std::filesystem::path folder =
        use.folder.empty() ? std::filesystem::path(spec_.source).parent_path() : use.folder;
    const auto path_of = [&](const std::string& name) { return folder / name; };
    TaskFile data = {
        .path = path_of(spec_.data), .documents = spec_.documents, .folder_key = use.folder_key};
    if (spec_.labels) data.labels = path_of(*spec_.labels);
    const std::vector<TaskDocument> documents = read_task_documents(data, use.limit);
    const bool has_prompt = !prompt_.templates.empty();
    const std::int64_t shots = use.few_shot.value_or(spec_.few_shot);
    if (shots > 0 && !has_prompt) {
        fail(ExitCode::usage, use.few_shot_key, " ", shots, ": task ", spec_.name, " of kind ",
             name_of(spec_.kind), " takes no examples");
    }
    if (use.chat && !has_prompt) {
        fail(ExitCode::usage, "--chat: task ", spec_.name, " of kind ", name_of(spec_.kind),
             " has no prompt that a user could write; measure it without --chat");
    }
    std::vector<TaskDocument> examples;
    if (shots > 0 && spec_.examples) {
        examples = read_task_documents({.path = path_of(*spec_.examples),
                                        .documents = spec_.documents,
                                        .folder_key = use.folder_key},
                                       shots + 1);
    } else if (shots > 0) {
        examples = read_task_documents(data, std::nullopt);
    }
    std::vector<TaskItem> items;
    for (const TaskDocument& document : documents) {
        items.push_back(item_of(document));
        put_before(items.back(), solved(examples, shots, document), use.chat);
    }
    return items;
}

}  // namespace gptrain
