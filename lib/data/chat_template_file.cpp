#include "data/chat_template_file.h"

#include "base/error.h"
#include "base/file.h"
#include "chat/chat_template.h"

namespace gptrain {

std::filesystem::path template_path(const std::filesystem::path& prefix) {
    return text(prefix.string(), ".", chat_template_name);
}

ChatTemplateFile read_template(const std::filesystem::path& prefix) {
    const std::filesystem::path path = template_path(prefix);
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found) return {};
    return {ChatTemplate(read_file(path, max_template_bytes), path.string()).text(), path};
}

ChatTemplateFile common_template(std::span<const std::filesystem::path> prefixes) {
    ChatTemplateFile common;
    for (const std::filesystem::path& prefix : prefixes) {
        ChatTemplateFile one = read_template(prefix);
        if (one.path.empty()) continue;
        if (common.path.empty()) common = one;
        if (one.text == common.text) continue;
        fail(ExitCode::bad_input, one.path.string(), ": is another chat template than ",
             common.path.string(),
             "; make all conversations with one template, or remove the file that does not count");
    }
    return common;
}

}  // namespace gptrain
