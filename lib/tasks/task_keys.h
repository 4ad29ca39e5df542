// The keys of a task file, spelled once, as spec_keys.h has those of a run spec.
#pragma once

#include "spec/section_reader.h"
#include "tasks/task_spec.h"

namespace gptrain {

void read(const SpecValue& given, BlockText& value, Any);
void read(const SpecValue& given, TemplateTexts& value, Any);
/// A key that only some kinds have, without a word that leaves it open.
template <class T>
void read(const SpecValue& given, std::optional<T>& value, Any) {
    read(given, value.emplace(), Any{});
}

void visit_keys(auto& keys, TaskSpec& task) {
    keys.required("kind", task.kind);
    keys.required("data", task.data, Label{});
    keys.value("documents", task.documents);
    keys.open("labels", task.labels, "none", Label{});
    keys.value("clean", task.clean);
    keys.value("description", task.description);
    keys.value("few_shot", task.few_shot, IntRange{0, 1000});
    keys.open("examples", task.examples, "none", Label{});
    keys.value("prompt", task.prompt);
    keys.value("choices", task.choices);
    keys.value("answer", task.answer);
    keys.value("answer_names", task.answer_names);
    keys.value("text", task.text);
    keys.value("target", task.target);
    keys.value("stop", task.stop, ListOf<>{0, 100});
    keys.value("max_tokens", task.max_tokens, IntRange{1, 1 << 20});
    keys.value("match", task.match);
    keys.value("ignore_case", task.ignore_case);
    keys.value("ignore_punctuation", task.ignore_punctuation);
}

}  // namespace gptrain
