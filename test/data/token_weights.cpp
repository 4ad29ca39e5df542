#include "data/token_weights.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "catch.h"
#include "data/indexed_dataset.h"
#include "data/indexed_writer.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using namespace test;

const std::filesystem::path corpus =
    std::filesystem::path(GPTRAIN_TEST_DATA) / "../corpus/lossmask";

// The text that the message on each file of the corpus must contain; empty: the file is right.
const std::map<std::string, std::string>& faults() {
    static const std::map<std::string, std::string> faults = {
        {"good", ""},
        {"no_runs", ""},
        {"header_cut", "is 31 bytes long, but a file of weights has at least 32"},
        {"run_cut", "is 79 bytes long, which does not match its 3 runs"},
        {"run_long", "is 96 bytes long, which does not match its 3 runs"},
        {"magic", "does not start with GPTWGHT"},
        {"version_2", "use a newer program"},
        {"bit_flipped", "is damaged: its CRC-32C"},
        {"crc_zero", "is damaged: its CRC-32C"},
        {"count_huge", "does not match its 18446744073709551615 runs"},
        {"other_tokens", "is of 999 tokens, but the loss mask of 1000"},
        {"tokens_huge", "is of 18446744073709551615 tokens"},
        {"run_empty", "run 0 is empty, out of order or behind the last token"},
        {"run_overlaps", "run 1 is empty, out of order"},
        {"run_backwards", "run 1 is empty, out of order"},
        {"run_behind", "run 0 is empty, out of order or behind"},
        {"run_huge", "run 0 is empty, out of order or behind"},
        {"run_2_63", "run 0 is empty, out of order or behind"},
        {"run_unlearned", "run 0 has tokens that the loss mask does not mark"},
        {"weight_0", "run 0 has weight 0, which must be above 0 and below 1"},
        {"weight_1", "run 0 has weight 1,"},
        {"weight_negative", "run 0 has weight -0.5,"},
        {"weight_nan", "run 0 has weight nan"},
        {"weight_infinite", "run 0 has weight inf"},
    };
    return faults;
}

TokenMeta meta() {
    return {.tokenizer_file = "tok.json",
            .tokenizer_crc32c = 7,
            .vocab_size = 1000,
            .append_eod = true,
            .documents = 0,
            .tokens = 0,
            .program = "gptrain test"};
}

/// Token files of one document of 1,000 tokens, all learned but every seventh.
void write_files(const std::filesystem::path& prefix, bool weighted) {
    std::vector<std::uint8_t> learned(1000, 1);
    for (std::size_t i = 0; i < learned.size(); i += 7)
        learned[i] = 0;
    std::vector<float> weights(learned.begin(), learned.end());
    const auto weigh = [&](std::size_t first, std::size_t count, float weight) {
        std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(first), count, weight);
    };
    weigh(1, 2, 0.5f);
    weigh(3, 4, 0.25f);
    weigh(995, 5, 0.75f);
    if (!weighted) weights.clear();
    IndexedWriter writer(prefix, DType::u16, true);
    writer.add_sequence(std::vector<std::int32_t>(1000, 3), learned, weights);
    writer.end_document();
    writer.commit(meta());
}

TEST_CASE("hostile weights are refused, and it is said why") {
    const TempFolder folder;
    write_files(folder / "a", false);
    const LossMask mask(folder / "a.mask");
    std::set<std::string> seen;
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
        if (entry.path().extension() != ".weights") continue;
        const std::string name = entry.path().stem().string();
        CAPTURE(name);
        seen.insert(name);
        REQUIRE(faults().count(name) == 1);
        const std::string& fault = faults().at(name);
        if (fault.empty()) {
            CHECK_NOTHROW(TokenWeights(entry.path(), mask));
            continue;
        }
        const std::string message =
            message_of(ExitCode::bad_input, [&] { TokenWeights weights(entry.path(), mask); });
        CHECK(message.starts_with(entry.path().string() + ": "));
        CHECK(contains(message, fault));
    }
    CHECK(seen.size() == faults().size());
}

TEST_CASE("the writer's weights are those of the corpus, byte for byte") {
    const TempFolder folder;
    write_files(folder / "a", true);
    CHECK(contents(folder / "a.weights") == contents(corpus / "good.weights"));
    const IndexedDataset data(folder / "a");
    CHECK(data.weighted());
    CHECK(data.weighted_tokens() == 11);
    CHECK(data.meta()->weights->runs == 3);
    std::vector<float> weights(7);
    data.read_weights(0, 1, weights);
    CHECK(weights == std::vector<float>{0.5f, 0.5f, 0.25f, 0.25f, 0.25f, 0.25f, 0});
}

TEST_CASE("weights belong to their token files") {
    const TempFolder folder;
    const auto refused = [&](const std::string& words) {
        const std::string message =
            message_of(ExitCode::bad_input, [&] { IndexedDataset data(folder / "a"); });
        CHECK(message.starts_with((folder / "a.weights").string() + ": "));
        CHECK(contains(message, words));
    };
    write_files(folder / "a", false);
    const std::string plain = IndexedDataset(folder / "a").fingerprint();
    fill(folder / "a.weights", contents(corpus / "good.weights"));
    refused("names these weights");
    write_files(folder / "a", true);
    CHECK(IndexedDataset(folder / "a").fingerprint().starts_with(plain + "-weights."));
    fill(folder / "a.weights", contents(corpus / "no_runs.weights"));
    refused("has the weights of other token files");
    std::filesystem::remove(folder / "a.weights");
    refused("no such file of weights");
    const std::string without = message_of(ExitCode::bad_input, [&] {
        const std::string json = to_text(meta());
        parse_token_meta(json.substr(0, json.rfind('}')) + ",\"weights\":{}}", "m");
    });
    CHECK(without == "m: has 'weights' but no 'mask'");
}

constexpr std::int64_t many = 9'000'000;

void write_side_file(const std::filesystem::path& path, std::span<const std::byte> header,
                     std::span<const std::byte> rest) {
    std::filesystem::remove(path);
    File file(path, File::Mode::create);
    file.write(header);
    file.write(rest);
    file.close();
}

/// A mask of more than 1 MiB, of tokens that are all learned or none of them.
void write_large_mask(const std::filesystem::path& path, bool learned) {
    std::vector<std::byte> bytes;
    MaskPacker mask;
    mask.add(std::vector<std::uint8_t>(many, learned ? 1 : 0), bytes);
    mask.finish(bytes);
    write_side_file(path, mask.header(), bytes);
}

/// One run of weights for its tokens.
void write_few_weights(const std::filesystem::path& path) {
    std::vector<std::byte> bytes;
    WeightPacker weights;
    weights.add(5, std::vector<float>(4, 0.5f), bytes);
    write_side_file(path, weights.header(many), bytes);
}

TEST_CASE("a mask and weights that a start has checked are not checked by the next one") {
    const TempFolder folder;
    ::setenv("GPTRAIN_NODE_CACHE", (folder / "node").c_str(), 1);
    write_large_mask(folder / "a.mask", true);
    write_few_weights(folder / "a.weights");
    // Files that were changed just now are always checked.
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    const MpiSession alone;
    const auto kept_after_start = [&] {
        const LossMask mask(folder / "a.mask", &alone);
        const TokenWeights weights(folder / "a.weights", mask, &alone);
        CHECK(weights.tokens() == 4);
        std::map<std::filesystem::path, std::filesystem::file_time_type> kept;
        for (const auto& entry : std::filesystem::directory_iterator(folder / "node"))
            kept[entry.path()] = entry.last_write_time();
        return kept;
    };
    const auto first = kept_after_start();
    CHECK(first.size() == 2);
    CHECK(kept_after_start() == first);
    // The weights belong to the mask.
    write_large_mask(folder / "a.mask", false);
    CHECK(contains(message_of(ExitCode::bad_input, kept_after_start),
                   "tokens that the loss mask does not mark"));
    ::unsetenv("GPTRAIN_NODE_CACHE");
}

}  // namespace
}  // namespace gptrain
