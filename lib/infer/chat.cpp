#include "infer/chat.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "chat/template_clock.h"

namespace gptrain {
namespace {

// The part of the positions, 1 / answer_share, that stays free for an answer of unknown length.
constexpr std::int64_t answer_share = 4;

}  // namespace

Chat::Chat(const InferenceRun& run, ChatOptions options)
    : run_(run),
      options_(std::move(options)),
      codec_(run),
      conversations_(run, codec_, options_.chat_template) {
    run.ranks.run_on_all([&] { conversations_.require_used(options_.template_kwargs); });
    // All ranks render the same texts, also around midnight.
    fix_template_time(parse_int(run.ranks.broadcast(text(template_time()))).value());
    const std::string end = conversations_.end_of_turn();
    if (!end.empty()) options_.stop.push_back(end);
    if (!options_.system.empty())
        messages_.push_back({{"role", "system"}, {"content", options_.system}});
    generator_.emplace(
        run, codec_, TextRoom{.positions = options_.positions, .prompt = 0, .option = "--context"});
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
    std::vector<std::int32_t> ids = conversations_.encode(messages_, options_.template_kwargs);
    while (std::ssize(ids) + answer > options_.positions && forget_oldest()) {
        forgot = true;
        ids = conversations_.encode(messages_, options_.template_kwargs);
    }
    if (std::ssize(ids) >= options_.positions) {
        messages_ = before;
        fail(ExitCode::usage, "the message has ", ids.size(), " tokens, but only ",
             options_.positions, " fit together with the answer; shorten it or raise --context");
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
    generator_->warn_of_length();
    messages_.push_back({{"role", "assistant"}, {"content", said}});
    if (end == TextEnd::last_position && run_.ranks.rank() == 0)
        warn("the answer ends because there is room for only ", options_.positions,
             " tokens; see --context");
}

}  // namespace gptrain
