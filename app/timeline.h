// Pictures of one pipeline's step, simulated or measured, as --timeline asks for them.
#pragma once

#include <filesystem>
#include <string>

#include "planner/step_recorder.h"

namespace gptrain {

/// A name that ends neither in .svg nor in .json, or a folder that is not there, is an Error
/// (usage).
void check_timeline_path(const std::filesystem::path& path);
/// As the name says: a picture (.svg) or a trace (.json).
void write_timeline(const std::filesystem::path& path, const Timeline& timeline);

/// Records the third step after a start (by then libraries and caches are warm); when it has ended
/// rank 0 writes it to `path` and prints its bubble. `ranks` outlives it.
StepRecorder measured_timeline(const std::filesystem::path& path, const std::string& run,
                               const MeshShape& mesh, const MpiSession& ranks);
/// A line if the run has ended before that step.
void warn_if_not_drawn(const StepRecorder& recorder, const std::filesystem::path& path);

}  // namespace gptrain
