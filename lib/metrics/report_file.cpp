#include "metrics/report_file.h"

#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {

void ReportFile::begin(std::string_view head) {
    head_ = head;
    append(head);
}

void ReportFile::append(std::string_view part) {
    if (std::ssize(kept_) + std::ssize(part) <= max_kept) {
        kept_ += part;
    } else {
        ++dropped_;
    }
    try {
        follow_path();
        write_kept();
    } catch (const Error& failure) {
        warn_once(failure);
    }
}

void ReportFile::follow_path() {
    if (file_.is_at(path())) return;
    file_ = File(path(), File::Mode::append);
    if (file_.size() == 0) kept_.insert(0, head_);
    warn(path().string(), ": was removed or renamed during the run; what follows is in a new file");
}

void ReportFile::sync() {
    try {
        write_kept();
        file_.sync();
    } catch (const Error& failure) {
        warn_once(failure);
    }
}

void ReportFile::finish() {
    try {
        write_kept();
        file_.sync();
    } catch (const Error& failure) {
        fail(failure.code(), failure.what(), "; the end of this file is lost");
    }
    if (dropped_ > 0) {
        fail(ExitCode::io, path().string(), ": could not be written for too long; ", dropped_,
             " lines or records of it are lost");
    }
}

void ReportFile::write_kept() {
    if (kept_.empty()) return;
    const std::int64_t before = file_.size();
    try {
        file_.write(kept_);
    } catch (const Error&) {
        // The file may end within a part now: the rest of it comes next.
        kept_.erase(0, static_cast<std::size_t>(file_.size() - before));
        throw;
    }
    kept_.clear();
}

void ReportFile::warn_once(const Error& failure) {
    if (std::exchange(warned_, true)) return;
    warn(failure.what(),
         "; training continues; the lines will be written when the disk accepts them");
}

}  // namespace gptrain
