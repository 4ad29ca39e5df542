// Requests of a user or the system to a run: save now, or stop. Nothing here acts; the trainer
// polls between steps.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "base/words.h"
#include "watch/stop_signals.h"

namespace gptrain {

/// In order of increasing urgency. All except `none` ask for a checkpoint.
enum class Request {
    none,
    save,  ///< the file SAVE
    stop,  ///< the file STOP
    time_limit,
    sigint,
    sighup,
    sigusr1,
    sigterm,
};

constexpr auto words_of(Request) {
    using enum Request;
    return std::to_array<Word<Request>>({{none, "nothing"},
                                         {save, "the file SAVE"},
                                         {stop, "the file STOP"},
                                         {time_limit, "the time limit"},
                                         {sigint, "SIGINT"},
                                         {sighup, "SIGHUP"},
                                         {sigusr1, "SIGUSR1"},
                                         {sigterm, "SIGTERM"}});
}

constexpr bool stops(Request request) {
    return request > Request::save;
}

/// Exit code of a run stopped by this request: `done` for the file STOP, otherwise `requeue`.
ExitCode exit_code_of(Request request);

/// Requests to this process since the object was constructed.
class Requests {
public:
    /// Also looks for the files STOP and SAVE in `folder`, unless it is empty.
    Requests(Deadline deadline, std::filesystem::path folder)
        : deadline_(deadline), folder_(std::move(folder)) {}

    /// The most urgent request at the moment. `margin_seconds`: the time for the next step and a
    /// checkpoint, both of which must fit before the deadline.
    Request most_urgent(double margin_seconds) const;

    /// Deletes the file that made the request, if one did.
    void clear(Request request) const;

private:
    StopSignals signals_;
    Deadline deadline_;
    std::filesystem::path folder_;
};

}  // namespace gptrain
