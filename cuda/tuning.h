// Which algorithm computes which product: found once by timing, then kept, because another one may
// give other bits. The table knows neither shapes nor algorithms: both are words.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain::cuda {

/// Text form: a first line that names the version of the form and the machine (GPU and library),
/// then a line "KEY ALGORITHM" for each product in the order of the keys, and a last line with the
/// number of these. Both words are without blanks.
class TuningTable {
public:
    /// Kept in `file`, or in memory alone where that is empty.
    explicit TuningTable(std::filesystem::path file = {}) : file_(std::move(file)) {}

    /// Says for which machine entries are made and reads the file. A table of another machine, or a
    /// file that is not whole, counts as empty, which is said in a warning: results may then differ
    /// in their last bits from those before.
    void open(const std::string& machine);

    std::optional<std::string> find(const std::string& key) const;
    /// Adds or replaces an entry and writes the file.
    void note(const std::string& key, const std::string& algorithm);

    /// For other ranks. Text of another machine adds nothing, and false is returned.
    std::string to_text() const;
    bool add(std::string_view text);

private:
    std::filesystem::path file_;
    std::string machine_;
    std::map<std::string, std::string> entries_;
};

}  // namespace gptrain::cuda
