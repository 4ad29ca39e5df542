#include "train/requests.h"

#include <cerrno>
#include <unistd.h>

namespace gptrain {
namespace {

std::string_view file_name_of(Request request) {
    switch (request) {
        case Request::save: return "SAVE";
        case Request::stop: return "STOP";
        default: return {};
    }
}

Request request_of(int signal) {
    switch (signal) {
        case SIGTERM: return Request::sigterm;
        case SIGUSR1: return Request::sigusr1;
        case SIGINT: return Request::sigint;
        case SIGHUP: return Request::sighup;
        default: return Request::none;
    }
}

}  // namespace

ExitCode exit_code_of(Request request) {
    return request == Request::stop ? ExitCode::done : ExitCode::requeue;
}

Request Requests::most_urgent(double margin_seconds) const {
    if (const Request signal = request_of(signals_.received()); signal != Request::none)
        return signal;
    const auto left = deadline_.seconds_left();
    if (left && *left < margin_seconds) return Request::time_limit;
    if (folder_.empty()) return Request::none;
    for (const Request asked : {Request::stop, Request::save}) {
        if (::access((folder_ / file_name_of(asked)).c_str(), F_OK) == 0) return asked;
    }
    return Request::none;
}

void Requests::clear(Request request) const {
    const std::string_view name = file_name_of(request);
    if (name.empty() || folder_.empty()) return;
    const std::filesystem::path file = folder_ / name;
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) {
        fail_errno(errno, file.string(),
                   ": cannot be deleted; delete it, or the run will act on it again");
    }
}

}  // namespace gptrain
