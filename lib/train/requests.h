// What somebody outside asks of a run: to save now, or to stop. Nothing here acts: the trainer asks
// between steps.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "train/signals.h"

namespace gptrain {

/// The later outweighs the earlier. Every one but `none` asks for a checkpoint.
enum class Request {
    none,
    save,  ///< the file SAVE
    stop,  ///< the file STOP
    time_limit,
    sigint,
    sigusr1,
    sigterm,
};

std::string_view name_of(Request request);

constexpr bool stops(Request request) {
    return request > Request::save;
}

/// How a run that it stopped ends: `done` for the file STOP, else `requeue`.
ExitCode exit_code_of(Request request);

/// The requests to one process; counts from the moment that it is made.
class Requests {
public:
    /// Looks for the files STOP and SAVE in `folder`, if that is not empty.
    Requests(Deadline deadline, std::filesystem::path folder)
        : deadline_(deadline), folder_(std::move(folder)) {}

    /// The weightiest at the moment. `margin_seconds`: what the next step and a checkpoint may
    /// take, so that both fit before the deadline.
    Request now(double margin_seconds) const;

    /// Takes away the file that asked for it, if one did.
    void answered(Request request) const;

private:
    StopSignals signals_;
    Deadline deadline_;
    std::filesystem::path folder_;
};

}  // namespace gptrain
