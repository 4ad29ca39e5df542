// The ranks of gpt-preprocess while each encodes its share of the files.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "comm/mpi_session.h"
#include "input_progress.h"

namespace gptrain {

/// Takes the number at the beginning of a line that ranks exchange, and the space after it.
std::int64_t take_number(std::string_view& line);

/// The ranks exchange their progress at intervals of a tenth of the elapsed time, at most one
/// second, so that the failure of one soon ends all, and rank 0 knows the progress of all. A rank
/// that finishes early waits hardly longer than the others work. All ranks make one and call `run`
/// once.
class JointWork {
public:
    JointWork(const MpiSession& ranks, InputProgress& progress)
        : ranks_(ranks), progress_(progress) {}

    /// Runs this rank's work and returns when all ranks have done theirs. If the work of one fails,
    /// all throw its failure as a CommonError that names the rank; a single rank throws its own.
    void run(const std::function<void()>& work);
    /// For `work` to call often, with what this rank has done so far. Shows the progress of all
    /// ranks; throws the CommonError of one that has failed.
    void report(std::int64_t bytes, std::int64_t tokens);

private:
    enum class State { working, done, failed };

    /// All ranks call it equally often. True if all have done their work. `fault`: the failure's
    /// message.
    bool meet(State state, ExitCode code = ExitCode::done, const std::string& fault = "");

    using Clock = std::chrono::steady_clock;

    const MpiSession& ranks_;
    InputProgress& progress_;
    std::int64_t bytes_ = 0;
    std::int64_t tokens_ = 0;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point next_meeting_ = begin_ + shortest_interval;
    static constexpr std::chrono::milliseconds shortest_interval{10};
    static constexpr std::chrono::milliseconds longest_interval{1000};
};

}  // namespace gptrain
