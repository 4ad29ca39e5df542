// Files that are written under another name until they are whole.
#pragma once

#include <filesystem>
#include <functional>

namespace gptrain {

/// The name of a file that does not have its final name yet. The file is removed when this object
/// goes, and by a signal that ends the process (signals.h), unless it was moved into place.
class TemporaryFile {
public:
    /// `make` makes the file and returns its path; a signal comes before or after it.
    explicit TemporaryFile(const std::function<std::filesystem::path()>& make);
    /// The same for a file that its user makes.
    explicit TemporaryFile(const std::filesystem::path& path);
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile();

    const std::filesystem::path& path() const { return path_; }
    /// Gives it its final name; Error (io).
    void move_to(const std::filesystem::path& target);

private:
    std::filesystem::path path_;
    bool moved_ = false;
};

/// Removes the files of all such objects; for the handler of a signal, while SignalsHeld keeps
/// everybody else from this list.
void remove_temporary_files();

}  // namespace gptrain
