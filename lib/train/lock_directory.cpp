#include "train/lock_directory.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace gptrain {

using Clock = std::chrono::steady_clock;

std::chrono::seconds lock_patience() {
    const char* restarts = std::getenv("SLURM_RESTART_COUNT");
    const bool restarted = restarts != nullptr && parse_int(restarts).value_or(0) > 0;
    const char* start = std::getenv("GPTRAIN_START");
    const std::string_view number = start == nullptr ? "" : start;
    const std::string_view in_allocation = number.substr(number.rfind('.') + 1);
    const bool started_again = parse_int(in_allocation).value_or(0) > 1;
    return std::chrono::minutes(restarted || started_again ? 5 : 0);
}

namespace {

bool has_comment(std::string_view line) {
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (quoted && line[i] == '\\') {
            ++i;  // the next one is escaped
        } else if (line[i] == '"') {
            quoted = !quoted;
        } else if (line[i] == '#' && !quoted && (i == 0 || line[i - 1] == ' ')) {
            return true;
        }
    }
    return false;
}

/// True of what a run writes, in any version: it begins with the first two keys, one a line, and
/// has neither comments nor blank lines.
bool is_effective_spec(std::string_view yaml) {
    constexpr std::array<std::string_view, 2> first_keys = {"name: ", "seed: "};
    for (std::size_t number = 0; !yaml.empty(); ++number) {
        const std::string_view line = yaml.substr(0, yaml.find('\n'));
        if (number < first_keys.size() && !line.starts_with(first_keys[number])) return false;
        if (line.empty() || has_comment(line)) return false;
        yaml.remove_prefix(std::min(line.size() + 1, yaml.size()));
    }
    return true;
}

}  // namespace

void check_spec_there(const RunPaths& paths) {
    const std::filesystem::path file = paths.spec();
    std::error_code missing;
    if (!std::filesystem::exists(file, missing)) return;
    constexpr std::int64_t most_bytes = std::int64_t{16} << 20;
    if (is_effective_spec(read_file(file, most_bytes, ExitCode::usage))) return;
    fail(ExitCode::usage, file.string(),
         ": gptrain did not write this file, and the run would replace it by its effective spec; "
         "move it, or choose another output_dir");
}

void lock_directory(std::optional<RunDirectory>& directory, const std::filesystem::path& folder,
                    std::chrono::seconds patience, const MpiSession& ranks,
                    const std::function<void()>& on_progress) {
    const ExitCode if_held = patience.count() > 0 ? ExitCode::hang : ExitCode::usage;
    const Clock::time_point end = Clock::now() + patience;
    bool reported = false;
    const auto try_once = [&] {
        try {
            directory.emplace(folder, if_held);
        } catch (const Error& error) {
            if (error.code() != ExitCode::hang || Clock::now() >= end) throw;
            if (!reported)
                warn(error.what(), "; after a restart by Slurm it may be about to end: waiting ",
                     "for up to ", static_cast<std::int64_t>(patience.count()), " seconds");
            reported = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
        }
    };
    // In short operations, because a rank that waits long in one of them looks hung.
    bool waiting = true;
    while (waiting) {
        on_progress();
        ranks.run_on_first(try_once);
        waiting = ranks.max(ranks.rank() == 0 && !directory ? 1 : 0) > 0;
    }
}

}  // namespace gptrain
