#include "checkpoint/hdf5_handle.h"

namespace gptrain {
namespace {

struct Reason {
    std::string outermost;
    std::string system;  ///< the system's message, if a system call failed
};

herr_t add_reason(unsigned /*depth*/, const H5E_error2_t* error, void* out) {
    Reason& reason = *static_cast<Reason*>(out);
    const std::string_view description = error->desc == nullptr ? "" : error->desc;
    if (reason.outermost.empty()) reason.outermost = description;
    constexpr std::string_view mark = "error message = '";
    const std::size_t at = description.find(mark);
    if (at != std::string_view::npos) {
        const std::string_view message = description.substr(at + mark.size());
        reason.system = message.substr(0, message.find('\''));
    }
    return 0;
}

}  // namespace

void prepare_hdf5() {
    // Fails when called again, which is harmless.
    H5dont_atexit();
    check_hdf5(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2", "checkpoint");
    check_hdf5(H5PLset_loading_state(0), "H5PLset_loading_state", "checkpoint");
}

std::string hdf5_error() {
    Reason reason;
    const bool known = H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, add_reason, &reason) >= 0 &&
                       !reason.outermost.empty();
    if (!known) return "no reason given";
    if (reason.system.empty()) return reason.outermost;
    // The library appends the system's message to the description of the call that failed.
    return reason.outermost.substr(0, reason.outermost.find(", errno = ")) + ": " + reason.system;
}

}  // namespace gptrain
