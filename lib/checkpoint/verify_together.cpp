#include "checkpoint/verify_together.h"

#include "checkpoint/verify.h"

namespace gptrain {

VerifiedCheckpoint verify_together(const std::filesystem::path& folder, const MpiSession& ranks) {
    VerifiedCheckpoint checkpoint{ranks.broadcast(folder.string()), Manifest{}};
    std::string text;
    ranks.run_on_first([&] {
        text = read_manifest_text(folder);
        checkpoint.manifest = parse_any_manifest_of(folder, text);
        if (std::holds_alternative<CheckpointIndex>(checkpoint.manifest)) return;
        checkpoint.manifest = verify_checkpoint(folder, VerifyDepth::structure);
        text.clear();
    });
    text = ranks.broadcast(std::move(text));
    if (text.empty()) return checkpoint;
    ranks.run_on_all([&] {
        if (ranks.rank() != 0) checkpoint.manifest = parse_any_manifest_of(checkpoint.folder, text);
        verify_part(checkpoint.folder, std::get<CheckpointIndex>(checkpoint.manifest), ranks.rank(),
                    ranks.size());
    });
    return checkpoint;
}

}  // namespace gptrain
