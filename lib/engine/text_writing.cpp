#include "engine/text_writing.h"

#include <algorithm>
#include <cmath>

#include "engine/text_batches.h"

namespace gptrain {
namespace {

constexpr std::int64_t not_finite = -1;

std::int64_t likeliest(std::span<const float> logits) {
    const bool finite =
        std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); });
    if (!finite) return not_finite;
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

/// As requests whose last token is not known: its score's place is where its logits are.
std::vector<ScoreRequest> open_ends(std::span<const WrittenText* const> texts) {
    std::vector<ScoreRequest> requests;
    for (const WrittenText* each : texts) {
        const auto tokens = each->tokens();
        ScoreRequest& request = requests.emplace_back();
        request.ids.assign(tokens.begin(), tokens.end());
        request.ids.push_back(0);
        request.scored = 1;
    }
    return requests;
}

/// Writes the texts of all ranks together.
class TextsWriter {
public:
    TextsWriter(const ForwardPasses& passes, const MpiSession& ranks, ActionListener& listener,
                std::int64_t vocab)
        : passes_(passes), ranks_(ranks), listener_(listener), vocab_(vocab) {}

    /// The token that follows each text, or not_finite, on all ranks; nothing if go_on is false.
    std::optional<std::vector<std::int64_t>> next_tokens(std::span<const WrittenText* const> texts,
                                                         const std::function<bool()>& go_on) const {
        // One rank knows each token.
        std::vector<std::int64_t> next(texts.size());
        const bool finished = for_each_batch(open_ends(texts), passes_.plan(), passes_.place(),
                                             [&](const TextBatch& batch) {
                                                 pass(batch, next);
                                                 return go_on();
                                             });
        if (!finished) return std::nullopt;
        ranks_.sum(next);
        return next;
    }

private:
    void pass(const TextBatch& batch, std::span<std::int64_t> next) const {
        ForwardPasses::ChosenRows rows;
        for (const std::vector<ScoredToken>& tokens : batch.scored) {
            std::vector<std::int64_t>& chosen = rows.emplace_back();
            for (const ScoredToken& token : tokens)
                chosen.push_back(static_cast<std::int64_t>(token.row));
        }
        const auto take = [&](std::size_t microbatch, std::size_t index,
                              std::span<const float> logits) {
            next[batch.scored[microbatch][index].request] =
                likeliest(logits.first(static_cast<std::size_t>(vocab_)));
        };
        passes_.logits(batch.microbatches, rows, batch.length, listener_, take);
    }

    const ForwardPasses& passes_;
    const MpiSession& ranks_;
    ActionListener& listener_;
    std::int64_t vocab_;
};

/// Appends the next tokens; false if one of them is not known.
bool push(std::span<WrittenText* const> texts, std::span<const std::int64_t> next) {
    if (std::find(next.begin(), next.end(), not_finite) != next.end()) return false;
    for (std::size_t i = 0; i < texts.size(); ++i)
        texts[i]->push(static_cast<std::int32_t>(next[i]));
    return true;
}

}  // namespace

std::optional<WrittenTexts> write_texts(const ForwardPasses& passes, const MpiSession& ranks,
                                        std::span<const WriteRequest> requests,
                                        const WritingRules& rules, ActionListener& listener,
                                        const std::function<bool(std::int64_t)>& go_on) {
    std::vector<WrittenText> texts;
    texts.reserve(requests.size());
    std::vector<WrittenText*> open;
    for (const WriteRequest& request : requests)
        open.push_back(&texts.emplace_back(request, rules));
    const TextsWriter writer(passes, ranks, listener, rules.vocab);
    WrittenTexts written;
    while (true) {
        std::erase_if(open, [](const WrittenText* each) { return each->has_ended(); });
        if (open.empty()) break;
        const std::int64_t ended = std::ssize(texts) - std::ssize(open);
        const auto next = writer.next_tokens(open, [&] { return go_on(ended); });
        if (!next) return std::nullopt;
        written.is_finite = push(open, *next);
        if (!written.is_finite) return written;
    }
    for (WrittenText& each : texts)
        written.texts.push_back(each.finish());
    return written;
}

}  // namespace gptrain
