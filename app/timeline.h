// Writes one pipeline step, simulated or measured, for --timeline.
#pragma once

#include <filesystem>
#include <string>

#include "planner/step_recorder.h"

namespace gptrain {

/// Throws Error (usage) if the name ends neither in .svg nor in .json, or if the folder does not
/// exist.
void check_timeline_path(const std::filesystem::path& path);
/// Writes a picture (.svg) or a trace (.json), depending on the name.
void write_timeline(const std::filesystem::path& path, const Timeline& timeline);

/// Records the third step after a start, when libraries and caches are warm. At its end, rank 0
/// writes it to `path` and prints its bubble; a failure is a warning. `ranks` outlives the
/// recorder.
StepRecorder measured_timeline(const std::filesystem::path& path, const std::string& run,
                               const MeshShape& mesh, const MpiSession& ranks);
/// Warns if the run ended before that step.
void warn_if_not_written(const StepRecorder& recorder, const std::filesystem::path& path);

}  // namespace gptrain
