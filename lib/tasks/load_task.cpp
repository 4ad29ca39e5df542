#include "tasks/load_task.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/utf8.h"
#include "tasks/built_in.h"
#include "tasks/task_keys.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_task_bytes = 1 << 20;
constexpr std::size_t max_choices = 1000;

enum class Need { may, must };

/// A key that only some kinds have.
struct KeyOfKinds {
    std::string_view key;
    std::vector<TaskKind> kinds;
    Need need = Need::may;
};

const std::vector<KeyOfKinds>& keys_of_kinds() {
    using enum TaskKind;
    static const std::vector<KeyOfKinds> keys = {
        {"labels", {multiple_choice, exact_match}},
        {"description", {multiple_choice, exact_match}},
        {"few_shot", {multiple_choice, exact_match}},
        {"examples", {multiple_choice, exact_match}},
        {"prompt", {multiple_choice, exact_match}, Need::must},
        {"choices", {multiple_choice}, Need::must},
        {"answer", {multiple_choice}, Need::must},
        {"answer_names", {multiple_choice}},
        {"text", {last_word, perplexity}, Need::must},
        {"target", {exact_match}, Need::must},
        {"stop", {exact_match}},
        {"max_tokens", {exact_match}},
        {"match", {exact_match}},
        {"ignore_case", {exact_match}},
        {"ignore_punctuation", {exact_match}},
    };
    return keys;
}

void check_keys(const SpecValue& given, const TaskSpec& task) {
    const std::string_view kind = name_of(task.kind);
    for (const KeyOfKinds& key : keys_of_kinds()) {
        const bool has =
            std::find(key.kinds.begin(), key.kinds.end(), task.kind) != key.kinds.end();
        const YamlNode* node = given.node.find(key.key);
        if (node != nullptr && !has)
            given.fail_at(node->location, key.key, "kind ", kind, " has no such key");
        if (node == nullptr && has && key.need == Need::must)
            given.fail_at(given.node.location, key.key, "missing key of kind ", kind);
    }
    if (task.kind != TaskKind::exact_match) return;
    if (task.prompt->is_list) given.inside(*given.node.find("prompt"), "prompt").reject("one text");
    for (const BlockText& stop : task.stop) {
        if (stop.text.empty())
            given.inside(*given.node.find("stop"), "stop").reject("texts that are not empty");
    }
}

}  // namespace

void read(const SpecValue& given, BlockText& value, Any) {
    if (given.node.kind != YamlNode::Kind::scalar) given.reject("text");
    // An escape such as "\_" gives a byte that is not a character.
    if (find_invalid_utf8(given.node.scalar) != std::string::npos) given.reject("UTF-8");
    value.text = given.node.scalar;
}

void read(const SpecValue& given, TemplateTexts& value, Any) {
    const YamlNode& node = given.node;
    value.is_list = node.kind == YamlNode::Kind::list;
    std::vector<BlockText> texts(1);
    if (value.is_list) {
        read(given, texts, ListOf<>{1, max_choices});
    } else {
        read(given, texts[0], Any{});
    }
    for (BlockText& text : texts)
        value.texts.push_back(std::move(text.text));
}

TaskSpec parse_task(std::string_view yaml, const std::string& name, const std::string& source) {
    const SpecFile file = {source, key_paths<TaskSpec>()};
    YamlNode root = parse_yaml(yaml, {file.name});
    if (root.kind == YamlNode::Kind::null) root = {YamlNode::Kind::map, {1, 1}};
    const SpecValue given = {file, root, ""};
    TaskSpec task;
    read(given, task, Any{});
    check_keys(given, task);
    task.name = name;
    task.source = source;
    return task;
}

std::vector<std::string_view> task_names() {
    std::vector<std::string_view> names;
    for (const BuiltInTask& task : built_in_tasks())
        names.push_back(task.name);
    return names;
}

namespace {

TaskSpec load_task(const std::string& name, std::string_view option) {
    for (const BuiltInTask& task : built_in_tasks()) {
        if (name == task.name) return parse_task(task.yaml, name, text(task.name, ".yaml"));
    }
    std::error_code error;
    if (!std::filesystem::exists(name, error)) {
        fail(ExitCode::usage, option, " ", name,
             ": no such file, and the tasks of this program are ", choice_of(task_names()));
    }
    return parse_task(read_file(name, max_task_bytes, ExitCode::usage),
                      std::filesystem::path(name).stem().string(), name);
}

}  // namespace

std::vector<Task> load_tasks(std::span<const std::string> names, std::string_view option) {
    std::vector<Task> tasks;
    for (const std::string& name : names) {
        tasks.emplace_back(load_task(name, option));
        for (std::size_t i = 0; i + 1 < tasks.size(); ++i) {
            if (tasks[i].spec().name == tasks.back().spec().name)
                fail(ExitCode::usage, option, ": two tasks are called ", tasks[i].spec().name);
        }
    }
    return tasks;
}

}  // namespace gptrain
