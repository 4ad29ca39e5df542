#include <algorithm>

#include "catch.h"
#include "checkpoint/describe.h"
#include "checkpoint/restart_point.h"
#include "saving.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

namespace fs = std::filesystem;

void flip_bit(const fs::path& path, std::int64_t byte, int bit) {
    File file(path, File::Mode::update);
    std::byte value{};
    file.read_at(byte, {&value, 1});
    value ^= std::byte{1} << bit;
    file.write_at(byte, {&value, 1});
}

std::string damage_found(const fs::path& checkpoint) {
    return error_of([&] { verify_checkpoint(checkpoint, VerifyDepth::full); });
}

/// The step of the checkpoint that a run resumes from.
std::int64_t loaded_step(const fs::path& folder) {
    std::vector<fs::path> newest_first;
    for (const CheckpointFolder& checkpoint : list_checkpoints(folder))
        newest_first.push_back(checkpoint.path);
    const MpiSession alone;
    HostBackend backend;
    RankState state({}, 0);
    auto point = RestartPoint::find(newest_first, alone);
    point->load(backend, state.source(), [] {});
    CHECK(state.holds(point->meta().step));
    return point->meta().step;
}

}  // namespace

TEST_CASE("every change of one byte of the manifest is found") {
    const ScratchFolder folder("manifest-flips");
    const fs::path checkpoint = save_mesh(folder.path(), {1, 1}, 1);
    const std::string good = read_file(checkpoint / "manifest.json", 1 << 20);
    CHECK(to_text(std::get<CheckpointIndex>(parse_any_manifest(good, "good"))) == good);
    std::string text = good;
    for (std::size_t at = 0; at < good.size(); ++at) {
        text[at] = static_cast<char>(good[at] ^ (1 << (at % 7)));
        if (error_of([&] { parse_any_manifest(text, "m"); }).empty()) FAIL("byte " << at);
        text[at] = good[at];
        if (error_of([&] {
                parse_any_manifest(std::string_view(good).substr(0, at), "m");
            }).empty()) {
            FAIL("cut at byte " << at);
        }
    }
}

TEST_CASE("missing files are found") {
    const ScratchFolder folder("missing");
    const fs::path checkpoint = save_mesh(folder.path(), {2, 1}, 1);
    const fs::path shard = checkpoint / "shard-00000.h5";
    SECTION("a shard missing") {
        fs::remove(shard);
    }
    SECTION("the index missing") {
        fs::remove(checkpoint / "model.h5");
    }
    SECTION("a folder in place of a file") {
        fs::remove(shard);
        fs::create_directory(shard);
    }
    SECTION("the manifest missing") {
        fs::remove(checkpoint / "manifest.json");
    }
    CHECK(!damage_found(checkpoint).empty());
}

TEST_CASE("damage is named, and the next older checkpoint is used") {
    const ScratchFolder folder("fallback");
    for (const std::int64_t step : {1, 2, 3})
        save_mesh(folder.path(), {1, 2}, step);
    const Manifest manifest = read_manifest(folder.path() / "step-000003");
    const ExtentRecord& extent = manifest.find("exp_avg", "wte.weight")->extents[1];
    flip_bit(folder.path() / "step-000003" / extent.file, extent.byte_offset + 5, 3);
    const std::string damage = text(
        "step-000003/shard-00001.h5: dataset /exp_avg/wte.weight[1212:2424] is damaged in bytes [",
        extent.byte_offset, ", ", extent.byte_offset + extent.bytes(), ") of the file");
    CHECK(contains(damage_found(folder.path() / "step-000003"), damage));
    CHECK(contains(error_of([&] { loads(folder.path() / "step-000003", {}, 3); }), damage));
    CHECK(loaded_step(folder.path()) == 2);

    FolderDescription description = describe_checkpoints(folder.path(), false);
    REQUIRE(description.lines.size() == 3);
    CHECK(contains(description.lines[0], damage));
    CHECK(!description.newest_valid);
    CHECK(contains(error_of([&] { describe_checkpoint(folder.path() / "step-000003", true); }),
                   damage));

    fs::remove_all(folder.path() / "step-000003");
    description = describe_checkpoints(folder.path(), true);
    CHECK(description.lines.size() == 2);
    CHECK(description.newest_valid);
    CHECK(describe_checkpoints(folder.path() / "nothing", false).newest_valid);

    for (const std::int64_t step : {1, 2}) {
        fs::remove(folder.path() / checkpoint_name(step) / "shard-00001.h5");
    }
    CHECK(contains(error_of([&] { loaded_step(folder.path()); }), "checkpoints are damaged"));
}

TEST_CASE("damage between the data of a file is found") {
    const ScratchFolder folder("structure");
    const fs::path checkpoint = save_mesh(folder.path(), {1, 1}, 1);
    const Manifest manifest = read_manifest(checkpoint);
    const std::string file = "shard-00000.h5";
    std::vector<bool> is_data(static_cast<std::size_t>(manifest.find_file(file)->bytes));
    for (const TensorRecord& tensor : manifest.tensors)
        for (const ExtentRecord& extent : tensor.extents)
            std::fill_n(is_data.begin() + extent.byte_offset, extent.bytes(), true);
    int gaps = 0;
    for (std::size_t at = 0; at < is_data.size(); ++at) {
        if (is_data[at] || (at > 0 && !is_data[at - 1])) continue;
        ++gaps;
        flip_bit(checkpoint / file, static_cast<std::int64_t>(at), 2);
        CAPTURE(at);
        CHECK(contains(damage_found(checkpoint), "the HDF5 structure"));
        flip_bit(checkpoint / file, static_cast<std::int64_t>(at), 2);
    }
    CHECK(gaps > 0);
    CHECK(damage_found(checkpoint).empty());
}

TEST_CASE("a checkpoint is described") {
    const ScratchFolder folder("describe");
    const auto lines = describe_checkpoint(save_mesh(folder.path(), {1, 1}, 5), true);
    const auto has = [&](const std::string& line) {
        return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    CHECK(has("step: 5"));
    CHECK(has("parameters: 3706"));
    CHECK(has("tensors: 18 (exp_avg, exp_avg_sq, weight)"));
    CHECK(has("identity.seed: 1234"));
    CHECK(has("every byte verified"));
}

}  // namespace gptrain::test
