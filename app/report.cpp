#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "checkpoint/folder.h"
#include "commands.h"
#include "device.h"
#include "hardware.h"
#include "metrics/run_directory.h"
#include "report/page.h"
#include "report/summary.h"
#include "report/tables.h"
#include "report/watch_view.h"
#include "version.h"

namespace gptrain {
namespace {

/// The largest file that is read: a picture, or results of tasks.
constexpr std::int64_t max_file_bytes = std::int64_t{16} << 20;

struct ReportOptions {
    std::vector<std::filesystem::path> runs;
    std::filesystem::path output;
    std::string format;  ///< empty: a page with --output, else a summary
    std::string hardware;
    std::vector<std::filesystem::path> timelines;
    bool watch = false;
};

/// The metrics.jsonl of an output directory.
std::filesystem::path metrics_file(const std::filesystem::path& folder) {
    const auto type = require_path(folder, ExitCode::usage, "output directory of a run");
    const std::filesystem::path file = RunPaths{folder}.metrics();
    if (type != std::filesystem::file_type::directory || !std::filesystem::is_regular_file(file)) {
        fail(ExitCode::usage, folder.string(),
             ": not the output directory of a run: it has no metrics.jsonl");
    }
    return file;
}

/// Fills in the plan of the run, or why there is none.
void add_plan(ReportedRun& run, const std::optional<HardwareProfile>& hardware) {
    if (!run.spec) return;
    try {
        const std::optional<std::int64_t> ranks = logged_ranks(run.log, *run.spec);
        if (!ranks) return;
        const HardwareProfile* profile = hardware ? &*hardware : nullptr;
        const bool cuda = plan_for_cuda(run.spec->device, profile);
        const PlanTarget target = {.world_size = *ranks,
                                   .cuda = cuda,
                                   .dry_run = true,
                                   .ranks_per_node = profile ? profile->node.devices : 0};
        run.planned = plan_run(*run.spec, target, backend_memory(cuda), profile);
    } catch (const Error& error) {
        run.no_plan = error.what();
    }
}

/// The run's spec; nothing, with a warning, if it is missing or broken.
std::optional<RunSpec> read_spec(const std::filesystem::path& folder) {
    const std::filesystem::path spec = RunPaths{folder}.spec();
    std::string reason = text(spec.string(), ": missing");
    try {
        if (std::filesystem::exists(spec)) return load_run_spec(spec);
    } catch (const Error& error) {
        reason = error.what();
    }
    warn(reason, "; the report has neither spec nor plan of this run");
    return std::nullopt;
}

/// The spec of an unfinished run. A later start of the run may replace it.
class WatchedSpec {
public:
    explicit WatchedSpec(const std::filesystem::path& folder)
        : file_(RunPaths{folder}.spec()), changed_(change_time()), spec_(read_spec(folder)) {}

    /// The present spec, or the last one that could be read; null if there was none.
    const RunSpec* update() {
        try {
            const auto now = change_time();
            if (now != changed_) spec_ = load_run_spec(file_);
            changed_ = now;
        } catch (const Error&) {
            // The next update tries again.
        }
        return spec_ ? &*spec_ : nullptr;
    }

private:
    std::filesystem::file_time_type change_time() const {
        std::error_code error;  // the time is then the smallest one
        return std::filesystem::last_write_time(file_, error);
    }

    std::filesystem::path file_;
    std::filesystem::file_time_type changed_;
    std::optional<RunSpec> spec_;
};

/// The results in tasks.json, or else those that the run itself measured last.
std::vector<TaskMetric> read_tasks(const std::filesystem::path& folder, const RunLog& log) {
    const std::filesystem::path file = RunPaths{folder}.tasks();
    if (std::filesystem::exists(file))
        return task_metrics(parse_json(read_file(file, max_file_bytes), file.string()),
                            file.string());
    if (log.tasks.empty()) return {};
    return log.tasks.back().metrics;
}

ReportedRun read_run(const std::filesystem::path& folder) {
    const std::filesystem::path metrics = metrics_file(folder);
    ReportedRun run = {
        .label = folder.string(), .log = RunLogReader(metrics).update(), .spec = {}, .planned = {}};
    if (run.log.empty() && run.log.unknown_lines > 0) {
        fail(ExitCode::bad_input, metrics.string(), ": has no line that gptrain wrote");
    }
    run.spec = read_spec(folder);
    run.tasks = read_tasks(folder, run.log);
    return run;
}

/// The simulated step of each run that has an estimate, then the user's pictures.
std::vector<Picture> pictures_of(const ReportOptions& options,
                                 const std::vector<ReportedRun>& runs) {
    std::vector<Picture> pictures;
    for (const ReportedRun& run : runs) {
        if (!run.planned || !run.planned->estimate) continue;
        const StepEstimate& estimate = *run.planned->estimate;
        if (estimate.step.timeline.events.empty()) continue;  // too many microbatches
        Timeline timeline = estimate.step.timeline;
        timeline.title =
            text(run.label, ": one step of one pipeline, estimated on ", estimate.hardware);
        pictures.push_back({timeline.title, to_svg(timeline)});
    }
    for (const std::filesystem::path& file : options.timelines)
        pictures.push_back({file.string(), read_file(file, max_file_bytes)});
    return pictures;
}

std::string made_by() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char date[64];
    const std::size_t length = std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    return text(version_text(), ", ", std::string_view(date, length));
}

std::string page_of(const ReportOptions& options, std::vector<ReportedRun>& runs) {
    std::optional<HardwareProfile> hardware;
    if (!options.hardware.empty()) hardware = read_hardware(options.hardware);
    for (ReportedRun& run : runs)
        add_plan(run, hardware);
    const std::vector<Picture> pictures = pictures_of(options, runs);
    return to_html({runs, pictures, made_by()});
}

/// True if the user's locale, which the terminal follows, is UTF-8.
bool locale_is_utf8() {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const char* value = std::getenv(name);
        if (value == nullptr || *value == '\0') continue;
        std::string locale = value;
        for (char& c : locale)
            c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
    }
    return false;
}

/// Shows the run on the terminal until Ctrl-C.
ExitCode watch(const ReportOptions& options) {
    using namespace std::chrono_literals;
    if (options.runs.size() != 1) fail(ExitCode::usage, "--watch shows one run");
    if (!stdout_moves_cursor()) {
        fail(ExitCode::usage, "--watch needs a terminal; --output FILE.html writes a page instead");
    }
    const std::filesystem::path& folder = options.runs.front();
    const std::string label = folder.string();
    RunLogReader reader(metrics_file(folder));
    WatchedSpec spec(folder);
    const CatchInterrupt interrupt;
    print_sequences("\x1b[2J");
    while (!interrupt.caught()) {
        const WatchedRun run = {label, reader.update(), spec.update()};
        std::string frame = "\x1b[H";
        for (const std::string& line :
             watch_view(run, {terminal_columns(), terminal_rows(), locale_is_utf8()}))
            frame += line + "\x1b[K\n";
        print_sequences(frame + "\x1b[J");
        for (int i = 0; i < 20 && !interrupt.caught(); ++i)
            std::this_thread::sleep_for(100ms);
    }
    return ExitCode::done;
}

RunFolderState folder_state(const std::filesystem::path& folder) {
    using Clock = std::filesystem::file_time_type::clock;
    const RunPaths paths = {folder};
    RunFolderState state;
    for (const CheckpointFolder& checkpoint : list_checkpoints(paths.checkpoints()))
        state.checkpoints.push_back(checkpoint.step);
    const std::chrono::duration<double> quiet =
        Clock::now() - std::filesystem::last_write_time(paths.metrics());
    state.quiet_seconds = std::max(0.0, quiet.count());
    return state;
}

/// Prints what matters of each run.
ExitCode summarise(const ReportOptions& options) {
    if (!options.hardware.empty() || !options.timelines.empty()) {
        fail(ExitCode::usage, "report: ", options.hardware.empty() ? "--timeline" : "--hardware",
             " is for a page; give --output FILE.html");
    }
    for (std::size_t i = 0; i < options.runs.size(); ++i) {
        const ReportedRun run = read_run(options.runs[i]);
        print_raw(text(i > 0 ? "\n" : "", to_summary(run, folder_state(options.runs[i]))));
    }
    return ExitCode::done;
}

ExitCode report(const ReportOptions& options) {
    if (options.watch) return watch(options);
    if (options.format.empty() && options.output.empty()) return summarise(options);
    if (options.format == "html" && options.output.empty())
        fail(ExitCode::usage, "report: give --output FILE.html");
    std::vector<ReportedRun> runs;
    for (const std::filesystem::path& folder : options.runs)
        runs.push_back(read_run(folder));
    check_output_file(options.output, "--output");
    const std::string contents = options.format == "csv"    ? to_csv(runs)
                                 : options.format == "json" ? to_json(runs)
                                                            : page_of(options, runs);
    if (options.output.empty()) {
        print_raw(contents);
    } else {
        write_output_file(options.output, contents);
    }
    return ExitCode::done;
}

}  // namespace

void add_report(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "report", "Show runs, finished or under way: a summary, a page with charts, or tables");
    auto options = std::make_shared<ReportOptions>();
    CLI::Option* runs = command->add_option("runs", options->runs, "Output directories of the runs")
                            ->type_name("OUTPUT-DIR...");
    command->add_option("--checkpoint", options->runs, "The same, as for other commands")
        ->type_name("OUTPUT-DIR")
        ->excludes(runs);
    command
        ->add_option("--output", options->output,
                     "The file to write; csv and json go to stdout without it; without it and "
                     "--format, a summary does")
        ->type_name("FILE");
    command
        ->add_option("--format", options->format,
                     "html: a page for a browser; csv: a row for each logged step; json: the same "
                     "with specs and events")
        ->type_name("html|csv|json")
        ->check(CLI::IsMember({"html", "csv", "json"}).description(""));
    command
        ->add_option(
            "--hardware", options->hardware,
            "Also compare with the estimated time of a step on this hardware, and draw its "
            "timeline: a built-in profile (h100-sxm, ...) or a file")
        ->type_name("NAME|FILE");
    command
        ->add_option("--timeline", options->timelines,
                     "Also show this picture of a measured step (gptrain --timeline); repeatable")
        ->type_name("FILE.svg")
        ->allow_extra_args(false);
    command->add_flag("--watch", options->watch,
                      "Show one run on this terminal, every two seconds, until Ctrl-C");
    command->final_callback([&chosen, options] {
        if (options->runs.empty()) throw CLI::RequiredError("runs");
        chosen = [options] { return report(*options); };
    });
}

}  // namespace gptrain
