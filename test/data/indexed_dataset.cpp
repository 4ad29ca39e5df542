#include "data/indexed_dataset.h"

#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "base/crc32c.h"
#include "catch.h"
#include "data/indexed_writer.h"
#include "data/sequential_dataset.h"
#include "data/token_files.h"
#include "support/hdf5_fixture.h"

namespace gptrain {
namespace {

using namespace test;

const std::string corpus = std::string(GPTRAIN_TEST_DATA) + "/../corpus/indexed/";

std::vector<std::int32_t> ids_of(const IndexedDataset& tokens, std::int64_t sequence) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens.sequence_length(sequence)));
    tokens.read(sequence, 0, tokens.sequence_length(sequence), ids.data());
    return ids;
}

std::string fault_of(const std::filesystem::path& prefix) {
    return message_of(ExitCode::bad_input, [&] { IndexedDataset{prefix}; });
}

std::string bytes_of(const std::string& name) {
    const auto bytes =
        read_dataset<std::uint8_t>(std::string(GPTRAIN_TEST_DATA) + "/megatron_files.h5", name);
    return {bytes.begin(), bytes.end()};
}

TEST_CASE("files that megatron-core wrote are read") {
    const TempFolder folder;
    for (const std::string name : {"uint16", "int32", "empty"}) {
        fill(folder / (name + ".bin"), bytes_of(name + "/bin"));
        fill(folder / (name + ".idx"), bytes_of(name + "/idx"));
    }
    const IndexedDataset narrow(folder / "uint16");
    CHECK(narrow.dtype() == DType::u16);
    CHECK(narrow.num_tokens() == 7);
    REQUIRE(narrow.num_sequences() == 5);
    CHECK(ids_of(narrow, 0) == std::vector<std::int32_t>{1, 2, 3});
    CHECK(ids_of(narrow, 1) == std::vector<std::int32_t>{65499});
    CHECK(ids_of(narrow, 2) == std::vector<std::int32_t>{7});
    CHECK(ids_of(narrow, 3).empty());
    CHECK(ids_of(narrow, 4) == std::vector<std::int32_t>{8, 9});
    REQUIRE(narrow.num_documents() == 5);
    std::vector<std::int64_t> begins;
    for (std::int64_t document = 0; document <= 5; ++document) {
        begins.push_back(narrow.document_begin(document));
    }
    CHECK(begins == std::vector<std::int64_t>{0, 2, 2, 3, 5, 5});

    const IndexedDataset wide(folder / "int32");
    CHECK(wide.dtype() == DType::i32);
    CHECK(ids_of(wide, 0) == std::vector<std::int32_t>{70000, 0, 2147483647});
    std::int32_t middle[2] = {};
    wide.read(0, 1, 2, middle);
    CHECK(middle[0] == 0);
    CHECK(middle[1] == 2147483647);

    const IndexedDataset empty(folder / "empty");
    CHECK(empty.num_tokens() == 0);
    CHECK(empty.num_sequences() == 0);
    CHECK(empty.num_documents() == 0);
}

TEST_CASE("the writer's files are megatron-core's, byte for byte") {
    using Documents = std::vector<Sequences>;
    const auto check = [](const std::string& name, DType dtype, const Documents& documents) {
        const TempFolder folder;
        IndexedWriter writer(folder / name, dtype);
        for (const Sequences& document : documents) {
            for (const auto& sequence : document)
                writer.add_sequence(sequence);
            writer.end_document();
        }
        writer.commit();
        CHECK(contents(folder / (name + ".bin")) == bytes_of(name + "/bin"));
        CHECK(contents(folder / (name + ".idx")) == bytes_of(name + "/idx"));
    };
    // As in make_megatron_fixture.py.
    check("uint16", DType::u16, {{{1, 2, 3}, {65499}}, {}, {{7}}, {{}, {8, 9}}, {}});
    check("int32", DType::i32, {{{70000, 0, 2147483647}}, {}, {{5, 6}, {65536}}});
    check("empty", DType::u16, {});
}

TEST_CASE("shares of an index together say what all of it says") {
    const TempFolder folder;
    Sequences sequences = counting(0, 23, 3);
    sequences[4].clear();
    write_tokens(folder / "a", sequences);
    const TokenIndex index(folder / "a");
    const TokenIndex::Facts whole = index.check({});
    CHECK(whole.begun_sequences == 22);
    const std::string idx = contents(folder / "a.idx");
    CHECK(whole.crc == crc32c(idx.data(), idx.size()));
    for (std::int64_t count = 2; count < 40; ++count) {
        TokenIndex::Facts sum;
        for (std::int64_t i = 0; i < count; ++i) {
            const TokenIndex::Facts share = index.check({i, count});
            sum.crc ^= share.crc;
            sum.begun_sequences += share.begun_sequences;
        }
        CHECK(sum.crc == whole.crc);
        CHECK(sum.begun_sequences == whole.begun_sequences);
    }
}

TEST_CASE("an entry that became faulty after the check is refused where it is read") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", counting(0, 3, 4));
    const auto write = [&](std::streamoff at, auto value) {
        std::fstream idx(folder / "a.idx", std::ios::in | std::ios::out | std::ios::binary);
        idx.seekp(at);
        idx.write(reinterpret_cast<const char*>(&value), sizeof value);
    };
    constexpr std::streamoff lengths = 34;
    constexpr std::streamoff offsets = lengths + 3 * 4;
    constexpr std::streamoff documents = offsets + 3 * 8;
    write(lengths + 4, std::int32_t{100});
    CHECK(contains(message_of(ExitCode::bad_input, [&] { ids_of(*tokens, 1); }),
                   "a.idx: sequence 1 has the length 100"));
    write(offsets + 16, std::int64_t{-2});
    CHECK(contains(message_of(ExitCode::bad_input, [&] { ids_of(*tokens, 2); }),
                   "a.idx: sequence 2 starts at byte -2"));
    write(documents + 8, std::int64_t{7});
    CHECK(contains(message_of(ExitCode::bad_input, [&] { tokens->document_begin(1); }),
                   "a.idx: document 1 starts at sequence 7"));
}

TEST_CASE("a range outside of a sequence is refused") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", {{1, 2, 3}, {4}});
    std::int32_t out[4];
    CHECK_THROWS_AS(tokens->read(0, 0, 4, out), Error);
    CHECK_THROWS_AS(tokens->read(0, 4, 0, out), Error);
    CHECK_THROWS_AS(tokens->read(0, -1, 1, out), Error);
    CHECK_THROWS_AS(tokens->read(2, 0, 1, out), Error);
    CHECK_THROWS_AS(tokens->read(-1, 0, 1, out), Error);
}

TEST_CASE("each hostile token data set is refused by name") {
    CHECK(IndexedDataset(corpus + "good").num_tokens() == 5);
    std::istringstream lines(contents(corpus + "expected.txt"));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
        const std::size_t first = line.find('\t');
        const std::size_t second = line.find('\t', first + 1);
        REQUIRE(second != std::string::npos);
        const std::string name = line.substr(0, first);
        const std::string file = corpus + name + "." + line.substr(first + 1, second - first - 1);
        const std::string fault = fault_of(corpus + name);
        CAPTURE(name, fault);
        CHECK(fault.rfind(file + ": ", 0) == 0);
        CHECK(contains(fault, line.substr(second + 1)));
        CHECK_FALSE(contains(fault, "\n"));
    }
    CHECK(count > 40);
}

TEST_CASE("what is not a regular file is refused without a wait") {
    const TempFolder folder;
    write_tokens(folder / "a", {{1}});
    std::filesystem::remove(folder / "a.idx");
    SECTION("folder") {
        std::filesystem::create_directory(folder / "a.idx");
    }
    SECTION("pipe") {
        REQUIRE(::mkfifo((folder / "a.idx").c_str(), 0600) == 0);
    }
    CHECK(contains(fault_of(folder / "a"), "a.idx: not a regular file"));
}

TEST_CASE("no flipped bit of an index goes unnoticed or leads out of the files") {
    const TempFolder folder;
    const Sequences sequences = {{1, 2, 3}, {}, {4, 5}, {6}};
    write_tokens(folder / "a", sequences);
    const std::string good = contents(folder / "a.idx");
    const std::size_t documents = good.size() - 8 * (sequences.size() + 1);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
        fill(folder / "a.idx", bad);
        CAPTURE(bit);
        // Inner document entries may have other valid values; everything else follows from the
        // sizes.
        if (bit / 8 < documents + 8 || bit / 8 >= good.size() - 8) {
            CHECK(fault_of(folder / "a") != "");
        } else if (fault_of(folder / "a").empty()) {
            const IndexedDataset tokens(folder / "a");
            for (std::int64_t i = 0; i <= tokens.num_documents(); ++i) {
                CHECK(tokens.document_begin(i) <= tokens.num_sequences());
            }
        }
    }
}

TEST_CASE("the fingerprint follows the contents") {
    const TempFolder folder;
    const Sequences small = {{1, 2, 3}, {4}};
    const std::string before = make_tokens(folder / "a", small)->fingerprint();
    CHECK(make_tokens(folder / "b", small)->fingerprint() == before);
    CHECK(make_tokens(folder / "a", {{1, 2, 3}, {5}})->fingerprint() != before);
    CHECK(make_tokens(folder / "a", {{1, 2}, {3, 4}})->fingerprint() != before);

    // Above 1 MiB, only some blocks are checked; the first and the last are among them.
    Sequences large = {std::vector<std::int32_t>(400000, 7)};
    const std::string same = make_tokens(folder / "c", large, true)->fingerprint();
    for (const std::size_t changed : {std::size_t{0}, large[0].size() - 1}) {
        Sequences other = large;
        other[0][changed] = 8;
        CHECK(make_tokens(folder / "c", other, true)->fingerprint() != same);
    }
}

TEST_CASE("a text is read once in order, in windows that share one token") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", {{}, {1, 2, 3}, {}, {}, {4, 5, 6, 7}, {}});
    const SequentialDataset from_file(tokens, 4);
    const SequentialDataset from_memory({1, 2, 3, 4, 5, 6, 7}, "text", 4);
    for (const SequentialDataset* data : {&from_file, &from_memory}) {
        CHECK(data->num_targets() == 6);
        REQUIRE(data->size() == 2);
        std::vector<std::int32_t> window(5, -1);
        CHECK(data->sample(0, window) == 5);
        CHECK(window == std::vector<std::int32_t>{1, 2, 3, 4, 5});
        CHECK(data->sample(1, window) == 3);
        CHECK(window == std::vector<std::int32_t>{5, 6, 7, 0, 0});
        CHECK(data->sample(2, window) == 0);
        CHECK(window == std::vector<std::int32_t>(5, 0));
    }
    CHECK(from_file.place_of(1, 2) == (folder / "a.bin").string() + ": sequence 4, token 3");
    CHECK(from_memory.place_of(1, 2) == "text: token 6");
    CHECK(SequentialDataset({1}, "text", 4).size() == 0);
    CHECK(SequentialDataset({}, "text", 4).size() == 0);
    CHECK(SequentialDataset({1, 2, 3, 4, 5}, "text", 4).size() == 1);
}

}  // namespace
}  // namespace gptrain
