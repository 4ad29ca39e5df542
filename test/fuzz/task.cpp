// A task file: read, and if it is accepted, asked about documents.
#include "base/utf8.h"
#include "fuzz/target.h"
#include "tasks/load_task.h"
#include "tasks/task_items.h"

using namespace gptrain;

namespace {

const TaskDocument documents[] = {
    {.fields = {{"text", "a b\xC3\xA9 c"}, {"label", 1}, {"choices", {"x", "y"}}},
     .place = "document"},
    {.fields = {{"text", ""},
                {"label", "A"},
                {"question", {{"stem", "[t]"}, {"choices", {{{"text", "u"}, {"label", "A"}}}}}},
                {"endings", {" ( a ) ", 2.5, nullptr, true}}},
     .place = "document"},
};

void check_text(const std::string& text) {
    GPTRAIN_CHECK(find_invalid_utf8(text) == std::string::npos);
}

void check_item(const TaskItem& item, TaskKind kind) {
    for (const std::string& prompt : item.prompts)
        check_text(prompt);
    for (const std::string& choice : item.choices)
        check_text(choice);
    check_text(item.text);
    check_text(item.target);
    if (kind != TaskKind::multiple_choice) return;
    GPTRAIN_CHECK(item.prompts.size() == 1 || item.choices.size() == 1);
    const std::int64_t count = std::ssize(item.prompts) + std::ssize(item.choices) - 1;
    GPTRAIN_CHECK(item.answer >= 0 && item.answer < count && count > 1);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string_view text = test::as_text(bytes, size);
    test::accepts(ExitCode::usage, "task.yaml:", [&] {
        const Task task(parse_task(text, "task", "task.yaml"));
        for (const TaskDocument& document : documents) {
            test::accepts(ExitCode::bad_input, "document: ", [&] {
                check_item(task.item_of(document), task.spec().kind);
            });
        }
    });
    return 0;
}
