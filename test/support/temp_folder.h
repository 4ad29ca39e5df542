// A folder for one test, removed with its contents at the end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace gptrain::test {

class TempFolder {
public:
    TempFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "gptrain.XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) fail(ExitCode::io, "cannot create ", name);
        path_ = name;
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

inline std::string contents(const std::filesystem::path& file) {
    return read_file(file, 1 << 20);
}

/// Makes the file, replacing an existing one.
inline void fill(const std::filesystem::path& file, std::string_view bytes) {
    std::filesystem::remove(file);
    File(file, File::Mode::create).write(bytes);
}

/// The message of the Error with this exit code that `act` throws; empty if it throws none or
/// another.
std::string message_of(ExitCode code, const auto& act) {
    try {
        act();
    } catch (const Error& error) {
        if (error.code() == code) return error.what();
    }
    return "";
}

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace gptrain::test
