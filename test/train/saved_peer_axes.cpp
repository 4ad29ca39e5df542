// The axes that messages of a resumed run keep, as its checkpoints record them.
#include <optional>
#include <string>

#include "catch.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "stored/saved_run.h"
#include "support/temp_folder.h"
#include "train/resume.h"

namespace gptrain::test {
namespace {

const ResumeChoice newest = {ResumeChoice::Kind::automatic, {}};

/// A checkpoint without tensors.
void write_checkpoint(const std::filesystem::path& checkpoints, std::int64_t step,
                      const std::optional<PeerAxes>& peer) {
    SavedRun run{};
    run.losses = Json::array();
    run.interval_loss = Json::object();
    run.peer_axes = peer;
    CheckpointIndex index;
    index.meta.step = step;
    index.meta.state = to_json(run);
    const std::filesystem::path folder = checkpoints / checkpoint_name(step);
    std::filesystem::create_directories(folder);
    fill(folder / "manifest.json", to_text(index));
}

}  // namespace

TEST_CASE("a run that resumes finds the axes of its newest checkpoint") {
    const TempFolder folder;
    const std::filesystem::path checkpoints = folder / "checkpoints";
    const MpiSession session;
    const auto found = [&](const ResumeChoice& choice) {
        return saved_peer_axes(choice, checkpoints, session);
    };
    CHECK(!found(newest));
    write_checkpoint(checkpoints, 5, PeerAxes{Axis::cp});
    write_checkpoint(checkpoints, 10, PeerAxes{Axis::tp, Axis::dp_cp});
    CHECK(found(newest) == PeerAxes{Axis::tp, Axis::dp_cp});
    CHECK(found({ResumeChoice::Kind::from, checkpoints / checkpoint_name(5)}) ==
          PeerAxes{Axis::cp});
    CHECK(!found({ResumeChoice::Kind::never, {}}));
    // A damaged manifest is reported when the checkpoint is loaded.
    fill(checkpoints / checkpoint_name(10) / "manifest.json", "{");
    CHECK(found(newest) == PeerAxes{Axis::cp});
    // The newest run had parallel.peer: off.
    write_checkpoint(checkpoints, 15, std::nullopt);
    CHECK(!found(newest));
}

}  // namespace gptrain::test
