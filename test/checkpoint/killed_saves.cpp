// Processes that only save, killed at random moments.
#include <array>
#include <chrono>
#include <random>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/log.h"
#include "catch.h"
#include "saving.h"
#include "support/proof.h"

namespace gptrain::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t keep_last = 2;

/// The state in which a kill left the folder.
enum class Moment { between, writing, renaming, retiring, removing };
constexpr std::array moments = {"between saves or in the copy to host memory",
                                "while files were written", "with the manifest written",
                                "with the old checkpoint still there",
                                "while the old checkpoint was removed"};

Moment moment_of(const fs::path& folder, pid_t killed) {
    const std::vector<CheckpointFolder> checkpoints = list_checkpoints(folder);
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        const std::size_t mark = name.find(text(".tmp-", killed, "-"));
        if (mark == std::string::npos) continue;
        if (checkpoint_step(name.substr(0, mark)) <= checkpoints.front().step)
            return Moment::removing;
        return fs::exists(entry.path() / "manifest.json") ? Moment::renaming : Moment::writing;
    }
    return std::ssize(checkpoints) > keep_last ? Moment::retiring : Moment::between;
}

/// A process that saves forever, and the steps that it has reported as saved.
class SavingProcess {
public:
    SavingProcess(const fs::path& folder, std::int64_t first_step, bool async) {
        std::array<int, 2> ends{};
        REQUIRE(::pipe(ends.data()) == 0);
        told_ = ends[0];
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) save_forever(folder, first_step, async, ends[1]);
        ::close(ends[1]);
    }
    SavingProcess(const SavingProcess&) = delete;
    SavingProcess& operator=(const SavingProcess&) = delete;
    ~SavingProcess() { ::close(told_); }

    pid_t pid() const { return pid_; }

    /// Returns the last step that the process reported as saved, 0 if none.
    std::int64_t kill() {
        ::kill(pid_, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(pid_, &status, 0) == pid_);
        REQUIRE(WIFSIGNALED(status));
        std::int64_t last = 0;
        while (::read(told_, &last, sizeof last) == sizeof last) {
        }
        return last;
    }

private:
    [[noreturn]] static void save_forever(const fs::path& folder, std::int64_t step, bool async,
                                          int tell) {
        silence_stdout();
        try {
            SavingRun run({.folder = folder, .keep_last = keep_last}, async);
            for (;; ++step) {
                run.save(step);
                // Starting an asynchronous save finishes the previous one.
                const std::int64_t saved = async ? step - 1 : step;
                if (::write(tell, &saved, sizeof saved) != sizeof saved) break;
            }
        } catch (const std::exception& error) {
            warn(error.what());
        }
        ::_exit(1);
    }

    pid_t pid_ = -1;
    int told_ = -1;
};

/// The number of committed checkpoints that are not the whole state after their step.
int not_whole(const std::vector<CheckpointFolder>& checkpoints) {
    int found = 0;
    for (const auto& [step, path] : checkpoints) {
        const std::string damage = error_of([&, s = step, p = path] {
            verify_checkpoint(p, VerifyDepth::full);
            if (!loads(p, {}, s)) fail(ExitCode::bad_input, "another state");
        });
        CHECK(damage.empty());
        found += damage.empty() ? 0 : 1;
    }
    return found;
}

}  // namespace

TEST_CASE("a save that is killed at any moment leaves a checkpoint that loads") {
    using Clock = std::chrono::steady_clock;
    const int kills = soak() ? 500 : 30;
    const ScratchFolder folder("kill");
    const auto start = Clock::now();
    {
        SavingRun run({.folder = folder.path()}, false);
        run.save(1);
    }
    const std::chrono::duration<double> one_save = Clock::now() - start;
    std::mt19937 random(23);
    std::uniform_real_distribution<double> saves(0, 5);
    std::int64_t last = 1;
    int lost = 0;
    int half_read = 0;
    std::array<int, moments.size()> met{};
    for (int kill = 0; kill < kills; ++kill) {
        CAPTURE(kill);
        SavingProcess process(folder.path(), last + 1, kill % 2 == 0);
        std::this_thread::sleep_for(saves(random) * one_save);
        const std::int64_t told = std::max(last, process.kill());
        const auto checkpoints = list_checkpoints(folder.path());
        REQUIRE(!checkpoints.empty());
        ++met[static_cast<std::size_t>(moment_of(folder.path(), process.pid()))];
        last = checkpoints.front().step;
        CHECK(last >= told);
        lost += last < told ? 1 : 0;
        half_read += not_whole(checkpoints);
    }
    CHECK(last > 1);
    const int under_way = kills - met[static_cast<std::size_t>(Moment::between)];
    CHECK(under_way > 0);
    std::string where;
    for (std::size_t i = 0; i < moments.size(); ++i) {
        CAPTURE(moments[i]);
        if (soak()) CHECK(met[i] > 0);
        where += text(i == 0 ? "" : ", ", met[i], " ", moments[i]);
    }
    proof("killed-saves", kills, " kills, ", under_way, " of them in a save (", where, "); ", lost,
          " checkpoints lost, ", half_read, " half-read");

    const SavingRun next({.folder = folder.path()});
    for (const auto& entry : fs::directory_iterator(folder.path())) {
        CHECK(checkpoint_step(entry.path().filename().string()));
    }
}

}  // namespace gptrain::test
