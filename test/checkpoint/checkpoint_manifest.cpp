#include <functional>
#include <map>
#include <set>

#include "base/temporary_file.h"
#include "catch.h"
#include "saving.h"
#include "support/sealed_manifest.h"

namespace gptrain::test {
namespace {

// The text that the message on each file of the corpus must contain. The files are manifests that
// `sealed` completes.
const std::map<std::string, std::string> faults = {
    {"array-at-top", "not valid JSON"},
    {"block-size-zero", "'block_bytes' must be 4194304"},
    {"box-empty", "'box_extent' is out of range"},
    {"box-offset-huge", "'box_offset' is out of range"},
    {"box-offset-negative", "'box_offset' is out of range"},
    {"box-outside", "the box is outside the tensor [4, 6]"},
    {"box-rank", "the box is outside the tensor [4, 6]"},
    {"boxes-overlap", "two boxes overlap"},
    {"crc-count", "'crc32c' has 2 values for 48 bytes"},
    {"crc-fraction", "'crc32c' must contain only integers"},
    {"crc-negative", "'crc32c' is not a CRC-32C"},
    {"crc-none", "'crc32c' has 0 values for 48 bytes"},
    {"empty", "is truncated"},
    {"extent-bytes-wrong", "'bytes' must be 48"},
    {"extent-file-unknown", "'file' is not among the manifest's files"},
    {"extent-offset-beyond", "is outside 'shard-00000.h5' (4096 bytes)"},
    {"extent-offset-huge", "'byte_offset' is out of range"},
    {"extent-offset-negative", "'byte_offset' is out of range"},
    {"extent-shared-bytes", "overlap in 'shard-00000.h5'"},
    {"extents-empty", "the boxes hold 0 of 24 elements"},
    {"extents-missing", "key 'extents' is missing"},
    {"file-bytes-huge", "'bytes' is out of range"},
    {"file-bytes-negative", "'bytes' is out of range"},
    {"file-crc-wide", "'rest_crc32c' is not a CRC-32C"},
    {"file-is-manifest", "the manifest cannot list itself"},
    {"file-is-number", "must be a JSON object"},
    {"file-name-absolute", "'name' is not a plain name"},
    {"file-name-dotdot", "'name' is not a plain name"},
    {"file-name-empty", "'name' is not a plain name"},
    {"file-name-hidden", "'name' is not a plain name"},
    {"file-name-long", "'name' is not a plain name"},
    {"file-name-newline", "'name' is not a plain name"},
    {"file-name-nul", "'name' is not a plain name"},
    {"file-name-traversal", "'name' is not a plain name"},
    {"file-twice", "file 'shard-00000.h5' is listed twice"},
    {"files-object", "'files' must be an array"},
    {"flat-beyond", "'flat' is not a range"},
    {"flat-hole", "overlap or leave a gap at element 6"},
    {"flat-incomplete", "a box is not complete"},
    {"flat-negative", "'flat' is not a range"},
    {"flat-overlap", "overlap or leave a gap at element 6"},
    {"flat-reversed", "'flat' is not a range"},
    {"flat-three", "'flat' is not a range"},
    {"format-other", "'format' must be"},
    {"identity-array", "'identity' must be an object"},
    {"key-twice", "duplicate key 'step'"},
    {"key-unknown", "unknown key 'extra'"},
    {"not-json", "not valid JSON"},
    {"shape-empty", "'shape' has 0 dims"},
    {"shape-larger", "the boxes hold 24 of 30 elements"},
    {"shape-negative", "'shape' is out of range"},
    {"shape-overflow", "'shape' is out of range"},
    {"shape-overflow-to-small", "'shape' is out of range"},
    {"shape-six-dims", "'shape' has 6 dims"},
    {"shape-text", "'shape' must contain only integers"},
    {"shape-zero", "'shape' is out of range"},
    {"state-missing", "key 'state' is missing"},
    {"step-above-64-bits", "'step' must be an integer"},
    {"step-fraction", "'step' must be an integer"},
    {"step-missing", "key 'step' is missing"},
    {"step-negative", "'step' is out of range"},
    {"tensor-dtype-bf16", "'dtype' must be fp32"},
    {"tensor-group-empty", "'group' is not a plain name"},
    {"tensor-name-slash", "'name' is not a plain name"},
    {"tensor-twice", "(weight/a.weight): is listed twice"},
    {"tokenizer-bytes-negative", "files[2]: 'bytes' is out of range"},
    {"tokenizer-crc-text", "files[2]: 'rest_crc32c' must be an integer"},
    {"tokenizer-name-traversal", "files[2]: 'name' is not a plain name"},
    {"tokenizer-twice", "file 'tokenizer.model' is listed twice"},
    {"unclosed-text", "not valid JSON"},
    {"version-newer", "unsupported format version 3"},
    {"version-text", "'version' must be an integer"},
};

// The same for manifests of version 2.
const std::map<std::string, std::string> index_faults = {
    {"box-key-unknown", "boxes[0]: unknown key 'crc32c'"},
    {"box-missing", "(weight/a.weight): the boxes hold 12 of 24 elements"},
    {"box-outside", "boxes[1]: the box is outside the tensor [4, 6]"},
    {"boxes-missing", "key 'boxes' is missing"},
    {"boxes-overlap", "two boxes overlap"},
    {"extents", "unknown key 'extents'"},
    {"record-missing", "shard files without records"},
    {"shard-missing", "shard files without records"},
    {"shards-beyond", "'shards' has shard files that are not among 'files'"},
    {"shards-count-huge", "'shards' has shard files that are not among 'files'"},
    {"shards-empty", "boxes[0]: 'shards' is empty"},
    {"shards-flat", "'shards' must contain [first, step, count]"},
    {"shards-many-runs", "'shards' has too many runs"},
    {"shards-negative", "'shards' has shard files that are not among 'files'"},
    {"shards-step-huge", "'shards' has shard files that are not among 'files'"},
    {"shards-step-zero", "'shards' has shard files that are not among 'files'"},
    {"shards-text", "'shards' must contain [first, step, count]"},
    {"shards-two-numbers", "'shards' must contain [first, step, count]"},
    {"shards-unknown", "'shards' has shard files that are not among 'files'"},
    {"tensor-twice", "(weight/a.weight): is listed twice"},
};
// The same for records.
const std::map<std::string, std::string> record_faults = {
    {"beyond-file", "is outside 'shard-00000.h5' (4096 bytes)"},
    {"box-outside", "the box is outside the tensor [4, 6]"},
    {"bytes-wrong", "extents[0]: 'bytes' must be 48"},
    {"crc-count", "'crc32c' has 2 values for 48 bytes"},
    {"crc-wide", "'crc32c' is not a CRC-32C"},
    {"dtype-bf16", "'dtype' must be fp32"},
    {"empty", "not valid JSON"},
    {"file-named", "unknown key 'file'"},
    {"flat-beyond", "'flat' is not a range"},
    {"flat-reversed", "'flat' is not a range"},
    {"format-other", "'format' must be"},
    {"key-unknown", "unknown key 'step'"},
    {"name-traversal", "'name' is not a plain name"},
    {"not-json", "not valid JSON"},
    {"offset-huge", "'byte_offset' is out of range"},
    {"shape-zero", "'shape' is out of range"},
    {"shared-bytes", "overlap in 'shard-00000.h5'"},
    {"tensors-object", "'tensors' must be an array"},
    {"version-older", "'version' 2"},
};

/// Checks the message on each file of a folder of the corpus. `parse` takes a file's contents.
void check_corpus(const std::string& folder, const std::map<std::string, std::string>& expected,
                  const std::function<void(const std::string&)>& parse) {
    const std::filesystem::path corpus =
        std::filesystem::path(GPTRAIN_TEST_DATA) / "../corpus" / folder;
    std::set<std::string> seen;
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
        const std::string name = entry.path().stem().string();
        CAPTURE(name);
        seen.insert(name);
        const std::string contents = read_file(entry.path(), 1 << 20);
        if (name == "good") {
            CHECK_NOTHROW(parse(contents));
            continue;
        }
        REQUIRE(expected.count(name) == 1);
        const std::string message = error_of([&] { parse(contents); });
        CAPTURE(message);
        CHECK(message.rfind("m:", 0) == 0);
        CHECK(message.find(expected.at(name)) != std::string::npos);
        CHECK(message.find('\n') == std::string::npos);
    }
    CHECK(seen.size() == expected.size() + 1);
}

}  // namespace

TEST_CASE("hostile manifests are refused, and it is said why") {
    check_corpus("manifest", faults, [](const std::string& contents) {
        const auto manifest = std::get<Manifest>(parse_any_manifest(sealed(contents), "m"));
        CHECK(manifest.tensors.front().extents.size() == 3);
        CHECK(manifest.find_file("tokenizer.model")->bytes == 60);
    });
    check_corpus("index", index_faults, [](const std::string& contents) {
        const auto index = std::get<CheckpointIndex>(parse_any_manifest(sealed(contents), "m"));
        CHECK(index.tensors.front().boxes.front().shards ==
              std::vector<ShardRun>{{.first = 0, .step = 2, .count = 2}});
    });
    check_corpus("record", record_faults, [](const std::string& contents) {
        const std::vector<TensorRecord> tensors =
            parse_record(contents, {"shard-00000.h5", 4096, 0}, "m");
        CHECK(tensors.front().extents.size() == 2);
    });
}

TEST_CASE("manifests too deep or too large are refused") {
    const std::string deep = sealed("{\n\"identity\":" + std::string(1000000, '[') + "\n");
    CHECK(error_of([&] { parse_any_manifest(deep, "m"); }).find("nested deeper") !=
          std::string::npos);

    Manifest manifest{meta_for(1), {{"shard-00000.h5", 8192, 0}}, {{"weight", "a", {2000}, {}}}};
    for (std::int64_t i = 0; i < 2000; ++i) {
        manifest.tensors.front().extents.push_back(
            {{{i}, {1}}, 0, 1, "shard-00000.h5", 4 * i, {0}});
    }
    const std::string boxes = version_1_text(manifest);
    CHECK(error_of([&] { parse_any_manifest(boxes, "m"); }).find("more than 1024 boxes") !=
          std::string::npos);

    const ScratchFolder folder("huge");
    write_file_durably(folder.path() / "manifest.json", "{}");
    std::filesystem::resize_file(folder.path() / "manifest.json", std::uintmax_t{1} << 40);
    CHECK(error_of([&] { read_manifest(folder.path()); }).find("limit") != std::string::npos);
}

TEST_CASE("a checkpoint under the name of another step is refused") {
    const ScratchFolder folder("renamed");
    const auto checkpoint = save_mesh(folder.path(), {1, 1}, 3);
    std::filesystem::rename(checkpoint, folder.path() / "best");
    CHECK(loads(folder.path() / "best", {}, 3));
    std::filesystem::rename(folder.path() / "best", folder.path() / "step-000004");
    CHECK(error_of([&] { read_manifest(folder.path() / "step-000004"); }).find("holds step 3") !=
          std::string::npos);
}

}  // namespace gptrain::test
