#include "serve/metrics.h"

#include <string_view>

#include "base/text.h"

namespace gptrain {
namespace {

/// Writes one metric: its help, its type and its lines.
class Metric {
public:
    Metric(std::string& out, std::string_view name, std::string_view type, std::string_view help)
        : out_(out), name_(name) {
        append(out_, text("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n"));
    }
    template <class Number>
    void line(Number value, std::string_view labels = "", std::string_view suffix = "") {
        append(out_, text(name_, suffix, labels, " ", value, "\n"));
    }

private:
    std::string& out_;
    std::string_view name_;
};

}  // namespace

void ServeMetrics::count_request(const std::string& path, int status) {
    const std::lock_guard lock(mutex_);
    ++requests_[{path, status}];
}

void ServeMetrics::count_answered(std::chrono::duration<double> first_token,
                                  std::chrono::duration<double> whole) {
    const std::lock_guard lock(mutex_);
    first_token_seconds_ += first_token.count();
    answer_seconds_ += whole.count();
    ++answered_;
}

void ServeMetrics::count_step(std::chrono::duration<double> time, std::int64_t tokens) {
    const std::lock_guard lock(mutex_);
    step_seconds_ += time.count();
    step_tokens_ += tokens;
    ++steps_;
}

std::string ServeMetrics::to_text() const {
    const std::lock_guard lock(mutex_);
    std::string out;
    {
        Metric metric(out, "gptrain_requests_total", "counter", "Requests by path and status.");
        for (const auto& [key, count] : requests_)
            metric.line(count, text("{path=\"", key.first, "\",status=\"", key.second, "\"}"));
    }
    const auto counter = [&](std::string_view name, std::string_view help, auto value) {
        Metric(out, name, "counter", help).line(value);
    };
    const auto gauge = [&](std::string_view name, std::string_view help, std::int64_t value) {
        Metric(out, name, "gauge", help).line(value);
    };
    const auto summary = [&](std::string_view name, std::string_view help, double sum) {
        Metric metric(out, name, "summary", help);
        metric.line(sum, "", "_sum");
        metric.line(answered_, "", "_count");
    };
    counter("gptrain_disconnects_total", "Clients that went away before they had their answers.",
            disconnects_.load());
    counter("gptrain_failed_streams_total", "Streams that ended with an error after they began.",
            failed_streams_.load());
    counter("gptrain_prompt_tokens_total", "Tokens of prompts.", prompt_tokens.load());
    counter("gptrain_new_tokens_total", "Tokens written.", new_tokens.load());
    counter("gptrain_steps_total", "Steps of the model.", steps_);
    counter("gptrain_step_tokens_total", "Tokens that went through the model.", step_tokens_);
    counter("gptrain_step_seconds_total", "Time of these steps.", step_seconds_);
    summary("gptrain_first_token_seconds", "From a request to its first token.",
            first_token_seconds_);
    summary("gptrain_answer_seconds", "From a request to its last token.", answer_seconds_);
    gauge("gptrain_answers_running", "Answers that have a slot in the cache.", running);
    gauge("gptrain_answers_waiting", "Answers that wait for a slot.", waiting);
    gauge("gptrain_cache_places", "Slots in the cache of keys and values.", places);
    gauge("gptrain_cache_place_tokens", "Tokens that a slot has room for.", positions);
    return out;
}

}  // namespace gptrain
