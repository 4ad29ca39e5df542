#include "checkpoint/describe.h"

#include <set>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/hdf5_handle.h"
#include "checkpoint/verify.h"

namespace gptrain {
namespace {

VerifyDepth depth_of(bool everything) {
    return everything ? VerifyDepth::full : VerifyDepth::structure;
}

std::string_view checked(bool everything) {
    return everything ? "every byte verified" : "structure verified";
}

void append_members(std::vector<std::string>& lines, std::string_view title, const Json& object) {
    for (const auto& [key, value] : object.items()) {
        const bool is_text = value.is_string();
        const std::string line = is_text ? value.get<std::string>() : to_line(value);
        const bool several = line.find('\n') != std::string::npos;
        lines.push_back(without_controls(text(title, ".", key, several ? ":\n" : ": ", line)));
    }
}

std::string join(const std::set<std::string>& words) {
    std::string out;
    for (const std::string& word : words)
        out += (out.empty() ? "" : ", ") + word;
    return out;
}

}  // namespace

std::vector<std::string> describe_checkpoint(const std::filesystem::path& folder, bool everything) {
    const Manifest manifest = verify_checkpoint(folder, depth_of(everything));
    std::set<std::string> groups;
    for (const TensorRecord& tensor : manifest.tensors)
        groups.insert(tensor.group);
    std::vector<std::string> lines = {
        text("checkpoint: ", folder.string()),
        text("step: ", manifest.meta.step),
        text("data position: ", manifest.meta.data_position, " samples"),
        text("parameters: ", manifest.parameters()),
        text("tensors: ", manifest.tensors.size(), " (", join(groups), ")"),
        text("files: ", manifest.files.size(), ", ", human_bytes(manifest.bytes())),
        text("spec hash: ", manifest.meta.spec_hash),
    };
    append_members(lines, "identity", manifest.meta.identity);
    append_members(lines, "state", manifest.meta.state);
    lines.push_back(text(checked(everything), everything ? "" : "; --verify reads every byte"));
    return lines;
}

FolderDescription describe_checkpoints(const std::filesystem::path& folder, bool everything) {
    FolderDescription description;
    for (const auto& [step, path] : list_checkpoints(folder)) {
        const bool newest = description.lines.empty();
        const std::string name = path.filename().string();
        try {
            const Manifest manifest = verify_checkpoint(path, depth_of(newest || everything));
            description.lines.push_back(text(name, "  ", human_bytes(manifest.bytes()), "  ",
                                             checked(newest || everything)));
        } catch (const Error& error) {
            if (!is_unusable(error)) throw;
            if (is_missing(path)) continue;  // a run that continues has removed it
            description.lines.push_back(text(name, "  damaged: ", error.what()));
            if (newest) description.newest_valid = false;
        }
    }
    return description;
}

std::string hdf5_version() {
    prepare_hdf5();
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    GPTRAIN_CHECK(H5get_libversion(&major, &minor, &release) >= 0);
    return text("HDF5 ", major, ".", minor, ".", release);
}

}  // namespace gptrain
