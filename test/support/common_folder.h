// Helpers for tests of several ranks that work in one folder together.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "base/text.h"
#include "catch.h"
#include "ranks.h"

namespace gptrain::test {

/// A folder shared by all ranks.
class CommonFolder {
public:
    explicit CommonFolder(const std::string& name)
        : path_(std::filesystem::absolute(text("scratch-ranks-", session().size(), "-", name))) {
        session().run_on_first([&] {
            std::filesystem::remove_all(path_);
            std::filesystem::create_directories(path_);
        });
    }
    CommonFolder(const CommonFolder&) = delete;
    CommonFolder& operator=(const CommonFolder&) = delete;
    ~CommonFolder() {
        // If the case failed on one rank only, no other rank gets here.
        if (std::uncaught_exceptions() == 0) session().max(0);
        if (session().rank() == 0) std::filesystem::remove_all(path_);
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// The CommonError that an action throws, the same on all ranks; "none" without one.
inline std::string common_error(const std::function<void()>& action) {
    std::string message = "none";
    try {
        action();
    } catch (const CommonError& error) {
        message = error.what();
    }
    for (const std::string& other : session().exchange(message))
        CHECK(other == message);
    return message;
}

}  // namespace gptrain::test
