#include <map>

#include "catch.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/overlap.h"
#include "saving.h"

namespace gptrain::test {

TEST_CASE("a checkpoint of any mesh loads on any other") {
    const std::vector<TestMesh> meshes = {{1, 1}, {2, 1}, {1, 3}, {2, 2}, {4, 1}, {3, 5}};
    const ScratchFolder folder("reshard");
    for (std::size_t from = 0; from < meshes.size(); ++from) {
        const auto step = static_cast<std::int64_t>(from + 1);
        const auto checkpoint = save_mesh(folder.path(), meshes[from], step);
        verify_checkpoint(checkpoint, VerifyDepth::full);
        for (const TestMesh& to : meshes) {
            CAPTURE(meshes[from].tp, meshes[from].dp, to.tp, to.dp);
            CHECK(loads(checkpoint, to, step));
        }
    }
}

TEST_CASE("every rank of any mesh can load with its part of the manifest") {
    const ScratchFolder folder("parts");
    for (const TestMesh& from : {TestMesh{1, 1}, TestMesh{3, 2}, TestMesh{2, 5}}) {
        const auto checkpoint = save_mesh(folder.path(), from, 4);
        const Manifest manifest = read_manifest(checkpoint);
        const ManifestParts parts(manifest);
        std::int64_t all_extents = 0;
        for (const TensorRecord& tensor : manifest.tensors)
            all_extents += std::ssize(tensor.extents);
        for (const TestMesh& to : {TestMesh{1, 1}, TestMesh{2, 5}, TestMesh{4, 1}}) {
            for (int rank = 0; rank < to.ranks(); ++rank) {
                CAPTURE(from.tp, from.dp, to.tp, to.dp, rank);
                HostBackend backend;
                RankState state(to, rank);
                // Between ranks it travels as a message.
                ShardRecords part = from_message(to_message(parts.part_for(
                    from_message(to_message({{}, needs_of(state.source())})).tensors)));
                std::int64_t extents = 0;
                for (const TensorRecord& tensor : part.tensors)
                    extents += std::ssize(tensor.extents);
                if (from.ranks() > 1 && to.ranks() > 1) CHECK(extents < all_extents);
                if (to.ranks() == 1) CHECK(extents == all_extents);
                load_state(checkpoint, {meta_for(4), part.files, part.tensors}, backend,
                           state.source());
                CHECK(state.holds(4));
            }
        }
    }
}

TEST_CASE("the overlap of two shards is what their elements have in common") {
    const Shape global{4, 3, 5};
    const std::vector<Box> boxes = {{{0, 0, 0}, {4, 3, 5}}, {{1, 0, 0}, {2, 3, 5}},
                                    {{0, 1, 0}, {4, 2, 5}}, {{0, 0, 2}, {4, 3, 2}},
                                    {{2, 1, 1}, {2, 2, 3}}, {{1, 2, 4}, {1, 1, 1}}};
    const auto shards = [&] {
        std::vector<Shard> all;
        for (const Box& box : boxes) {
            const std::int64_t count = box.extent.elements();
            for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, count},
                                             {count / 3, count},
                                             {count / 4, count / 2}}) {
                all.push_back({"t", global, box, begin, end, true});
            }
        }
        return all;
    }();
    for (const Shard& a : shards) {
        for (const Shard& b : shards) {
            std::map<std::int64_t, std::int64_t> expected;
            for (std::int64_t i = 0; i < a.elements(); ++i) {
                for (std::int64_t j = 0; j < b.elements(); ++j) {
                    if (a.global_index(a.flat_begin + i) == b.global_index(b.flat_begin + j)) {
                        expected[i] = j;
                    }
                }
            }
            std::map<std::int64_t, std::int64_t> found;
            for_each_overlap(a, b, [&](std::int64_t i, std::int64_t j, std::int64_t count) {
                for (std::int64_t k = 0; k < count; ++k)
                    found[i + k] = j + k;
            });
            REQUIRE(found == expected);
        }
    }
}

}  // namespace gptrain::test
