// Captures what the program prints on stderr.
#pragma once

#include <string>
#include <unistd.h>

#include "support/temp_folder.h"

namespace gptrain::test {

/// Redirects stderr to a file during its lifetime.
class CapturedStderr {
public:
    CapturedStderr() : before_(::dup(STDERR_FILENO)) {
        if (before_ < 0 || ::dup2(file_.descriptor(), STDERR_FILENO) < 0) fail(ExitCode::io, "dup");
    }
    CapturedStderr(const CapturedStderr&) = delete;
    CapturedStderr& operator=(const CapturedStderr&) = delete;
    ~CapturedStderr() {
        if (::dup2(before_, STDERR_FILENO) >= 0) ::close(before_);
    }
    std::string text() const { return contents(folder_ / "stderr"); }
    /// The text printed since the last call.
    std::string take() {
        std::string said = text();
        file_.truncate(0);
        return said;
    }

private:
    TempFolder folder_;
    File file_{folder_ / "stderr", File::Mode::append};
    int before_;
};

/// The text that `act` prints there.
std::string stderr_of(const auto& act) {
    const CapturedStderr captured;
    act();
    return captured.text();
}

}  // namespace gptrain::test
