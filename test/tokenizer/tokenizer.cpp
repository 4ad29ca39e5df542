#include "tokenizer/tokenizer.h"

#include <cstdint>
#include <sentencepiece_processor.h>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/utf8.h"
#include "catch.h"
#include "support.h"
#include "tokenizer/train_tokenizer.h"

using namespace gptrain;

namespace {

std::string trained(TokenizerTraining::Kind kind, std::int64_t vocab_size = 340) {
    const auto lines = sample_text();
    std::size_t at = 0;
    return train_tokenizer({.vocab_size = vocab_size, .kind = kind}, [&](std::string& document) {
        if (at == lines.size()) return false;
        document = lines[at] + "\n" + lines[at * 7 % lines.size()];
        ++at;
        return true;
    });
}

const std::string& unigram_model() {
    static const std::string model = trained(TokenizerTraining::Kind::unigram);
    return model;
}
const std::string& bpe_model() {
    static const std::string model = trained(TokenizerTraining::Kind::bpe);
    return model;
}

const std::vector<std::string> nasty_texts = {
    "",
    " ",
    "\n",
    "In the beginning God created the heaven and the earth.",
    "  two leading,  two inside, two trailing  ",
    "tab\there\t\tand\r\nCRLF\r, form feed\f, vertical tab\v, bell\a",
    "\n\n\nblank lines\n\n",
    "\xE2\x96\x81",
    "\xE2\x96\x81 \xE2\x96\x81\xE2\x96\x81the\xE2\x96\x81 heaven",
    "\xE2\x96\x85 the trainer's own mark \xE2\x96\x85\xE2\x96\x85",
    "<s></s><unk><pad><0x41><0x0A> </s>",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7 family",
    "e\xCC\x81 against \xC3\xA9, \xE2\x84\xAB against \xC3\x85, \xEF\xAC\x81 ligature",
    "\xC2\xA0no-break\xE2\x80\x83"
    "em\xE3\x80\x80wide\xE2\x80\x8Bzero\xEF\xBB\xBFmark",
    "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D \xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7 \xE2\x80\xAE"
    "rtl",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C \xE3\x81\x93\xE3\x82\x93",
    "\xEF\xBF\xBD replacement, \xEF\xBF\xBE\xEF\xBF\xBF noncharacters, \xF4\x8F\xBF\xBF last",
    "\x7F\x01\x02\x1B[31m control",
    std::string("NUL \0 inside\0", 13),
    std::string(5000, ' '),
    std::string(3000, 'a'),
};

std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    return ids;
}

}  // namespace

TEST_CASE("trained tokenizers are lossless, in the library as well") {
    const std::string& model = GENERATE(false, true) ? bpe_model() : unigram_model();
    const Tokenizer tokenizer(model, "trained");
    sentencepiece::SentencePieceProcessor library;
    REQUIRE(library.LoadFromSerializedProto(model).ok());
    for (const std::string& text : nasty_texts) {
        CAPTURE(text);
        const auto ids = encoded(tokenizer, text);
        CHECK(tokenizer.decode(ids) == text);
        CHECK(ids == library.EncodeAsIds(text));
        CHECK(library.DecodeIds(ids) == text);
    }
}

TEST_CASE("the length of a text bounds its tokens") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    for (const std::string& text : nasty_texts) {
        CAPTURE(text);
        CHECK(tokenizer.least_tokens(text) <= std::ssize(encoded(tokenizer, text)));
    }
    CHECK(tokenizer.least_tokens("") == 0);
    const std::string spaces = "\xE2\x96\x81";  // how pieces spell one
    std::string many;
    for (int i = 0; i < 1000; ++i)
        many += spaces;
    CHECK(tokenizer.least_tokens(many) > 0);
    CHECK(tokenizer.least_tokens(many) <= std::ssize(encoded(tokenizer, many)));
}

TEST_CASE("the memory to encode a text grows with its longest part") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    std::string words;
    while (words.size() < 1'000'000)
        words += " word";
    CHECK(tokenizer.encoding_bytes(std::string(1'000'000, 'w')) == 324'000'000);
    CHECK(tokenizer.encoding_bytes(words) < 60'000'000);
}

TEST_CASE("random text of all planes survives") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    std::uint32_t state = 7;
    std::string text;
    for (int i = 0; i < 20000; ++i) {
        state = state * 1664525u + 1013904223u;
        std::uint32_t code = (state >> 8) % (i % 3 == 0 ? 0x110000 : i % 3 == 1 ? 0x80 : 0x3000);
        if (code >= 0xD800 && code < 0xE000) code = ' ';
        if (code < 0x80) {
            text += static_cast<char>(code);
        } else if (code < 0x800) {
            text += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
        } else if (code < 0x10000) {
            text +=
                {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
                 static_cast<char>(0x80 | (code & 63))};
        } else {
            text +=
                {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
                 static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
        }
    }
    REQUIRE(find_invalid_utf8(text) == std::string::npos);
    CHECK(tokenizer.decode(encoded(tokenizer, text)) == text);
}

TEST_CASE("ids and facts of a trained model") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    CHECK(tokenizer.vocab_size() == 340);
    CHECK(tokenizer.bos_id() == 1);
    CHECK(tokenizer.eos_id() == 2);
    CHECK(tokenizer.fingerprint() == crc32c(unigram_model().data(), unigram_model().size()));
    CHECK(tokenizer.decode(std::vector<std::int32_t>{1, 2}) == "");
    CHECK(unigram_model() == trained(TokenizerTraining::Kind::unigram));
    // Frequent words became one piece, together with their space.
    CHECK(encoded(tokenizer, " the heaven and the earth").size() == 5);
}

TEST_CASE("the mask token is the piece of that name") {
    const Tokenizer plain(unigram_model(), "trained");
    CHECK_FALSE(plain.mask_id());
    const std::string piece = "\x06 earth";  // with its length, as it is stored
    const std::vector<std::int32_t> ids = encoded(plain, piece.substr(1));
    REQUIRE(ids.size() == 1);
    std::string model = unigram_model();
    const std::size_t at = model.find(piece);
    REQUIRE(at != std::string::npos);
    model.replace(at, piece.size(), "\x06[MASK]");
    CHECK(Tokenizer(model, "masked").mask_id() == ids[0]);
}

TEST_CASE("long text is encoded as its words are") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    std::string text;
    std::vector<std::int32_t> expected;
    for (int i = 0; text.size() < 300'000; ++i) {
        const std::string words = i % 3 == 0 ? " the heaven and" : "   earth,";
        text += words;
        tokenizer.encode(words, expected);
    }
    CHECK(encoded(tokenizer, text) == expected);
}

TEST_CASE("a word too long for one part is encoded without loss") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    std::string text = "x";
    while (text.size() < (std::size_t{8} << 20) + 100)
        text += "\xE4\xBD\xA0";
    CHECK(tokenizer.decode(encoded(tokenizer, text)) == text);
}

TEST_CASE("a stream shows whole characters only") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    const std::string text = " the \xF0\x9F\x98\x80 \xE4\xBD\xA0 day";
    StreamDecoder decoder(tokenizer);
    std::string shown;
    for (const std::int32_t id : encoded(tokenizer, text)) {
        const std::string part = decoder.push(id);
        CHECK(find_invalid_utf8(part) == std::string::npos);
        shown += part;
    }
    CHECK(decoder.finish() == "");
    CHECK(shown == text);
}

TEST_CASE("any ids decode to what the library says") {
    for (const std::string* model : {&unigram_model(), &bpe_model()}) {
        const Tokenizer tokenizer(*model, "trained");
        sentencepiece::SentencePieceProcessor library;
        REQUIRE(library.LoadFromSerializedProto(*model).ok());
        std::uint32_t state = 3;
        std::vector<std::int32_t> ids;
        for (int i = 0; i < 20000; ++i) {
            state = state * 1664525u + 1013904223u;
            ids.push_back(static_cast<std::int32_t>((state >> 8) % 340));
        }
        const std::string decoded = tokenizer.decode(ids);
        CHECK(find_invalid_utf8(decoded) == std::string::npos);
        CHECK(decoded == library.DecodeIds(ids));
    }
}

TEST_CASE("what cannot be encoded, decoded or trained is refused") {
    const Tokenizer tokenizer(unigram_model(), "trained");
    std::vector<std::int32_t> ids;
    CHECK_THROWS_AS(tokenizer.encode("a\xFFz", ids), Error);
    CHECK_THROWS_AS(tokenizer.decode(std::vector<std::int32_t>{340}), Error);
    CHECK_THROWS_AS(tokenizer.decode(std::vector<std::int32_t>{-1}), Error);
    const auto code_of = [](std::int64_t vocab_size, std::string text,
                            TokenizerTraining::Kind kind = TokenizerTraining::Kind::unigram) {
        bool given = false;
        try {
            train_tokenizer({.vocab_size = vocab_size, .kind = kind}, [&](std::string& document) {
                document = text;
                return !std::exchange(given, true);
            });
        } catch (const Error& error) {
            return error.code();
        }
        return ExitCode::done;
    };
    std::string text;
    for (const std::string& line : sample_text())
        text += line;
    CHECK(code_of(100, text) == ExitCode::usage);
    CHECK(code_of(5'000'000, text) == ExitCode::usage);
    CHECK(code_of(1000, text) == ExitCode::usage);
    CHECK(code_of(260, text) == ExitCode::usage);
    CHECK(code_of(300, "some text") == ExitCode::bad_input);
    CHECK(code_of(300, "") == ExitCode::bad_input);
    CHECK(code_of(300, "\t\t\xE2\x96\x81" + std::string(3, '\0')) == ExitCode::bad_input);
}
