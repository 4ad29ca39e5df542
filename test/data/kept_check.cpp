// Checks that a start finds done.
#include "data/kept_check.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::fill;
using test::TempFolder;

/// A large file that was not changed just now: a shared library of this process.
std::filesystem::path library() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const std::size_t path = line.find('/');
        if (path != std::string::npos && line.find("/libstdc++.so") != std::string::npos)
            return line.substr(path);
    }
    return "/proc/self/exe";
}

TEST_CASE("a large share of files that have not changed is checked once") {
    const TempFolder folder;
    ::setenv("GPTRAIN_NODE_CACHE", (folder / "node").c_str(), 1);
    const std::filesystem::path large = library();
    REQUIRE(std::filesystem::file_size(large) > (1 << 20));
    int checks = 0;
    const auto found = [&](std::string_view what, const std::filesystem::path& file, Share share) {
        return check_or_recall_share(what, {file}, share, [&] {
            ++checks;
            return FoundNumbers{-5, checks};
        });
    };
    CHECK(found("order", large, {0, 1}) == FoundNumbers{-5, 1});
    CHECK(found("order", large, {0, 1}) == FoundNumbers{-5, 1});
    // Another check, share or file.
    CHECK(found("tokens", large, {0, 1}) == FoundNumbers{-5, 2});
    CHECK(found("order", large, {1, 1}) == FoundNumbers{-5, 3});
    // A share that is small, and a file that was written just now.
    for (const std::int64_t shares : {1'000'000, 1'000'000})
        found("order", large, {0, shares});
    CHECK(checks == 5);
    fill(folder / "new", std::string(2 << 20, 'x'));
    for (int i = 0; i < 2; ++i)
        found("order", folder / "new", {0, 1});
    CHECK(checks == 7);
    CHECK(found("order", folder / "none", {0, 1}) == FoundNumbers{-5, 8});
    ::unsetenv("GPTRAIN_NODE_CACHE");
}

}  // namespace
}  // namespace gptrain
