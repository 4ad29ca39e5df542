// A manifest with a correct checksum (the input lacks its last line, which is added here), and what
// a resumed run and `generate` read from it.
#include "checkpoint/manifest.h"

#include <algorithm>

#include "checkpoint/shard_record.h"
#include "fuzz/target.h"
#include "infer/inference.h"
#include "spec/make_plan.h"
#include "stored/identity.h"
#include "stored/interval_loss.h"
#include "stored/loss_spikes.h"
#include "stored/saved_run.h"
#include "support/sealed_manifest.h"
#include "support/version_1_manifest.h"

using namespace gptrain;

namespace {

/// Checks what the header promises of an accepted manifest.
void check_promises(const Manifest& manifest) {
    for (const TensorRecord& tensor : manifest.tensors) {
        std::int64_t elements = 0;
        for (const ExtentRecord& extent : tensor.extents) {
            const FileRecord* file = manifest.find_file(extent.file);
            GPTRAIN_CHECK(file != nullptr && extent.byte_offset + extent.bytes() <= file->bytes);
            GPTRAIN_CHECK(shard_of(tensor, extent).elements() == extent.elements());
            elements += extent.elements();
        }
        GPTRAIN_CHECK(elements == tensor.shape.elements());
    }
    GPTRAIN_CHECK(manifest.bytes() >= 0 && manifest.parameters() >= 0);
}

void check_promises(const CheckpointIndex& index) {
    for (const TensorEntry& tensor : index.tensors) {
        std::int64_t elements = 0;
        for (const TensorBox& box : tensor.boxes) {
            elements += box.box.extent.elements();
            for (const ShardRun& run : box.shards) {
                for (std::int64_t i = 0; i < run.count; ++i) {
                    const std::string file = shard_file_name(run.first + i * run.step);
                    GPTRAIN_CHECK(
                        std::any_of(index.files.begin(), index.files.end(),
                                    [&](const FileRecord& listed) { return listed.name == file; }));
                }
            }
        }
        GPTRAIN_CHECK(elements == tensor.shape.elements());
    }
}

std::string written_again(const Manifest& manifest) {
    return test::version_1_text(manifest);
}
std::string written_again(const CheckpointIndex& index) {
    return to_text(index);
}

void use(const CheckpointMeta& meta) {
    test::accepts(ExitCode::bad_input, "checkpoint of step ", [&] { saved_data(meta); });
    test::accepts(ExitCode::bad_input, "checkpoint of step ", [&] { saved_tokenizer(meta); });
    test::accepts(ExitCode::usage, "step: ", [&] {
        check_identity(meta.identity, Json{{"seed", 1}}, "step");
    });
    SavedRun run{};
    if (!test::accepts(ExitCode::bad_input, "checkpoint of step ", [&] { run = saved_run(meta); }))
        return;
    test::accepts(ExitCode::bad_input, "step: ", [&] {
        LossSpikes(LossSpike{.factor = 2, .window = 3, .action = LossSpike::Action::skip})
            .restore(run.losses, "step: state.losses");
    });
    test::accepts(ExitCode::bad_input, "step: ", [&] {
        IntervalLoss(10).restore(run.interval_loss, "step: state.interval_loss");
    });
    test::accepts(ExitCode::usage,
                  "step/manifest.json: ", [&] { make_plan(inference_spec("step", meta, {}), {}); });
    changed_settings(run.spec_yaml, "seed: 1\n");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const auto read = [](const std::string& json) {
        return parse_any_manifest(json, "manifest.json");
    };
    const std::string json = test::sealed(test::as_text(bytes, size));
    AnyManifest any;
    if (!test::accepts(ExitCode::bad_input, "manifest.json:", [&] { any = read(json); })) return 0;
    std::visit([](const auto& manifest) { check_promises(manifest); }, any);
    const std::string written = std::visit([](const auto& m) { return written_again(m); }, any);
    const auto again = read(written);
    GPTRAIN_CHECK(std::visit([](const auto& m) { return written_again(m); }, again) == written);
    use(std::visit([](const auto& manifest) { return manifest.meta; }, any));
    return 0;
}
