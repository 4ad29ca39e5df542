// Answers that one process keeps for the next ones on its node.
#include "base/node_cache.h"

#include <cstdlib>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "catch.h"
#include "support/captured_stderr.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::contains_text;
using test::contents;
using test::fill;
using test::TempFolder;

std::filesystem::path only_file_in(const std::filesystem::path& folder) {
    const std::filesystem::directory_iterator first(folder);
    REQUIRE(first != std::filesystem::directory_iterator());
    return first->path();
}

/// An entry as NodeCache writes it.
std::string entry(std::int64_t time, const std::string& answer) {
    const std::string rest = text(time, '\0', "the capital", '\0', "1950", '\0', answer);
    return text("gptrain node cache 1", '\0', crc32c(rest.data(), rest.size()), '\0', rest);
}

TEST_CASE("an answer is found for its question and state only") {
    const TempFolder folder;
    const NodeCache cache(folder / "node");
    CHECK_FALSE(cache.find("the capital", "1950"));
    cache.keep("the capital", "1950", "Bonn");
    const NodeCache later(folder / "node");
    CHECK(later.find("the capital", "1950") == "Bonn");
    CHECK_FALSE(later.find("the capital", "2000"));
    CHECK_FALSE(later.find("the river", "1950"));
    later.keep("the capital", "2000", "");
    CHECK(cache.find("the capital", "2000") == "");
    CHECK_FALSE(cache.find("the capital", "1950"));
}

TEST_CASE("an answer holds for a day") {
    const TempFolder folder;
    const NodeCache cache(folder / "node");
    cache.keep("the capital", "1950", "Bonn");
    const std::filesystem::path file = only_file_in(folder / "node");
    const auto now = static_cast<std::int64_t>(unix_seconds());
    fill(file, entry(now - 24 * 3600 + 60, "Rome"));
    CHECK(cache.find("the capital", "1950") == "Rome");
    for (const std::int64_t time : {now - 24 * 3600 - 60, now + 3600}) {
        fill(file, entry(time, "Rome"));
        CHECK_FALSE(cache.find("the capital", "1950"));
    }
}

TEST_CASE("damaged and foreign files are named, ignored and replaced") {
    const TempFolder folder;
    const NodeCache cache(folder / "node");
    cache.keep("the capital", "1950", "Bonn");
    const std::filesystem::path file = only_file_in(folder / "node");
    const std::string whole = contents(file);
    std::vector<std::string> others = {"", "what is this?", whole.substr(0, whole.size() - 1),
                                       whole + "e"};
    for (std::size_t i = 0; i < whole.size(); i += 3) {
        others.push_back(whole);
        others.back()[i] ^= 1;
    }
    for (const std::string& other : others) {
        fill(file, other);
        const test::CapturedStderr captured;
        CHECK_FALSE(cache.find("the capital", "1950"));
        CHECK(captured.text() == text("warning: ", file.string(),
                                      ": is damaged, or not a file of gptrain; ignored\n"));
    }
    std::filesystem::remove(file);
    std::filesystem::create_symlink("nowhere", file);
    {
        const test::CapturedStderr captured;
        CHECK_FALSE(cache.find("the capital", "1950"));
        CHECK_THAT(captured.text(), contains_text("ignored"));
    }
    cache.keep("the capital", "1950", "Bonn");
    CHECK(cache.find("the capital", "1950") == "Bonn");
}

TEST_CASE("a folder that others may change keeps nothing") {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "open");
    REQUIRE(::chmod((folder / "open").c_str(), 0777) == 0);
    fill(folder / "file", "");
    std::filesystem::create_directory(folder / "own");
    std::filesystem::create_directory_symlink("own", folder / "link");
    const test::CapturedStderr captured;
    for (const char* name : {"open", "link", "file"}) {
        const NodeCache cache(folder / name);
        CHECK_THAT(captured.text(), contains_text(text(name, ": ")));
        cache.keep("the capital", "1950", "Bonn");
        CHECK_FALSE(cache.find("the capital", "1950"));
    }
    CHECK(std::filesystem::is_empty(folder / "open"));
    CHECK(std::filesystem::is_empty(folder / "own"));
    // No folder at all is nobody's fault.
    const std::string said = captured.text();
    const NodeCache none(folder / "missing" / "node");
    none.keep("the capital", "1950", "Bonn");
    CHECK_FALSE(none.find("the capital", "1950"));
    CHECK(captured.text() == said);
}

TEST_CASE("the environment says where answers are kept") {
    const TempFolder folder;
    ::setenv("GPTRAIN_NODE_CACHE", (folder / "node").c_str(), 1);
    NodeCache::of_this_user().keep("the capital", "1950", "Bonn");
    CHECK(NodeCache(folder / "node").find("the capital", "1950") == "Bonn");
    ::setenv("GPTRAIN_NODE_CACHE", "off", 1);
    CHECK_FALSE(NodeCache::of_this_user().find("the capital", "1950"));
    CHECK_FALSE(std::filesystem::exists("off"));
    ::setenv("GPTRAIN_NODE_CACHE", "", 1);
    ::setenv("TMPDIR", folder.path().c_str(), 1);
    NodeCache::of_this_user().keep("the capital", "1950", "Rome");
    ::unsetenv("TMPDIR");
    ::unsetenv("GPTRAIN_NODE_CACHE");
    CHECK(NodeCache(folder / text("gptrain-", ::geteuid())).find("the capital", "1950") == "Rome");
}

TEST_CASE("many write and read at once, and none sees half an answer") {
    const TempFolder folder;
    std::atomic<int> wrong = 0;
    const test::CapturedStderr captured;
    {
        std::vector<std::jthread> writers;
        for (const char letter : {'a', 'b', 'c', 'd'}) {
            writers.emplace_back([&folder, &wrong, letter] {
                const NodeCache cache(folder / "node");
                const std::string own(5000, letter);
                for (int i = 0; i < 50; ++i) {
                    cache.keep("the capital", "1950", own);
                    const auto found = cache.find("the capital", "1950");
                    const bool whole = found && *found == std::string(5000, found->front());
                    if (!whole) ++wrong;
                }
            });
        }
    }
    CHECK(wrong == 0);
    CHECK(captured.text().empty());
    CHECK(std::distance(std::filesystem::directory_iterator(folder / "node"), {}) == 1);
}

}  // namespace
}  // namespace gptrain
