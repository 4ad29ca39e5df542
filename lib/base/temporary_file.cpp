#include "base/temporary_file.h"

#include <random>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/temporary_names.h"
#include "base/text.h"

namespace gptrain {

std::filesystem::path temporary_path(const std::filesystem::path& target) {
    std::random_device random;
    return target.string() + text(temporary_mark, ::getpid(), "-", random());
}

TemporaryFile::TemporaryFile(const std::function<std::filesystem::path()>& make) {
    const DeferSignals held;
    path_ = make();
    add_temporary_name(path_.string());
}

TemporaryFile::TemporaryFile(const std::filesystem::path& path)
    : TemporaryFile([&] { return path; }) {}

TemporaryFile::~TemporaryFile() {
    const DeferSignals held;
    if (!moved_) ::unlink(path_.c_str());
    drop_temporary_name(path_.string());
}

void TemporaryFile::move_to(const std::filesystem::path& target) {
    rename_path(path_, target);
    moved_ = true;
}

namespace {

void replace(const std::filesystem::path& path, std::string_view bytes, bool durably) {
    TemporaryFile temporary(path.string() + ".tmp");
    File file(temporary.path(), File::Mode::create);
    file.write(bytes);
    if (durably) file.sync();
    file.close();
    temporary.move_to(path);
}

}  // namespace

void replace_file(const std::filesystem::path& path, std::string_view bytes) {
    replace(path, bytes, false);
}

void write_file_durably(const std::filesystem::path& path, std::string_view bytes) {
    replace(path, bytes, true);
    sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace gptrain
