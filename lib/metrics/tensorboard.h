// TensorBoard event files, written without protobuf. A file is a sequence of records: length (u64),
// its masked CRC-32C, payload, its masked CRC-32C, all little endian. A payload is one `Event`
// message (TensorFlow's event.proto and record format).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "metrics/report_file.h"

namespace gptrain {

struct Scalar {
    std::string tag;
    double value;  ///< stored as fp32; TensorBoard shows non-finite values as such
};

/// One event file, written by one start of a run. TensorBoard shows all event files of a folder as
/// one run.
class TensorBoardWriter {
public:
    /// Creates `folder`/events.out.tfevents.<unix seconds>.<host>.<pid>.<n>; the folder must exist.
    /// `resumed_from`: the step that the run resumes from, 0 at a fresh start; TensorBoard drops
    /// later steps of earlier files. `settings`: shown in the HPARAMS tab; of several files
    /// TensorBoard shows the first one's.
    TensorBoardWriter(const std::filesystem::path& folder, std::int64_t resumed_from,
                      const Json& settings);

    /// Writes the scalars of one step at once, or later if the disk refuses them (ReportFile).
    void write(std::int64_t step, const std::vector<Scalar>& scalars);

    /// Call it after the last step. Error (io) if records are lost.
    void finish() { file_.finish(); }

    const std::filesystem::path& path() const { return file_.path(); }

private:
    ReportFile file_;
};

}  // namespace gptrain
