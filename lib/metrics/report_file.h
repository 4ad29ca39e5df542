// An append-only file of a run's reports. A disk that refuses writes must not end the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace gptrain {

class ReportFile {
public:
    /// The most bytes kept while the disk refuses them; further parts are dropped.
    static constexpr std::int64_t max_kept = std::int64_t{16} << 20;

    /// Opens the file. Error (io) if that fails.
    ReportFile(const std::filesystem::path& path, File::Mode mode) : file_(path, mode) {}

    /// The beginning of the file: written now, and again where the file is made again.
    void begin(std::string_view head);

    const std::filesystem::path& path() const { return file_.path(); }
    /// For what a start does before it appends.
    File& file() { return file_; }
    const File& file() const { return file_; }

    /// Appends a part, a line or a record, in one write. If the disk refuses some of it, the rest
    /// is kept and written before the next part. The first failure is a warning. A file that was
    /// removed or renamed, as log rotation does, is made again for this part, with a warning.
    void append(std::string_view part);
    /// Makes what was written durable. The first failure is a warning.
    void sync();
    /// The last call: writes what was kept and makes everything durable. Error (io) if something is
    /// lost.
    void finish();

private:
    /// Opens the file again if another one, or none, has its name now.
    void follow_path();
    void write_kept();
    void warn_once(const Error& failure);

    File file_;
    std::string head_;
    std::string kept_;
    std::int64_t dropped_ = 0;  ///< parts
    bool warned_ = false;
};

}  // namespace gptrain
