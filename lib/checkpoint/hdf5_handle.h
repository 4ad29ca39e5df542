// HDF5 identifiers that close themselves, and HDF5 errors as Errors.
#pragma once

#include <hdf5.h>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace gptrain {

/// Silences the library, and prevents it from running code at process exit (which can crash after a
/// failed write) and from loading plugins. Call it before any other HDF5 function.
void prepare_hdf5();

/// The library's error stack for the last failed call, on one line.
std::string hdf5_error();

/// Throws Error (io) if an HDF5 call returned a negative value.
template <class Result>
Result check_hdf5(Result result, std::string_view call, std::string_view subject) {
    if (result < 0) fail(ExitCode::io, subject, ": HDF5 ", call, " failed: ", hdf5_error());
    return result;
}

/// Owns an HDF5 identifier.
class Hdf5Handle {
public:
    using Close = herr_t (*)(hid_t);
    /// Throws if `id` is invalid.
    Hdf5Handle(hid_t id, Close closer, std::string_view call, std::string_view subject)
        : id_(check_hdf5(id, call, subject)), close_(closer) {}
    Hdf5Handle(Hdf5Handle&& other) noexcept
        : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
    ~Hdf5Handle() {
        if (id_ >= 0) close_(id_);
    }

    operator hid_t() const { return id_; }
    /// Closes now. Failure is an Error.
    void close(std::string_view subject) {
        check_hdf5(close_(std::exchange(id_, -1)), "close", subject);
    }

private:
    hid_t id_;
    Close close_;
};

}  // namespace gptrain
