// Maps each GEMM to its algorithm, or to a separate epilogue. Choices are found once by timing,
// then stored and shared with all ranks, because another algorithm may give other bits. The table
// knows neither shapes nor algorithms; both are strings.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain::cuda {

/// Text form: a first line with the version of the format and the machine (GPU and library), then
/// one line "KEY ALGORITHM" per GEMM, sorted by key, and a last line with their number. Keys and
/// algorithms contain no spaces.
class TuningTable {
public:
    /// Stored in `file`, or only in memory if `file` is empty.
    explicit TuningTable(std::filesystem::path file = {}) : file_(std::move(file)) {}

    /// Sets the machine that entries are for and reads the file, or else products.txt in its
    /// folder, which earlier versions wrote. If the table is from another machine or incomplete, it
    /// starts empty and warns that results may differ from earlier runs in the last bits.
    void open(const std::string& machine);

    std::optional<std::string> find(const std::string& key) const;
    /// Adds or replaces an entry.
    void record(const std::string& key, const std::string& algorithm);
    /// Writes the file.
    void save() const;

    std::string to_text() const;
    /// Replaces the entries by those of the text. If the text is from another machine or
    /// incomplete, clears the entries and returns false.
    bool replace(std::string_view text);

private:
    std::filesystem::path file_;
    std::string machine_;
    std::map<std::string, std::string> entries_;
};

}  // namespace gptrain::cuda
