#include "serve/scheduler.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace gptrain {
namespace {

/// The log-probability of `id` and of the `count` likeliest of the tokenizer's tokens, as
/// evaluation has them: the model's vocabulary may be larger, and shares the probability.
TokenLogprob logprob_of(std::int32_t id, std::span<const float> logits, const PromptCodec& codec,
                        std::int64_t count) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits)
        sum += std::exp(static_cast<double>(logit) - largest);
    const double log_sum = largest + std::log(sum);
    const auto of = [&](std::int32_t token) {
        return static_cast<double>(logits[static_cast<std::size_t>(token)]) - log_sum;
    };
    TokenLogprob result = {.id = id, .logprob = of(id), .top = {}};
    if (count == 0) return result;
    for (const TokenChance& chance : token_chances(codec.choices(logits), {.top_k = count}))
        result.top.emplace_back(chance.id, of(chance.id));
    return result;
}

std::int32_t next_token(std::span<const float> logits, const Answer& answer,
                        std::span<const std::int32_t> text) {
    std::vector<float> own(logits.begin(), logits.end());
    penalize(own, text, answer.sampling.repetition_penalty);
    return sample_token(
        own, answer.sampling,
        {.position = std::ssize(text) - std::ssize(*answer.prompt), .sample = answer.sample});
}

}  // namespace

Scheduler::Running::Running(const PromptCodec& codec, Answer given)
    : answer(std::move(given)),
      text(*answer.prompt),
      decoder(codec, answer.is_chat ? std::span<const std::int32_t>() : std::span(*answer.prompt)),
      stop(answer.stop) {}

Scheduler::Scheduler(const PromptCodec& codec, const BatchLimits& limits)
    : codec_(codec), limits_(limits), places_(static_cast<std::size_t>(limits.texts)) {
    GPTRAIN_CHECK(limits.tokens >= limits.texts && limits.logits >= limits.texts);
}

void Scheduler::add(Answer answer) {
    const auto same = std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const auto& answers) {
        return answers.front().reader == answer.reader;
    });
    auto& answers = same == waiting_.rend() ? waiting_.emplace_back() : *same;
    answers.push_back(std::move(answer));
}

std::int64_t Scheduler::waiting() const {
    std::int64_t count = 0;
    for (const auto& answers : waiting_)
        count += std::ssize(answers);
    return count;
}

void Scheduler::free(std::int64_t place) {
    const auto held = held_.find(at(place).answer.reader.get());
    if (--held->second == 0) held_.erase(held);
    Running& freed = at(place);
    // The next step copies before it writes to the place.
    if (freed.before + 1 >= freed.answer.prompt->size()) {
        for (const std::int64_t other : order_)
            if (other != place && at(other).can_copy() && freed.has_prompt_of(at(other)))
                at(other).copied_from = place;
    }
    places_[static_cast<std::size_t>(place)].reset();
    order_.erase(std::find(order_.begin(), order_.end(), place));
}

void Scheduler::drop_unwanted() {
    const auto now = std::chrono::steady_clock::now();
    const auto is_over = [&](const Answer& answer) {
        if (answer.reader->gone()) return true;
        if (now <= answer.deadline) return false;
        answer.reader->give_up(503, "the answer took too long; ask for fewer tokens");
        return true;
    };
    for (auto& answers : waiting_)
        std::erase_if(answers, is_over);
    std::erase_if(waiting_, [](const auto& answers) { return answers.empty(); });
    for (const std::int64_t place : std::vector(order_))
        if (is_over(at(place).answer)) free(place);
}

void Scheduler::drop_waiting() {
    for (const auto& answers : waiting_)
        answers.front().reader->give_up(503, "the server stops");
    waiting_.clear();
}

void Scheduler::start(Answer answer) {
    prompt_tokens_ += std::ssize(*answer.prompt);
    if (answer.prompt_logprobs) {
        answer.reader->take(
            answer.index,
            {.text = {}, .new_tokens = 0, .tokens = {{answer.prompt->front(), {}, {}}}, .end = {}});
    }
    const bool computes = answer.prompt_logprobs && answer.prompt->size() > 1;
    if (answer.max_tokens == 0 && !computes) {
        answer.reader->take(answer.index, {{}, 0, {}, TextEnd::max_tokens});
        return;
    }
    const auto found = std::find(places_.begin(), places_.end(), std::nullopt);
    ++held_[answer.reader.get()];
    found->emplace(codec_, std::move(answer));
    order_.push_back(found - places_.begin());
}

void Scheduler::admit() {
    while (!waiting_.empty() && running() < limits_.texts)
        start(next_waiting());
}

Answer Scheduler::next_waiting() {
    const auto places = [&](const std::deque<Answer>& answers) {
        const auto held = held_.find(answers.front().reader.get());
        return held == held_.end() ? 0 : held->second;
    };
    auto chosen = waiting_.begin();
    for (auto other = std::next(chosen); other != waiting_.end(); ++other)
        if (places(*other) < places(*chosen)) chosen = other;
    Answer next = std::move(chosen->front());
    chosen->pop_front();
    if (chosen->empty()) waiting_.erase(chosen);
    return next;
}

bool Scheduler::is_ready(std::int64_t place) {
    Running& running = at(place);
    if (!running.can_copy()) return true;
    bool waits = false;
    for (auto other = order_.begin(); *other != place && !running.copied_from; ++other) {
        const Running& earlier = at(*other);
        if (!earlier.has_prompt_of(running)) continue;
        waits = true;
        if (earlier.cached + 1 >= earlier.answer.prompt->size()) running.copied_from = *other;
    }
    if (!running.copied_from) return !waits;
    running.before = running.answer.prompt->size() - 1;
    return true;
}

std::optional<TextStep> Scheduler::step_of(std::int64_t place, Room& room) {
    Running& running = at(place);
    const bool all = running.answer.prompt_logprobs && running.written() == 0;
    const std::int64_t left = running.left();
    std::int64_t count = std::min(left, room.tokens);
    if (all) count = std::min(count, room.logits);
    // The last token's logits choose the next one.
    if (!all && count == left && room.logits == 0) --count;
    if (count == 0) return std::nullopt;
    const std::int64_t logits = all ? count : (count == left ? 1 : 0);
    const auto begin = running.text.begin() + static_cast<std::ptrdiff_t>(running.before);
    TextStep step = {.place = place,
                     .before = static_cast<std::int64_t>(running.before),
                     .tokens = {begin, begin + count},
                     .logits = logits,
                     .copied_from = std::exchange(running.copied_from, std::nullopt)};
    running.before += static_cast<std::size_t>(count);
    running.next_logits = running.before - static_cast<std::size_t>(logits);
    room.tokens -= count;
    room.logits -= logits;
    last_.push_back(place);
    return step;
}

std::vector<TextStep> Scheduler::next_steps() {
    drop_unwanted();
    admit();
    last_.clear();
    std::vector<TextStep> steps;
    Room room = {limits_.tokens, limits_.logits};
    std::vector<std::int64_t> reading;
    for (const std::int64_t place : order_)
        at(place).cached = at(place).before;
    for (const std::int64_t place : order_) {
        if (!is_ready(place)) continue;
        if (!at(place).is_writing()) {
            reading.push_back(place);
        } else if (auto step = step_of(place, room)) {
            steps.push_back(*std::move(step));
        }
    }
    if (!reading.empty()) read_prompts(std::move(reading), room, steps);
    return steps;
}

void Scheduler::read_prompts(std::vector<std::int64_t> reading, Room& room,
                             std::vector<TextStep>& steps) {
    const std::int64_t oldest = reading.front();
    const std::int64_t left = at(oldest).left();
    std::stable_sort(reading.begin(), reading.end(),
                     [&](std::int64_t a, std::int64_t b) { return at(a).left() < at(b).left(); });
    Room kept = {std::min(left, room.tokens / 2), std::min(left, room.logits / 2)};
    room = {room.tokens - kept.tokens, room.logits - kept.logits};
    for (const std::int64_t place : reading) {
        if (place == oldest) {
            room = {room.tokens + kept.tokens, room.logits + kept.logits};
            kept = {};
        }
        if (auto step = step_of(place, room)) steps.push_back(*std::move(step));
    }
}

void Scheduler::take(std::size_t step, std::span<const float> logits) {
    const std::int64_t place = last_.at(step);
    // An error in an earlier row of the step has freed it.
    if (!places_[static_cast<std::size_t>(place)]) return;
    Running& running = at(place);
    const std::size_t next = ++running.next_logits;
    try {
        if (next >= running.text.size()) return choose(place, logits);
        const Answer& answer = running.answer;
        const std::int32_t known = running.text[next];
        answer.reader->take(answer.index,
                            {.text = {},
                             .new_tokens = 0,
                             .tokens = {logprob_of(known, logits, codec_, *answer.logprobs)},
                             .end = {}});
        const bool is_last = next + 1 == running.text.size();
        if (answer.max_tokens > 0 || !is_last) return;
        answer.reader->take(answer.index, {{}, 0, {}, TextEnd::max_tokens});
    } catch (const Error& error) {
        if (error.code() != ExitCode::numerical) throw;
        running.answer.reader->give_up(500, error.what());
    }
    free(place);
}

void Scheduler::choose(std::int64_t place, std::span<const float> logits) {
    Running& running = at(place);
    const Answer& answer = running.answer;
    const std::int32_t id = next_token(codec_.choices(logits), answer, running.text);
    AnswerPiece piece;
    if (codec_.ends(id)) {
        piece.end = TextEnd::end_token;
    } else {
        ++new_tokens_;
        piece.new_tokens = 1;
        running.text.push_back(id);
        piece.text = running.stop.push(running.decoder.push(id));
        if (answer.logprobs)
            piece.tokens.push_back(logprob_of(id, logits, codec_, *answer.logprobs));
        if (running.stop.found()) {
            piece.end = TextEnd::stop_text;
        } else if (running.written() == answer.max_tokens) {
            piece.end = TextEnd::max_tokens;
        } else if (std::ssize(running.text) >= limits_.positions) {
            piece.end = TextEnd::last_position;
        }
    }
    if (piece.end) {
        piece.text += running.stop.push(running.decoder.finish());
        piece.text += running.stop.finish();
    }
    // First its place: a client that has its answer may ask for the next at once.
    const std::shared_ptr<AnswerReader> reader = answer.reader;
    const std::size_t index = answer.index;
    if (piece.end) free(place);
    reader->take(index, piece);
}

}  // namespace gptrain
