#include "data/indexed_writer.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "catch.h"
#include "data/indexed_dataset.h"

using namespace gptrain;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(GPTRAIN_TEST_DATA) / "megatron";

fs::path fresh_folder(const std::string& name) {
    const fs::path folder = fs::current_path() / name;
    fs::remove_all(folder);
    fs::create_directories(folder);
    return folder;
}

std::string contents(const fs::path& path) {
    return read_file(path, std::int64_t{1} << 30);
}

void write_document(const std::string& line, IndexedWriter& writer) {
    std::istringstream words(line);
    std::vector<std::int32_t> sequence;
    for (std::string word; words >> word;) {
        if (word == "|") {
            writer.add_sequence(sequence);
            sequence.clear();
        } else {
            sequence.push_back(std::stoi(word));
        }
    }
    if (!sequence.empty()) writer.add_sequence(sequence);
    writer.end_document();
}

void write_documents(const std::string& name, IndexedWriter& writer) {
    std::ifstream documents(fixtures / ("documents_" + name + ".txt"));
    REQUIRE(documents.is_open());
    for (std::string line; std::getline(documents, line);)
        write_document(line, writer);
}

}  // namespace

TEST_CASE("token files are byte for byte those of megatron-core") {
    const fs::path folder = fresh_folder("writer_bytes");
    const std::string name = GENERATE("u16", "i32");
    CAPTURE(name);
    IndexedWriter writer(folder / name, name == "u16" ? DType::u16 : DType::i32);
    write_documents(name, writer);
    writer.commit();
    CHECK(contents(folder / (name + ".bin")) == contents(fixtures / (name + ".bin")));
    CHECK(contents(folder / (name + ".idx")) == contents(fixtures / (name + ".idx")));
    CHECK(IndexedDataset(folder / name).num_documents() == writer.num_documents());
}

TEST_CASE("files that outgrow every buffer are whole") {
    const fs::path folder = fresh_folder("writer_large");
    IndexedWriter writer(folder / "large", DType::i32);
    const std::int64_t documents = 400'000;
    std::vector<std::int32_t> ids(7);
    for (std::int64_t i = 0; i < documents; ++i) {
        ids.assign(static_cast<std::size_t>(1 + i % 7), static_cast<std::int32_t>(i));
        writer.add_sequence(ids);
        writer.end_document();
    }
    ids.assign(1'000'000, 5);
    writer.add_sequence(ids);
    writer.end_document();
    writer.commit();
    const IndexedDataset dataset(folder / "large");
    REQUIRE(dataset.num_documents() == documents + 1);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < documents; ++i) {
        std::int32_t last = -1;
        dataset.read(i, dataset.sequence_length(i) - 1, 1, &last);
        wrong += last != i || dataset.sequence_length(i) != 1 + i % 7 ? 1 : 0;
    }
    CHECK(wrong == 0);
    CHECK(dataset.sequence_length(documents) == 1'000'000);
}

TEST_CASE("nothing appears or changes before commit") {
    const fs::path folder = fresh_folder("writer_commit");
    {
        IndexedWriter writer(folder / "a", DType::u16);
        writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
        writer.end_document();
        writer.commit();
    }
    const std::string before = contents(folder / "a.bin") + contents(folder / "a.idx");
    {
        IndexedWriter writer(folder / "a", DType::u16);
        writer.add_sequence(std::vector<std::int32_t>{9});
        writer.end_document();
    }
    CHECK(contents(folder / "a.bin") + contents(folder / "a.idx") == before);
    CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 2);
}

TEST_CASE("a part that was appended takes no disk space, while its writer still lives") {
    const fs::path folder = fresh_folder("writer_parts");
    const bool masked = GENERATE(false, true);
    CAPTURE(masked);
    const std::vector<std::uint8_t> learned(masked ? 3 : 0, 1);
    const auto add = [&](IndexedWriter& writer, std::int32_t id) {
        writer.add_sequence(std::vector<std::int32_t>{id, id + 1, id + 2}, learned);
        writer.end_document();
    };
    IndexedWriter whole(folder / "a", DType::u16, masked);
    add(whole, 1);
    IndexedWriter part(folder / "b", DType::u16, masked);
    add(part, 11);
    part.finish_part();
    whole.append_part(folder / "b", part.counts());
    std::vector<std::string> suffixes = {".bin", ".idx", ".documents"};
    if (masked) suffixes.emplace_back(".mask");
    for (const std::string& suffix : suffixes) {
        CAPTURE(suffix);
        CHECK(fs::file_size(folder / ("b" + suffix + ".tmp")) == 0);
    }
    whole.commit(TokenMeta{"tok.model", 7, 320, true, 0, 0, "gptrain 0.1.0"});
    const IndexedDataset dataset(folder / "a");
    CHECK(dataset.num_documents() == 2);
    std::int32_t last = 0;
    dataset.read(1, 2, 1, &last);
    CHECK(last == 13);
}

TEST_CASE("more sequences than an index can have are refused") {
    const fs::path folder = fresh_folder("writer_limit");
    IndexedWriter writer(folder / "a", DType::u16);
    writer.add_sequence(std::vector<std::int32_t>{1});
    writer.end_document();
    const TokenCounts counts = {.sequences = 2'147'483'647, .documents = 1, .tokens = 0};
    CHECK_THROWS_WITH(writer.append_part(folder / "b", counts),
                      test::contains_text("split the corpus"));
}

TEST_CASE("of two writers of the same files the second is refused and touches nothing") {
    const fs::path folder = fresh_folder("writer_twice");
    std::ofstream(folder / "a.bin.tmp") << "left by a killed process";
    IndexedWriter first(folder / "a", DType::u16);
    first.add_sequence(std::vector<std::int32_t>{1, 2, 3});
    first.end_document();
    first.finish_part();
    CHECK_THROWS_WITH(IndexedWriter(folder / "a", DType::u16),
                      test::contains_text("another process writes "));
    first.commit();
    CHECK(fs::file_size(folder / "a.bin") == 6);
    CHECK(IndexedDataset(folder / "a").num_tokens() == 3);
    // The first still lives, but has nothing left to protect except its documents.
    CHECK_THROWS(IndexedWriter(folder / "a", DType::u16));
    CHECK(fs::exists(folder / "a.documents.tmp"));
    CHECK_FALSE(fs::exists(folder / "a.bin.tmp"));
}

TEST_CASE("what is known of the tokens appears with them, and never stays behind") {
    const fs::path folder = fresh_folder("writer_meta");
    const auto write = [&](const std::optional<TokenMeta>& meta) {
        IndexedWriter writer(folder / "a", DType::u16);
        writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
        writer.end_document();
        writer.commit(meta);
        return IndexedDataset(folder / "a").meta();
    };
    const auto files = [&] {
        return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
    };
    const TokenMeta meta = {"tok.model", 7, 320, true, 0, 0, "gptrain 0.1.0"};
    TokenMeta expected = meta;
    expected.documents = 1;
    expected.tokens = 3;
    CHECK(write(meta) == expected);
    CHECK(files() == 3);
    CHECK_FALSE(write(std::nullopt));
    CHECK(files() == 2);
}

TEST_CASE("the type of id follows the vocabulary as in Megatron's tool") {
    CHECK(token_dtype(65'499) == DType::u16);
    CHECK(token_dtype(65'500) == DType::i32);
}
