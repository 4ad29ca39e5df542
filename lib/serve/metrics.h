// The metrics of the server, in the text format of Prometheus.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace gptrain {

/// Any thread may use it.
class ServeMetrics {
public:
    /// A request to a known path was answered with a status; a stream counts when it begins.
    void count_request(const std::string& path, int status);
    /// A client went away before it had its answers.
    void count_disconnect() { ++disconnects_; }
    /// A stream ended with an error after it began.
    void count_failed_stream() { ++failed_streams_; }
    /// All answers of a request were given.
    void count_answered(std::chrono::duration<double> first_token,
                        std::chrono::duration<double> whole);
    void count_step(std::chrono::duration<double> time, std::int64_t tokens);

    // Set by the thread that computes.
    std::atomic<std::int64_t> running = 0;
    std::atomic<std::int64_t> waiting = 0;
    std::atomic<std::int64_t> prompt_tokens = 0;
    std::atomic<std::int64_t> new_tokens = 0;
    // Constants.
    std::int64_t places = 0;
    std::int64_t positions = 0;

    std::string to_text() const;

private:
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, int>, std::int64_t> requests_;  ///< by path and status
    double first_token_seconds_ = 0;
    double answer_seconds_ = 0;
    std::int64_t answered_ = 0;
    double step_seconds_ = 0;
    std::int64_t step_tokens_ = 0;
    std::int64_t steps_ = 0;
    std::atomic<std::int64_t> disconnects_ = 0;
    std::atomic<std::int64_t> failed_streams_ = 0;
};

}  // namespace gptrain
