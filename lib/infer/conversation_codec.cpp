#include "infer/conversation_codec.h"

#include <optional>
#include <utility>

#include "base/file.h"
#include "chat/conversation.h"
#include "interop/hf_folder.h"

namespace gptrain {
namespace {

// The tokens with which published chat models end their turns, besides their end of text.
constexpr std::string_view turn_ends[] = {"<|im_end|>",    "<|eot_id|>",      "<|end|>",
                                          "<end_of_turn>", "<|end_of_turn|>", "<|eot|>"};

/// The model's own template and where it is from; no text if it has none.
std::pair<std::string, std::string> own_template(const ModelSource& source) {
    for (const std::string name : {"chat_template.jinja", "tokenizer_config.json"}) {
        const auto contents = source.whole_file(name, max_hf_file_bytes);
        if (!contents) continue;
        const std::string path = (source.folder() / name).string();
        if (name == "chat_template.jinja") return {*contents, path};
        std::string text = template_in_config(parse_json(*contents, path), path);
        if (!text.empty()) return {std::move(text), path + ": chat_template"};
    }
    return {};
}

}  // namespace

bool ConversationCodec::has_own_template(const InferenceRun& run) {
    return run.tokenizer.expected() && !own_template(run.source).second.empty();
}

ConversationCodec::ConversationCodec(const InferenceRun& run, PromptCodec& codec,
                                     const std::string& given)
    : codec_(codec), template_(open(run, given)) {
    run.ranks.run_on_all([&] {
        if (codec.has_tokenizer()) return;
        fail(ExitCode::usage, run.source.folder().string(),
             ": has no tokenizer, which --chat needs");
    });
    add_ends(codec);
}

ChatTemplate ConversationCodec::open(const InferenceRun& run, const std::string& given) {
    std::pair<std::string, std::string> own;
    if (given.empty()) own = own_template(run.source);
    std::optional<ChatTemplate> opened;
    run.ranks.run_on_all([&] {
        named_ = find_named_template(given);
        if (named_ != nullptr) {
            opened.emplace(named_->text, text("--template ", given));
        } else if (!given.empty()) {
            std::error_code ignored;
            if (!std::filesystem::exists(given, ignored)) {
                fail(ExitCode::usage, "--template ", given,
                     ": neither a file nor a built-in template (", template_names(), ")");
            }
            opened.emplace(read_file(given, max_template_bytes), given);
        } else if (!own.second.empty()) {
            opened.emplace(own.first, own.second);
        } else {
            fail(ExitCode::usage, run.source.folder().string(),
                 ": has no chat template (chat_template.jinja, or chat_template in "
                 "tokenizer_config.json); name one with --template FILE or ",
                 template_names());
        }
    });
    known_ = find_template_text(opened->text());
    return *std::move(opened);
}

void ConversationCodec::add_ends(PromptCodec& codec) const {
    for (const std::string_view word : turn_ends)
        if (template_.mentions(word)) codec.add_end(word);
    if (known_ != nullptr) codec.add_end(known_->eos_token);
}

std::string ConversationCodec::end_of_turn() const {
    return known_ == nullptr ? std::string() : std::string(known_->end_of_turn);
}

void ConversationCodec::require_used(const Json& kwargs) const {
    check_template_kwargs(kwargs, "chat_template_kwargs");
    require_used_kwargs(template_, kwargs, "chat_template_kwargs");
}

std::string ConversationCodec::render(const Json& messages, const Json& kwargs) const {
    require_used(kwargs);
    Json variables = Json::object();
    const auto add = [&](const char* name, const std::string& own, const std::string& otherwise) {
        const std::string& token = own.empty() ? otherwise : own;
        if (!token.empty()) variables[name] = token;
    };
    const bool named = named_ != nullptr;
    add("bos_token", codec_.bos_token(),
        named ? std::string(named_->bos_token) : codec_.bos_mark());
    add("eos_token", codec_.eos_token(),
        named ? std::string(named_->eos_token) : codec_.eos_mark());
    variables.update(kwargs);
    return render_messages(template_, messages, variables, true);
}

std::vector<std::int32_t> ConversationCodec::encode_text(std::string_view text) const {
    return codec_.checked(codec_.encode_marked(text));
}

}  // namespace gptrain
