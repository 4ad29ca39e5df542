#include "metrics/report_file.h"

#include <cerrno>
#include <string>

#include "base/file_calls.h"
#include "catch.h"
#include "support/captured_stderr.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::contains;
using test::contents;
using test::stderr_of;
using test::TempFolder;

/// A disk that is full while `room` is 0; else it takes `room` writes, the last one by half.
class Disk : public CallInterceptor {
public:
    Disk() { intercept_calls(this); }
    ~Disk() override { intercept_calls(nullptr); }
    Disk(const Disk&) = delete;
    Disk& operator=(const Disk&) = delete;

    CallFate intercept(std::string_view call, const std::filesystem::path& /*path*/) override {
        if (call != "write" && call != "fsync") return {};
        if (room == 0) return {.error = ENOSPC};
        return {.half = --room == 0};
    }

    int room = 0;
};

TEST_CASE("what a full disk refuses is written later, in order and once") {
    const TempFolder folder;
    ReportFile file(folder / "log", File::Mode::append);
    Disk disk;
    disk.room = 2;  // the second line by half
    const std::string said = stderr_of([&] {
        for (const char* line : {"first\n", "second\n", "third\n"})
            file.append(line);
        file.sync();
    });
    CHECK(contents(folder / "log") == "first\nsec");
    CHECK(contains(said, (folder / "log").string()));
    CHECK(contains(said, "training continues"));
    CHECK(said.find("warning") == said.rfind("warning"));
    disk.room = 100;
    file.append("fourth\n");
    file.finish();
    CHECK(contents(folder / "log") == "first\nsecond\nthird\nfourth\n");
}

TEST_CASE("what cannot be written in the end is an error") {
    const TempFolder folder;
    ReportFile file(folder / "log", File::Mode::append);
    Disk disk;
    stderr_of([&] { file.append("line\n"); });
    CHECK(contains(test::message_of(ExitCode::io, [&] { file.finish(); }), "log"));
}

TEST_CASE("a disk that stays full costs whole lines, not memory") {
    const TempFolder folder;
    ReportFile file(folder / "log", File::Mode::append);
    Disk disk;
    const std::string line =
        std::string(static_cast<std::size_t>(ReportFile::max_kept / 2), 'x') + '\n';
    stderr_of([&] {
        file.append(line);
        file.append(line);
        disk.room = 100;
        file.append("last\n");
    });
    CHECK(std::filesystem::file_size(folder / "log") == line.size() + 5);
    CHECK(contains(test::message_of(ExitCode::io, [&] { file.finish(); }), "1 lines or records"));
}

TEST_CASE("a file that was renamed or removed is made again, with its head") {
    const TempFolder folder;
    ReportFile file(folder / "log", File::Mode::create);
    file.begin("head\n");
    file.append("first\n");
    const auto append = [&](const char* line) { return stderr_of([&] { file.append(line); }); };
    std::filesystem::rename(folder / "log", folder / "log.1");
    CHECK(contains(append("second\n"), (folder / "log").string() + ": was removed or renamed"));
    CHECK(append("third\n").empty());
    CHECK(contents(folder / "log.1") == "head\nfirst\n");
    CHECK(contents(folder / "log") == "head\nsecond\nthird\n");
    std::filesystem::remove(folder / "log");
    CHECK(contains(append("fourth\n"), "was removed or renamed"));
    file.finish();
    CHECK(contents(folder / "log") == "head\nfourth\n");
}

}  // namespace
}  // namespace gptrain
