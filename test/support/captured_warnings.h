// What a test's code says on stderr.
#pragma once

#include <filesystem>
#include <string>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

namespace gptrain::test {

/// While it lives, stderr goes to a file.
class CapturedWarnings {
public:
    explicit CapturedWarnings(const std::filesystem::path& path)
        : file_(path, File::Mode::append), stderr_(::dup(STDERR_FILENO)) {
        GPTRAIN_CHECK(stderr_ >= 0 && ::dup2(file_.descriptor(), STDERR_FILENO) >= 0,
                      "stderr cannot be captured");
    }
    CapturedWarnings(const CapturedWarnings&) = delete;
    CapturedWarnings& operator=(const CapturedWarnings&) = delete;
    ~CapturedWarnings() {
        ::dup2(stderr_, STDERR_FILENO);
        ::close(stderr_);
    }

    /// What was said since the last call.
    std::string take() {
        std::string said = read_file(file_.path(), 1 << 20);
        file_.truncate(0);
        return said;
    }

private:
    File file_;
    int stderr_;  ///< the real one
};

}  // namespace gptrain::test
