#include "joint_work.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/process.h"

namespace gptrain {

std::int64_t take_number(std::string_view& line) {
    const std::size_t blank = line.find(' ');
    const auto number = parse_int(line.substr(0, blank));
    GPTRAIN_CHECK(number && blank != std::string_view::npos, line);
    line.remove_prefix(blank + 1);
    return *number;
}

void JointWork::run(const std::function<void()>& work) {
    if (ranks_.size() == 1) {
        work();
        return;
    }
    try {
        work();
    } catch (const CommonError&) {
        throw;
    } catch (const std::exception& error) {
        const Failure failure = failure_of(error);
        meet(State::failed, failure.code, text(ranks_.name(), ": ", failure.message));
    }
    do {
        std::this_thread::sleep_until(next_meeting_);
    } while (!meet(State::done));
}

void JointWork::report(std::int64_t bytes, std::int64_t tokens) {
    bytes_ = bytes;
    tokens_ = tokens;
    if (ranks_.size() == 1) {
        progress_.show(bytes, tokens);
    } else if (Clock::now() >= next_meeting_) {
        meet(State::working);
    }
}

bool JointWork::meet(State state, ExitCode code, const std::string& fault) {
    const std::string mine = text(static_cast<int>(state), " ", static_cast<int>(code), " ", bytes_,
                                  " ", tokens_, " ", fault);
    bool all_done = true;
    std::int64_t bytes = 0;
    std::int64_t tokens = 0;
    for (const std::string& line : ranks_.exchange(mine)) {
        std::string_view news = line;
        const auto their_state = static_cast<State>(take_number(news));
        const auto their_code = static_cast<ExitCode>(take_number(news));
        bytes += take_number(news);
        tokens += take_number(news);
        if (their_state == State::failed) throw CommonError(their_code, std::string(news));
        all_done = all_done && their_state == State::done;
    }
    const Clock::time_point now = Clock::now();
    next_meeting_ =
        now + std::clamp<Clock::duration>((now - begin_) / 10, shortest_interval, longest_interval);
    if (!all_done) progress_.log(bytes, tokens);
    return all_done;
}

}  // namespace gptrain
