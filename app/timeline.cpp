#include "timeline.h"

#include "base/file.h"
#include "base/log.h"
#include "base/output_file.h"

namespace gptrain {

void check_timeline_path(const std::filesystem::path& path) {
    if (path.extension() != ".svg" && path.extension() != ".json") {
        fail(ExitCode::usage, "--timeline ", path.string(),
             ": the name must end in .svg (a picture) or .json (for trace viewers)");
    }
    check_output_file(path, "--timeline");
}

void write_timeline(const std::filesystem::path& path, const Timeline& timeline) {
    check_timeline_path(path);
    const bool picture = path.extension() == ".svg";
    write_output_file(path, picture ? to_svg(timeline) : to_trace_json(timeline));
}

namespace {

constexpr std::int64_t measured_step = 3;

}  // namespace

StepRecorder measured_timeline(const std::filesystem::path& path, const std::string& run,
                               const MeshShape& mesh, const MpiSession& ranks) {
    return StepRecorder(measured_step, [=, &ranks](const StepRecord& record) {
        Timeline timeline = gather_timeline(record, mesh, ranks);
        timeline.title = text(run, ": one step of one pipeline, measured");
        if (ranks.rank() != 0) return;
        try {
            write_timeline(path, timeline);
            print(path.string(), ": the measured step has a bubble of ",
                  fixed(100 * bubble(timeline), 1), " % = idle time / compute time");
        } catch (const Error& failure) {
            warn("--timeline ", failure.what(), "; training continues");
        }
    });
}

void warn_if_not_written(const StepRecorder& recorder, const std::filesystem::path& path) {
    if (recorder.complete()) return;
    warn("--timeline ", path.string(), ": not written: the run ended before step ", measured_step,
         " after the start");
}

}  // namespace gptrain
