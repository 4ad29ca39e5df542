#include "infer/evaluate_tasks.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/log.h"
#include "infer/conversation_codec.h"
#include "infer/scorer.h"
#include "infer/text_generator.h"

namespace gptrain {
namespace {

/// The tokens that the longest prompt takes, and with it the longest text.
TextRoom room_for(std::span<const WriteRequest> requests) {
    TextRoom room = {.positions = longest_text(requests),
                     .prompt = 0,
                     .option = "max_tokens of a task",
                     .copies = true};
    for (const WriteRequest& request : requests)
        room.prompt = std::max(room.prompt, std::ssize(request.prompt));
    return room;
}

WriteOptions options_of(const WriteRequest& request) {
    return {.max_tokens = request.spec->max_tokens,
            .sampling = {.temperature = 0},
            .stop = stop_texts_of(request)};
}

/// The texts that the ranks wrote, [index, text] each, in their order on rank 0.
std::vector<std::string> collect_texts(const MpiSession& ranks, const Json& mine,
                                       std::size_t count) {
    const std::vector<std::string> all = ranks.gather(to_line(mine));
    std::vector<std::string> texts(ranks.rank() == 0 ? count : 0);
    for (const std::string& part : all)
        for (const Json& entry : parse_json(part, "texts of a rank"))
            texts.at(entry.at(0).get<std::size_t>()) = entry.at(1).get<std::string>();
    return texts;
}

/// The text that the model writes after each prompt, on rank 0. Data ranks share the texts.
std::vector<std::string> generate_texts(const InferenceRun& run, const PromptCodec& codec,
                                        std::span<const WriteRequest> requests,
                                        const TaskProgress& progress) {
    TextGenerator generator(run, codec, room_for(requests));
    const MeshPlace& place = run.mesh.place();
    Json mine = Json::array();
    const auto step = static_cast<std::size_t>(run.plan.mesh.data);
    for (auto i = static_cast<std::size_t>(place.dp); i < requests.size(); i += step) {
        const WriteRequest& request = requests[i];
        std::string written;
        const Reader reader = {.show = [&](std::string_view text) { written += text; },
                               .enough = {}};
        generator.write(request.prompt, {codec, request.prompt}, options_of(request), {}, reader);
        if (place.pp == 0 && place.tp == 0) mine.push_back({i, written});
        progress("written", static_cast<std::int64_t>(i) + 1, std::ssize(requests));
    }
    return collect_texts(run.ranks, mine, requests.size());
}

/// The text that the model writes after each prompt, likeliest token by token, on rank 0: with a
/// cache of keys and values where ranks have whole sequences.
std::vector<std::string> write_texts(const InferenceRun& run, const PromptCodec& codec,
                                     std::span<const WriteRequest> requests,
                                     std::int64_t most_tokens, const TaskProgress& progress) {
    if (!shares_sequences(run.plan)) return generate_texts(run, codec, requests, progress);
    const WritingRules rules = {.tokenizer = codec.tokenizer(),
                                .ends = codec.ends(),
                                .vocab = codec.vocab_size(),
                                .most_tokens = most_tokens};
    return write_by_passes(run, requests, rules, [&](std::int64_t done, std::int64_t total) {
        progress("written", done, total);
    });
}

/// The conversation of a task's description and a question.
TaskChat task_chat(const ConversationCodec& conversations, const Json& kwargs) {
    return {.render =
                [&conversations, &kwargs](const std::string& system, const std::string& user) {
                    Json messages = Json::array();
                    if (!system.empty())
                        messages.push_back({{"role", "system"}, {"content", system}});
                    messages.push_back({{"role", "user"}, {"content", user}});
                    return conversations.render(messages, kwargs);
                },
            .end_of_turn = conversations.end_of_turn()};
}

}  // namespace

std::vector<TaskResult> evaluate_tasks(const InferenceRun& run, std::span<const Task> tasks,
                                       TaskUse use, const std::optional<TaskChatOptions>& chat,
                                       const TaskProgress& progress) {
    const std::int64_t positions = run.plan.model.max_positions - run.plan.model.virtual_tokens();
    PromptCodec codec(run);
    std::optional<ConversationCodec> conversations;
    if (chat) {
        conversations.emplace(run, codec, chat->chat_template);
        use.chat = task_chat(*conversations, chat->template_kwargs);
    }
    TaskQuestions questions;
    run.ranks.run_on_all([&] {
        if (!codec.has_tokenizer())
            fail(ExitCode::usage, "--task: the model has no tokenizer to read texts with");
        TaskEncoder encoder(codec.tokenizer(), positions);
        if (conversations) {
            encoder.encode_by(
                [&](std::string_view text) { return conversations->encode_text(text); });
        }
        questions = ask(tasks, use, encoder);
        if (encoder.cut() == 0 || run.ranks.rank() != 0) return;
        warn(counted(encoder.cut(), "text"), " of the tasks lost tokens at the beginning: the ",
             "model reads ", positions, " at a time");
    });
    std::vector<std::string> texts;
    if (!questions.to_write.empty())
        texts = write_texts(run, codec, questions.to_write, positions, progress);
    std::vector<TokenScores> scores;
    if (!questions.to_score.empty()) {
        scores = score(run, questions.to_score, [&](std::int64_t done, std::int64_t total) {
            progress("scored", done, total);
        });
    }
    if (run.ranks.rank() != 0) return {};
    return judge(questions, scores, texts);
}

}  // namespace gptrain
