#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "catch.h"
#include "interop/sentencepiece_json.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train_tokenizer.h"

namespace gptrain {
namespace {

std::string trained(TokenizerTraining::Kind kind) {
    int left = 50;
    return train_tokenizer({.vocab_size = 290, .kind = kind}, [&](std::string& document) {
        document = "let there be light: and there was light\nüber dem Wasser " + text(left);
        return left-- > 0;
    });
}

Json tokenizer_of(const std::string& model) {
    const auto files = tokenizer_files(model, "model", 1024);
    REQUIRE(files.has_value());
    CHECK(files->ids.bos == 1);
    CHECK(files->ids.eos == 2);
    return parse_json(files->tokenizer_json, "tokenizer.json");
}

/// Encodes as transformers does: characters, then the merge of the lowest rank, as often as one
/// applies. Characters without a piece are bytes.
std::vector<std::int32_t> encode(const Json& tokenizer, std::string_view line) {
    std::map<std::string, std::int32_t> ids;
    for (const auto& [piece, id] : tokenizer.at("model").at("vocab").items())
        ids[piece] = id.get<std::int32_t>();
    std::map<std::pair<std::string, std::string>, std::size_t> ranks;
    for (const Json& merge : tokenizer.at("model").at("merges"))
        ranks.emplace(std::pair(merge[0].get<std::string>(), merge[1].get<std::string>()),
                      ranks.size());
    std::vector<std::string> pieces;
    for (const char byte : line) {
        if ((static_cast<unsigned char>(byte) & 0xc0U) != 0x80U) pieces.emplace_back();
        pieces.back() += byte;
    }
    while (true) {
        std::size_t best = ranks.size();
        std::size_t place = 0;
        for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
            const auto rank = ranks.find({pieces[i], pieces[i + 1]});
            if (rank == ranks.end() || rank->second >= best) continue;
            best = rank->second;
            place = i;
        }
        if (best == ranks.size()) break;
        pieces[place] += pieces[place + 1];
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    std::vector<std::int32_t> result;
    for (const std::string& piece : pieces) {
        if (ids.contains(piece)) {
            result.push_back(ids.at(piece));
            continue;
        }
        constexpr std::string_view digits = "0123456789ABCDEF";
        for (const char c : piece) {
            const auto byte = static_cast<unsigned char>(c);
            result.push_back(ids.at(text("<0x", digits[byte >> 4], digits[byte & 15], ">")));
        }
    }
    return result;
}

TEST_CASE("tokenizer.json of a BPE model gives the model's ids") {
    const std::string model = trained(TokenizerTraining::Kind::bpe);
    const Json json = tokenizer_of(model);
    CHECK(json.at("model").at("vocab").size() == 290);
    const Tokenizer tokenizer(model, "model");
    for (const std::string_view line :
         {"let there be light", "  and   there\twas\n\nlight ", "über dem Wasser", "unseen: 漢字 ß",
          "lightlight thereere", "\xE2\x96\x81"}) {
        INFO(line);
        std::vector<std::int32_t> ids;
        tokenizer.encode(line, ids);
        CHECK(encode(json, line) == ids);
    }
}

TEST_CASE("tokenizer.json of a unigram model has its pieces, scores and special ids") {
    const Json json = tokenizer_of(trained(TokenizerTraining::Kind::unigram));
    const Json& model = json.at("model");
    CHECK(model.at("type") == "Unigram");
    CHECK(model.at("unk_id") == 0);
    CHECK(model.at("vocab").size() == 290);
    CHECK(model.at("vocab")[3][0] == "<0x00>");
    CHECK(model.at("vocab")[289][1].get<double>() < 0);
    CHECK(json.at("added_tokens").size() == 3);
    CHECK(json.at("added_tokens")[2].at("content") == "</s>");
}

}  // namespace
}  // namespace gptrain
