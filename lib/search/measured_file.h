// The record of a measurement of candidates: one line of JSON for each start and each end of one.
// So the next start of the program continues where this one ends, however it ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace gptrain {

/// The end of a measurement.
struct MeasuredTime {
    double seconds = 0;   ///< of a step, if nothing failed
    double spread = 0;    ///< between the fastest and the slowest step, relative to `seconds`
    std::string failure;  ///< why there is no time; empty: there is
};

class MeasuredFile {
public:
    /// Reads the file if there is one. A last line that a crash cut off does not count; any other
    /// faulty line is an Error (bad_input).
    explicit MeasuredFile(std::filesystem::path path);

    const std::filesystem::path& path() const { return path_; }
    /// How the last measurement of a candidate ended; nothing if it was never started, or was
    /// interrupted. A measurement that did not end may have been killed for an unrelated reason, so
    /// it counts as failed only after two such starts in a row.
    std::optional<MeasuredTime> find(const Json& candidate) const;

    /// Each adds a line, durable on return.
    void start(const Json& candidate);
    void end(const Json& candidate, const MeasuredTime& time);
    void interrupt(const Json& candidate);

private:
    void add(const Json& record);
    void add_line(std::string_view line, const std::string& source);

    std::filesystem::path path_;
    std::vector<Json> records_;
};

}  // namespace gptrain
