// Records: each rank reads those that it needs, and they agree with the manifest. Checkpoints of
// version 1, which have no records.
#include <algorithm>

#include "catch.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/restart_point.h"
#include "saving.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

namespace fs = std::filesystem;

CheckpointIndex read_index(const fs::path& checkpoint) {
    return std::get<CheckpointIndex>(
        parse_any_manifest_of(checkpoint, read_manifest_text(checkpoint)));
}

/// Replaces a record, and corrects what the manifest says of it.
void replace_record(const fs::path& checkpoint, std::int64_t shard, const std::string& contents) {
    CheckpointIndex index = read_index(checkpoint);
    for (FileRecord& file : index.files) {
        if (file.name != record_file_name(shard)) continue;
        file.bytes = std::ssize(contents);
        file.rest_crc32c = crc32c(contents.data(), contents.size());
    }
    gptrain::test::fill(checkpoint / record_file_name(shard), contents);
    gptrain::test::fill(checkpoint / "manifest.json", to_text(index));
}

/// The tensors that the shard file holds.
std::vector<TensorRecord> tensors_of(const fs::path& checkpoint, std::int64_t shard) {
    const CheckpointIndex index = read_index(checkpoint);
    return read_records(checkpoint, index, {shard});
}

}  // namespace

TEST_CASE("every rank of any mesh can load with the records that it needs") {
    const ScratchFolder folder("records");
    for (const TestMesh& from : {TestMesh{1, 1}, TestMesh{3, 2}, TestMesh{2, 5}}) {
        const auto checkpoint = save_mesh(folder.path(), from, 4);
        const CheckpointIndex index = read_index(checkpoint);
        for (const TestMesh& to : {TestMesh{1, 1}, TestMesh{2, 5}, TestMesh{4, 1}}) {
            for (int rank = 0; rank < to.ranks(); ++rank) {
                CAPTURE(from.tp, from.dp, to.tp, to.dp, rank);
                HostBackend backend;
                RankState state(to, rank);
                const Manifest part = read_part(checkpoint, index, needs_of(state.source()));
                load_state(checkpoint, part, backend, state.source());
                CHECK(state.holds(4));
                // Half of a tensor's rows are in one box of two.
                if (from.tp == 2 && to.tp == 2) CHECK(part.files.size() < 10);
            }
        }
    }
}

TEST_CASE("a rank does not read the records of files that it does not need") {
    const ScratchFolder folder("few-records");
    const auto checkpoint = save_mesh(folder.path(), {2, 1}, 1);
    const CheckpointIndex index = read_index(checkpoint);
    fs::remove(checkpoint / record_file_name(1));
    const auto load = [&](int rank) {
        HostBackend backend;
        RankState state({2, 1}, rank);
        const TensorRecord own = needs_of(state.source()).front();
        const Manifest part = read_part(checkpoint, index, {&own, 1});
        return part.tensors.front().extents.size();
    };
    CHECK(load(0) == 1);
    CHECK(contains(error_of([&] { load(1); }), "record-00001.json"));
}

TEST_CASE("records that contradict the manifest are refused") {
    const ScratchFolder folder("contradiction");
    const auto checkpoint = save_mesh(folder.path(), {2, 2}, 1);
    // The second data rank has the second half of each box of the optimizer's state.
    constexpr std::int64_t shard = 3;
    std::vector<TensorRecord> tensors = tensors_of(checkpoint, shard);
    const auto changed = std::find_if(tensors.begin(), tensors.end(), [](const auto& tensor) {
        return tensor.group == "exp_avg" && tensor.name == "wte.weight";
    });
    REQUIRE(changed != tensors.end());
    const auto refused = [&] {
        replace_record(checkpoint, shard, record_text(tensors));
        const std::string message = error_of([&] { read_manifest(checkpoint); });
        // A rank that needs the part finds it, too.
        const std::string of_rank = error_of([&] {
            HostBackend backend;
            RankState state({}, 0);
            load_state(checkpoint,
                       read_part(checkpoint, read_index(checkpoint), needs_of(state.source())),
                       backend, state.source());
        });
        CHECK_FALSE(of_rank.empty());
        return message;
    };
    ExtentRecord& extent = changed->extents.front();
    SECTION("elements that no record has") {
        extent.flat_begin += 1;
        extent.byte_offset += 4;
        CHECK(contains(refused(), "overlap or leave a gap at element"));
    }
    SECTION("elements that two records have") {
        extent.flat_begin -= 1;
        extent.byte_offset -= 4;
        CHECK(contains(refused(), "twice"));
    }
    SECTION("a tensor that is in no record") {
        tensors.erase(changed);
        CHECK(contains(refused(), "a box is not complete"));
    }
    SECTION("another shape") {
        changed->shape[0] += 1;
        CHECK(contains(refused(), "is not in the manifest with the shape"));
    }
    SECTION("another name") {
        changed->name = "x";
        CHECK(contains(refused(), "exp_avg/x is not in the manifest"));
    }
    SECTION("another box") {
        extent.box.offset[0] += 1;
        extent.box.extent[0] -= 1;
        extent.flat_begin = 0;
        extent.flat_end = 2;
        extent.crc32c.resize(1);
        CHECK(contains(refused(), "has a box that is not in the manifest"));
    }
}

TEST_CASE("the manifest of 16,384 ranks is small") {
    // A tensor of each of 96 layers on 8 stages, cut in 8 boxes, each over 16 of 256 data ranks.
    std::vector<TensorRecord> tensors;
    std::vector<FileRecord> files;
    for (int layer = 0; layer < 96; ++layer) {
        for (const char* name : {"qkv", "proj", "fc", "out"}) {
            TensorRecord tensor{"weight", text("h.", layer, ".", name), {8, 16}, {}};
            for (std::int64_t tp = 0; tp < 8; ++tp) {
                for (std::int64_t dp = 0; dp < 16; ++dp) {
                    const std::int64_t first = layer % 12 * 16 % 240;
                    const std::int64_t shard = (layer / 12 * 256 + first + dp) * 8 + tp;
                    tensor.extents.push_back(
                        {{{tp, 0}, {1, 16}}, dp, dp + 1, shard_file_name(shard), 0, {}});
                }
            }
            tensors.push_back(std::move(tensor));
        }
    }
    for (std::int64_t shard = 0; shard < 16384; ++shard) {
        files.push_back({shard_file_name(shard), std::int64_t{1} << 30, 4294967295});
        files.push_back({record_file_name(shard), 20000, 4294967295});
    }
    const CheckpointIndex index{meta_for(1), std::move(files), index_of(tensors)};
    for (const TensorEntry& tensor : index.tensors) {
        REQUIRE(tensor.boxes.size() == 8);
        for (const TensorBox& box : tensor.boxes) {
            REQUIRE(box.shards.size() == 1);
            CHECK(box.shards.front().step == 8);
            CHECK(box.shards.front().count == 16);
        }
    }
    const std::string text = to_text(index);
    CHECK(text.size() < (4 << 20));
    CHECK(to_text(std::get<CheckpointIndex>(parse_any_manifest(text, "m"))) == text);
}

TEST_CASE("entries merged along a tree of ranks are those of all ranks") {
    for (const TestMesh& mesh : {TestMesh{1, 1}, TestMesh{2, 3}, TestMesh{3, 8}, TestMesh{4, 16}}) {
        std::vector<TensorRecord> all;
        std::vector<std::string> messages;
        for (int rank = 0; rank < mesh.ranks(); ++rank) {
            RankState state(mesh, rank);
            const auto layout =
                plan_shard_file("folder", rank, owned_state(state.source())).tensors;
            messages.push_back(to_message(index_of(layout)));
            all.insert(all.end(), layout.begin(), layout.end());
        }
        for (std::size_t distance = 1; distance < messages.size(); distance *= 2)
            for (std::size_t i = 0; i + distance < messages.size(); i += 2 * distance)
                messages[i] =
                    to_message(merge_entries(entries_from_message(messages[i]),
                                             entries_from_message(messages[i + distance])));
        const std::vector<TensorEntry> expected = index_of(merge_tensors(all));
        const std::vector<TensorEntry> found = entries_from_message(messages.front());
        REQUIRE(found.size() == expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            CHECK(found[i].name == expected[i].name);
            REQUIRE(found[i].boxes.size() == expected[i].boxes.size());
            for (std::size_t box = 0; box < found[i].boxes.size(); ++box)
                CHECK(found[i].boxes[box].shards == expected[i].boxes[box].shards);
        }
    }
}

TEST_CASE("a manifest that nobody could read is not committed") {
    const ScratchFolder folder("limit");
    const TemporaryFolder temporary(folder.path(), checkpoint_name(3));
    CheckpointMeta meta = meta_for(3);
    meta.state["spec"] = std::string(static_cast<std::size_t>(manifest_limit), 'x');
    const std::string message = error_of(
        [&] {
            commit_checkpoint(meta, temporary.path(), {}, {}, folder.path() / checkpoint_name(3));
        },
        ExitCode::io);
    CHECK(contains(message, "above the limit of 67108864"));
    CHECK_FALSE(fs::exists(folder.path() / checkpoint_name(3)));
}

TEST_CASE("a checkpoint that verified is not read again") {
    const ScratchFolder folder("verified");
    const CheckpointFolder checkpoint = {1, save_mesh(folder.path(), {1, 1}, 1)};
    VerifiedCheckpoints verified;
    CHECK_FALSE(verified.contains(checkpoint));
    CHECK(verified.verifies(checkpoint));
    CHECK(verified.contains(checkpoint));
    // It would not verify now.
    fs::resize_file(checkpoint.path / "shard-00000.h5", 100);
    CHECK(verified.verifies(checkpoint));
    CHECK_FALSE(VerifiedCheckpoints().verifies(checkpoint));
    SECTION("unless another one took its place") {
        fs::remove_all(checkpoint.path);
        save_mesh(folder.path(), {2, 1}, 1);
        CHECK_FALSE(verified.contains(checkpoint));
        CHECK(verified.verifies(checkpoint));
    }
    SECTION("or its manifest is gone") {
        fs::remove(checkpoint.path / "manifest.json");
        CHECK_FALSE(verified.verifies(checkpoint));
    }
}

TEST_CASE("a checkpoint of version 1 still loads on any mesh") {
    const ScratchFolder folder("version-1");
    for (const TestMesh& from : {TestMesh{1, 1}, TestMesh{2, 3}}) {
        const auto checkpoint = save_mesh(folder.path(), from, 6);
        make_version_1(checkpoint);
        CHECK_FALSE(fs::exists(checkpoint / record_file_name(0)));
        CHECK(verify_checkpoint(checkpoint, VerifyDepth::full).meta.step == 6);
        for (const TestMesh& to : {TestMesh{1, 1}, TestMesh{3, 2}})
            CHECK(loads(checkpoint, to, 6));
        const MpiSession alone;
        HostBackend backend;
        RankState state({}, 0);
        auto point = RestartPoint::find({checkpoint}, alone);
        CHECK(point->whole_file("model.h5", 1 << 20).has_value());
        point->load(backend, state.source(), [] {});
        CHECK(state.holds(6));
    }
    // A run that continues from it keeps it as long as any other.
    SavingRun run({.folder = folder.path(), .keep_last = 2}, false);
    run.save(7);
    CHECK(fs::exists(folder.path() / checkpoint_name(6)));
    run.save(8);
    CHECK_FALSE(fs::exists(folder.path() / checkpoint_name(6)));
}

}  // namespace gptrain::test
