#include "tokenizer/model_check.h"

#include <filesystem>
#include <map>
#include <sentencepiece_trainer.h>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "catch.h"
#include "support.h"
#include "support/temp_folder.h"
#include "tokenizer/protobuf_wire.h"
#include "tokenizer/tokenizer.h"

using namespace gptrain;
namespace fs = std::filesystem;

namespace {

const fs::path corpus = fs::path(GPTRAIN_TEST_DATA).parent_path() / "corpus" / "sentencepiece";

/// The message if a model file is refused; empty if it loads.
std::string refusal(const fs::path& model) {
    try {
        const Tokenizer tokenizer(model);
        return "";
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_input);
        const std::string message = error.what();
        CHECK(message.find(model.string()) != std::string::npos);
        CHECK(message.find('\n') == std::string::npos);
        return message;
    }
}

/// Loads a possibly broken model and uses it if it loads: no input may crash the process.
void load_and_use(std::string_view model) {
    try {
        const Tokenizer tokenizer(model, "flipped");
        std::vector<std::int32_t> ids;
        tokenizer.encode("he that hath  an ear,\n \xEF\xBD\xB1 \xE2\x84\xAB \xE3\x88\xB1 let\0",
                         ids);
        tokenizer.decode(ids);
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_input);
    }
}

/// A model with a table of real normalisation rules (NFKC), trained by the library itself.
const std::string& nfkc_model() {
    static const std::string model = [] {
        LineSentences sentences(sample_text());
        std::string bytes;
        const auto status = sentencepiece::SentencePieceTrainer::Train(
            std::unordered_map<std::string, std::string>{{"vocab_size", "300"},
                                                         {"normalization_rule_name", "nmt_nfkc"},
                                                         {"hard_vocab_limit", "false"},
                                                         {"minloglevel", "4"}},
            &sentences, &bytes);
        REQUIRE(status.ok());
        return bytes;
    }();
    return model;
}

/// The text that the message on each file must contain.
const std::map<std::string, std::string> faults = {
    {"empty_file", "it has no pieces"},
    {"text_file", "is a text file"},
    {"gzip_file", ""},
    {"no_pieces", "it has no pieces"},
    {"cut_in_piece", "truncated"},
    {"cut_in_tag", "truncated"},
    {"huge_length", "truncated"},
    {"length_wraps", "truncated"},
    {"long_varint", "longer than 10 bytes"},
    {"field_zero", "number 0"},
    {"groups", "wire type 3"},
    {"piece_as_number", "wrong type"},
    {"piece_empty", "piece 269 is empty"},
    {"piece_without_text", "piece 269 is empty"},
    {"piece_long", "5000 bytes"},
    {"piece_nul", "NUL"},
    {"piece_not_utf8", "not UTF-8"},
    {"piece_twice", "occurs twice"},
    {"piece_twice_two_types", "occurs twice"},
    {"score_nan", "not finite"},
    {"score_infinite", "not finite"},
    {"piece_type_9", "unknown type 9"},
    {"no_unknown", "unk is not defined"},
    {"two_unknown", "unk is already defined"},
    {"bytes_incomplete", "256 byte pieces"},
    {"bytes_without_fallback", "byte_fallback"},
    {"byte_bad_name", "is invalid"},
    {"only_special", "no pieces"},
    {"model_type_7", "model type 7"},
    {"eos_outside", "id 100000"},
    {"eos_negative", "id -5"},
    {"trainer_twice", "occurs twice"},
    {"denormalizer", "not supported"},
    {"user_defined_65_prefixes", "prefixes"},
    {"charsmap_short", "cannot hold"},
    {"charsmap_trie_too_large", "cannot hold"},
    {"charsmap_trie_odd", "cannot hold"},
    {"charsmap_trie_empty", "cannot hold"},
    {"charsmap_root_outside", "outside the trie"},
    {"charsmap_block_cut", "outside the trie"},
    {"charsmap_child_outside", "outside the trie"},
    {"charsmap_loop", "loop"},
    {"charsmap_33_prefixes", "prefixes"},
    {"charsmap_value_outside", "start of a text"},
    {"charsmap_value_inside_text", "start of a text"},
    {"charsmap_text_without_end", "is unterminated"},
    {"charsmap_text_not_utf8", "not UTF-8"},
    {"charsmap_text_long", "longer than 256"},
};

}  // namespace

TEST_CASE("every hostile model of the corpus is refused by file and fault") {
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(corpus)) {
        const std::string name = entry.path().stem().string();
        if (entry.path().extension() != ".model") continue;
        CAPTURE(name);
        const std::string message = refusal(entry.path());
        if (name.starts_with("good")) {
            CHECK(message == "");
            continue;
        }
        ++files;
        REQUIRE(faults.count(name) == 1);
        CHECK(message != "");
        CAPTURE(message);
        CHECK(message.find(faults.at(name)) != std::string::npos);
    }
    CHECK(files == faults.size());
}

TEST_CASE("models too large for a file of the corpus") {
    const test::TempFolder folder;
    const fs::path path = folder / "large.model";
    const std::string good = read_file(corpus / "good.model", 1 << 20);
    const auto with_piece = [&](const std::string& text) {
        std::string piece;
        append_bytes_field(piece, 1, text);
        std::string model = good;
        append_bytes_field(model, 1, piece);
        test::fill(path, model);
    };
    SECTION("a piece that overflows the library's stack") {
        with_piece(std::string(400'000, 'a'));
        CHECK(refusal(path).find("400000 bytes") != std::string::npos);
    }
    SECTION("more pieces than any vocabulary") {
        std::string model = good;
        for (int i = 0; i < (1 << 20); ++i) {
            std::string piece;
            append_bytes_field(piece, 1, text("p", i));
            append_bytes_field(model, 1, piece);
        }
        test::fill(path, model);
        CHECK(refusal(path).find("more than 1048576 pieces") != std::string::npos);
    }
    SECTION("a file above the limit") {
        File(path, File::Mode::create).truncate((std::int64_t{64} << 20) + 1);
        CHECK(refusal(path).find("limit") != std::string::npos);
    }
}

TEST_CASE("no model file, or none that can be one") {
    CHECK(refusal(fs::current_path() / "missing.model") != "");
    CHECK(refusal(fs::current_path()) != "");
}

TEST_CASE("a real table of normalisation rules passes and works as in the library") {
    const Tokenizer tokenizer(nfkc_model(), "nfkc");
    sentencepiece::SentencePieceProcessor library;
    REQUIRE(library.LoadFromSerializedProto(nfkc_model()).ok());
    for (const std::string text :
         {"In the beginning \xE2\x84\xAB", "\xEF\xBC\xA1\xEF\xBC\xA2  x ", ""}) {
        std::vector<std::int32_t> ids;
        tokenizer.encode(text, ids);
        CHECK(ids == library.EncodeAsIds(text));
        CHECK(tokenizer.decode(ids) == library.DecodeIds(ids));
    }
}

TEST_CASE("a flipped bit never crashes") {
    SECTION("in a small model") {
        const std::string good = read_file(corpus / "good_charsmap.model", 1 << 20);
        for (std::size_t bit = 0; bit < 8 * good.size(); bit += 37) {
            std::string flipped = good;
            flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
            load_and_use(flipped);
        }
    }
    SECTION("in the rules of a real one") {
        const std::string& good = nfkc_model();
        const std::size_t begin = good.find("nmt_nfkc") + 16;
        REQUIRE(begin < good.size());
        const std::size_t step = (good.size() - begin) / 150;
        for (std::size_t at = begin; at < good.size(); at += step) {
            std::string flipped = good;
            flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
            load_and_use(flipped);
        }
    }
}

TEST_CASE("every prefix of a model is refused or usable") {
    const std::string good = read_file(corpus / "good.model", 1 << 20);
    for (std::size_t length = 0; length < good.size(); length += 13)
        load_and_use(std::string_view(good).substr(0, length));
}
