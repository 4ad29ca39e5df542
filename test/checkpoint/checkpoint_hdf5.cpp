#include <cmath>
#include <cstring>

#include "catch.h"
#include "checkpoint/hdf5_memory.h"
#include "checkpoint/view.h"
#include "saving.h"
#include "support/hdf5_fixture.h"

namespace gptrain::test {
namespace {

/// A whole tensor, as bits.
std::vector<std::uint32_t> expected_bits(const std::string& group, const TestTensor& tensor,
                                         std::int64_t step) {
    std::vector<std::uint32_t> bits;
    const std::uint64_t hash = name_hash(group + "/" + tensor.name);
    for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
        bits.push_back(std::bit_cast<std::uint32_t>(element(hash, i, step)));
    }
    return bits;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
    std::vector<std::uint32_t> bits(values.size());
    std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
    return bits;
}

}  // namespace

TEST_CASE("a layout takes no memory for data") {
    const Shape shape = {std::int64_t{1} << 18, std::int64_t{1} << 20};  // 1 TiB
    const Hdf5Layout layout = lay_out_datasets("folder/shard.h5", {{{"/weight/wte", shape, {}}}});
    CHECK(layout.bytes >= shape.elements() * size_of(DType::f32));
    std::size_t metadata = 0;
    for (const FilePiece& piece : layout.metadata)
        metadata += piece.bytes.size();
    CHECK(metadata > 0);
    CHECK(metadata < 64 << 10);
    CHECK(!std::filesystem::exists("folder"));
}

TEST_CASE("a file in memory has holes, and forgets what is cut off") {
    SparseFile file;
    const std::string text(10'000, 'x');
    file.write_at(100'000, std::as_bytes(std::span(text)));
    CHECK(file.size() == 110'000);
    const auto read = [&](std::int64_t offset, std::size_t bytes) {
        std::string out(bytes, '?');
        file.read_at(offset, std::as_writable_bytes(std::span(out)));
        return out;
    };
    CHECK(read(99'999, 10'002) == '\0' + text + '\0');
    file.resize(105'000);
    CHECK(file.size() == 105'000);
    file.resize(std::int64_t{1} << 50);
    CHECK(read(104'998, 4) == std::string("xx\0\0", 4));
    CHECK(read((std::int64_t{1} << 50) - 2, 2) == std::string(2, '\0'));
}

TEST_CASE("model.h5 shows every tensor whole, on every mesh") {
    const TestMesh mesh = GENERATE(TestMesh{1, 1}, TestMesh{2, 3}, TestMesh{3, 2});
    const ScratchFolder folder("hdf5");
    const auto checkpoint = save_mesh(folder.path(), mesh, 11);
    // Sources are named relative to the file, so the folder can be moved.
    const auto moved = folder.path() / "moved";
    std::filesystem::rename(checkpoint, moved);
    for (const std::string group : {"weight", "exp_avg", "exp_avg_sq"}) {
        for (const TestTensor& tensor : small_tensors()) {
            CAPTURE(group, tensor.name, mesh.tp, mesh.dp);
            const auto read =
                read_array<float>((moved / "model.h5").string(), "/" + group + "/" + tensor.name);
            CHECK(read.shape ==
                  std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end()));
            CHECK(bits_of(read.values) == expected_bits(group, tensor, 11));
        }
    }
}

TEST_CASE("model.h5 says what model it holds") {
    const ScratchFolder folder("attributes");
    const Json model = {{"num_layers", 2},           {"vocab_size", std::int64_t{1} << 40},
                        {"norm_eps", 1.0e-5},        {"rope_theta", 10000.0},
                        {"activation", "swiglu"},    {"normalization", "rmsnorm \xc3\xa9"},
                        {"position_embedding", ""},  {"bias", true},
                        {"tie_embeddings", false},   {"head_dim", 0},
                        {"num_attention_heads", 12}, {"num_query_groups", 3},
                        {"layers", {0, 2}},          {"rope_scaling", {{"kind", "yarn"}}}};
    SavingRun run({.folder = folder.path()}, true, small_tensors(), {}, model);
    run.save(1);
    run.saver.wait();
    const std::string file = (folder.path() / checkpoint_name(1) / "model.h5").string();
    for (const auto& [key, value] : model.items()) {
        CAPTURE(key);
        if (value.is_boolean()) {
            CHECK(read_boolean_attribute(file, "/", key) == value.get<bool>());
        } else if (value.is_string()) {
            CHECK(read_text_attribute(file, "/", key) == value.get<std::string>());
        } else if (value.is_structured()) {
            CHECK(read_text_attribute(file, "/", key) == value.dump());
        } else if (value.is_number_integer()) {
            CHECK(read_attribute<std::int64_t>(file, "/", key) == value.get<std::int64_t>());
        } else {
            CHECK(read_attribute<double>(file, "/", key) == value.get<double>());
        }
    }
    CHECK(loads(folder.path() / checkpoint_name(1), {1, 1}, 1));
}

TEST_CASE("a checkpoint of very many parts has no model.h5 until somebody asks for it") {
    const ScratchFolder folder("no-view");
    HostBackend backend;
    Arena arena(backend, MemorySpace::host, "snapshot", 1 << 20);
    const MpiSession alone;
    CheckpointSaver saver(backend, arena, alone,
                          {.retention = {.folder = folder.path()}, .max_viewed_parts = 17});
    RankState state({}, 0);
    state.fill(1);
    saver.save(meta_for(1), state.source());
    saver.wait();
    const auto checkpoint = folder.path() / checkpoint_name(1);
    CHECK_FALSE(std::filesystem::exists(checkpoint / "model.h5"));
    CHECK(loads(checkpoint, {2, 1}, 1));
    const Manifest manifest = read_manifest(checkpoint);
    write_view(checkpoint, manifest, {{"num_layers", 2}});
    const std::string file = (checkpoint / "model.h5").string();
    CHECK(read_attribute<std::int64_t>(file, "/", "num_layers") == 2);
    const TestTensor& tensor = small_tensors().front();
    CHECK(bits_of(read_dataset<float>(file, "/exp_avg/" + tensor.name)) ==
          expected_bits("exp_avg", tensor, 1));
    CHECK(verify_checkpoint(checkpoint, VerifyDepth::full).meta.step == 1);
    CHECK(
        error_of([&] { write_view(checkpoint, manifest, {}); }, ExitCode::usage).find("model.h5") !=
        std::string::npos);
}

TEST_CASE("a missing shard file shows as NaN") {
    const ScratchFolder folder("hole");
    const auto checkpoint = save_mesh(folder.path(), {2, 1}, 1);
    std::filesystem::remove(checkpoint / "shard-00001.h5");
    const auto values =
        read_dataset<float>((checkpoint / "model.h5").string(), "/weight/wte.weight");
    CHECK(bits_of({values.front()}).front() ==
          expected_bits("weight", small_tensors().front(), 1).front());
    CHECK(std::isnan(values.back()));
}

TEST_CASE("shard files are plain HDF5 that describe themselves") {
    const ScratchFolder folder("shards");
    const auto checkpoint = save_mesh(folder.path(), {2, 2}, 1);
    const std::string file = (checkpoint / "shard-00003.h5").string();
    // Second tp rank: rows 50 to 100; second dp rank: the second half of them.
    const auto flat = read_array<float>(file, "/exp_avg/wte.weight[612:1224]");
    REQUIRE(flat.shape == std::vector<std::int64_t>{612});
    const auto whole = expected_bits("exp_avg", small_tensors().front(), 1);
    CHECK(bits_of(flat.values) ==
          std::vector<std::uint32_t>(whole.begin() + 50 * 24 + 612, whole.end()));
    const auto box =
        read_array<float>((checkpoint / "shard-00001.h5").string(), "/weight/h.0.attn.proj.weight");
    CHECK(box.shape == std::vector<std::int64_t>{24, 12});
}

}  // namespace gptrain::test
