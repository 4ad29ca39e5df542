#include "infer/chat.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "interop/hf_folder.h"

namespace gptrain {
namespace {

// Of the positions, to be free for an answer whose length is open.
constexpr std::int64_t answer_share = 4;

// What published chat models end their turns with, besides their end of text.
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

ChatTemplate Chat::open_template(const InferenceRun& run, const std::string& given,
                                 const NamedTemplate*& named) {
    std::pair<std::string, std::string> own;
    if (given.empty()) own = own_template(run.source);
    std::optional<ChatTemplate> opened;
    run.ranks.run_on_all([&] {
        named = find_named_template(given);
        if (named != nullptr) {
            opened.emplace(named->text, text("--template ", given));
        } else if (!given.empty()) {
            std::error_code ignored;
            if (!std::filesystem::exists(given, ignored)) {
                fail(ExitCode::usage, "--template ", given,
                     ": no such file, and no name of a template (", template_names(), ")");
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
    return *std::move(opened);
}

Chat::Chat(const InferenceRun& run, ChatOptions options)
    : run_(run),
      options_(std::move(options)),
      codec_(run),
      template_(open_template(run, options_.chat_template, named_)) {
    run.ranks.run_on_all([&] {
        if (codec_.has_tokenizer()) return;
        fail(ExitCode::usage, run.source.folder().string(),
             ": has no tokenizer, which --chat needs");
    });
    add_ends();
    if (!options_.system.empty())
        messages_.push_back({{"role", "system"}, {"content", options_.system}});
    generator_.emplace(
        run, codec_, TextRoom{.positions = options_.positions, .prompt = 0, .option = "--context"});
}

void Chat::add_ends() {
    for (const std::string_view word : turn_ends)
        if (template_.mentions(word)) codec_.add_end(word);
    if (named_ == nullptr) return;
    codec_.add_end(named_->eos_token);
    options_.stop.emplace_back(named_->end_of_turn);
}

std::vector<std::int32_t> Chat::render() const {
    Json variables = Json::object();
    const auto add = [&](const char* name, std::string_view own, std::string_view by_name) {
        const std::string_view token = !own.empty() || named_ == nullptr ? own : by_name;
        if (!token.empty()) variables[name] = token;
    };
    add("bos_token", codec_.bos_token(), named_ != nullptr ? named_->bos_token : "");
    add("eos_token", codec_.eos_token(), named_ != nullptr ? named_->eos_token : "");
    return codec_.encode_marked(template_.render(messages_, variables, true));
}

bool Chat::forget_oldest() {
    const auto is_user = [](const Json& message) { return message.at("role") == "user"; };
    const auto first = std::find_if(messages_.begin(), messages_.end(), is_user);
    const auto second = std::find_if(std::next(first), messages_.end(), is_user);
    if (second == messages_.end()) return false;
    messages_.erase(first, second);
    return true;
}

std::vector<std::int32_t> Chat::render_fitting() {
    const std::int64_t share = std::max<std::int64_t>(options_.positions / answer_share, 1);
    const std::int64_t answer = std::min(options_.max_tokens.value_or(share), share);
    const Json before = messages_;
    bool forgot = false;
    std::vector<std::int32_t> ids = render();
    while (std::ssize(ids) + answer > options_.positions && forget_oldest()) {
        forgot = true;
        ids = render();
    }
    if (std::ssize(ids) >= options_.positions) {
        messages_ = before;
        fail(ExitCode::usage, "what was said has ", ids.size(), " tokens, but there is room for ",
             options_.positions, " with the answer; shorten it or see --context");
    }
    if (forgot && !has_forgotten_ && run_.ranks.rank() == 0) {
        warn("the conversation no longer fits into ", options_.positions,
             " tokens; its oldest turns are forgotten");
    }
    has_forgotten_ = has_forgotten_ || forgot;
    return ids;
}

void Chat::answer(std::string_view turn, const Reader& reader) {
    std::vector<std::int32_t> ids;
    run_.ranks.run_on_all([&] {
        messages_.push_back({{"role", "user"}, {"content", turn}});
        try {
            ids = render_fitting();
        } catch (const Error&) {
            messages_.erase(messages_.size() - 1);
            throw;
        }
    });
    std::string said;
    const Reader remembering = {.show =
                                    [&](std::string_view piece) {
                                        said += piece;
                                        reader.show(piece);
                                    },
                                .enough = reader.enough};
    const TextEnd end =
        generator_->write(ids, {codec_, {}},
                          {.max_tokens = options_.max_tokens.value_or(options_.positions),
                           .sampling = options_.sampling,
                           .stop = options_.stop},
                          {.turn = turns_++}, remembering);
    reader.show("\n");
    messages_.push_back({{"role", "assistant"}, {"content", said}});
    if (end == TextEnd::last_position && run_.ranks.rank() == 0)
        warn("the answer ends because there is room for only ", options_.positions,
             " tokens; see --context");
}

}  // namespace gptrain
