#include "chat/conversation.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sentencepiece_trainer.h>
#include <set>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "catch.h"
#include "chat/turns.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/marked_text.h"
#include "tokenizer/support.h"
#include "tokenizer/train_tokenizer.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

const std::filesystem::path data = GPTRAIN_TEST_DATA;

std::string bits_of(const std::vector<std::uint8_t>& learned) {
    std::string bits;
    for (const std::uint8_t one : learned)
        bits += one != 0 ? '1' : '0';
    return bits;
}

/// Without a tokenizer_config.json.
MarkedEncoder encoder_of(const Tokenizer& tokenizer) {
    return {tokenizer, Json::object(), "config"};
}

/// A lossless model of sentencepiece.
Tokenizer lossless_tokenizer() {
    const auto lines = sample_text();
    std::size_t at = 0;
    const std::string model = train_tokenizer(
        {.vocab_size = 340, .kind = TokenizerTraining::Kind::unigram}, [&](std::string& document) {
            if (at == lines.size()) return false;
            document = lines[at++];
            return true;
        });
    return {model, "model"};
}

/// One that normalizes, removes blanks and prepends one.
Tokenizer normalizing_tokenizer() {
    LineSentences sentences(sample_text());
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        std::unordered_map<std::string, std::string>{{"vocab_size", "300"},
                                                     {"normalization_rule_name", "nmt_nfkc"},
                                                     {"hard_vocab_limit", "false"},
                                                     {"minloglevel", "4"}},
        &sentences, &model);
    REQUIRE(status.ok());
    return {model, "model"};
}

}  // namespace

TEST_CASE("conversations have the ids and the masks of transformers") {
    std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
    std::map<std::string, std::unique_ptr<ChatTemplate>> templates;
    std::ifstream lines(data / "learned/expected.jsonl");
    std::string line;
    int tagged = 0;
    int refused = 0;
    int learned = 0;
    int several = 0;
    while (std::getline(lines, line)) {
        const Json expected = parse_json(line, "expected.jsonl");
        const auto tokenizer_name = expected.at("tokenizer").get<std::string>();
        const auto template_name = expected.at("template").get<std::string>();
        auto& tokenizer = tokenizers[tokenizer_name];
        if (!tokenizer) tokenizer = std::make_unique<Tokenizer>(data / "learned" / tokenizer_name);
        auto& chat = templates[template_name];
        if (!chat) {
            chat = std::make_unique<ChatTemplate>(read_file(data / template_name, 1 << 20),
                                                  template_name);
        }
        CAPTURE(tokenizer_name, template_name, expected.at("messages").dump());
        tagged += chat->marks_generation() ? 1 : 0;
        const auto render = [&] {
            return render_learned(*chat, {expected.at("messages")}, variables);
        };
        if (expected.at("documents").is_null()) {
            ++refused;
            CHECK_THROWS_AS(render(), Error);
            continue;
        }
        const std::vector<LearnedText> texts = render();
        const Json& documents = expected.at("documents");
        REQUIRE(texts.size() == documents.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const LocatedIds located = encoder_of(*tokenizer).encode(texts[i].text);
            CHECK(located.ids == documents[i].at("ids").get<std::vector<std::int32_t>>());
            const std::string bits = bits_of(learned_tokens(located.begins, texts[i].learned));
            CHECK(bits == documents[i].at("mask").get<std::string>());
        }
        several += texts.size() > 1 ? 1 : 0;
        ++learned;
    }
    CHECK(tokenizers.size() == 2);
    CHECK(templates.size() == 12);
    CHECK(tagged == 100);
    CHECK(refused == 136);
    CHECK(learned == 464);
    CHECK(several == 10);
}

TEST_CASE("what is learned is what the assistant says, with the mark that ends its turn") {
    const Json messages = Json::array({message("system", "Be kind."), message("user", "Hi"),
                                       message("assistant", "Ho"), message("user", "Bye"),
                                       message("assistant", "!")});
    std::map<std::string, std::vector<std::string>> parts;
    for (const NamedTemplate& one : named_templates()) {
        const Json tokens = {{"bos_token", std::string(one.bos_token)},
                             {"eos_token", std::string(one.eos_token)}};
        const ChatTemplate chat(one.text, "t");
        parts[std::string(one.name)] = parts_of(render_learned(chat, {messages}, tokens));
    }
    using Parts = std::vector<std::string>;
    CHECK(parts["chatml"] == Parts{"Ho<|im_end|>\n", "!<|im_end|>\n"});
    CHECK(parts["llama3"] == Parts{"Ho<|eot_id|>", "!<|eot_id|>"});
    CHECK(parts["mistral"] == Parts{" Ho</s>", " !</s>"});
    CHECK(parts["plain"] == Parts{" Ho\n", " !\n"});
}

TEST_CASE("tokens of sentencepiece begin where the text that they stand for does") {
    const std::string text = "and the earth  was \xC3\xA9\xE4\xBD\xA0 12:3 \n\n void,\tlight";
    // The pieces of a lossless model are the bytes of the text.
    const Tokenizer exact = lossless_tokenizer();
    std::vector<std::int32_t> ids;
    std::vector<std::size_t> begins;
    exact.encode(text, ids, begins);
    REQUIRE(begins.size() == ids.size());
    std::vector<std::int32_t> plain;
    exact.encode(text, plain);
    CHECK(plain == ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::string before = exact.decode(std::span(ids).first(i));
        CAPTURE(i, before);
        // Up to a byte of a character that is not complete.
        if (before.find("\xEF\xBF\xBD") == std::string::npos) CHECK(begins[i] == before.size());
    }
    // A long text is encoded in parts.
    std::string repeated;
    while (repeated.size() < 200'000)
        repeated += " and the earth was without form, and void";
    ids.clear();
    begins.clear();
    exact.encode(repeated, ids, begins);
    for (std::size_t i = 1; i < begins.size(); ++i) {
        const std::string piece = exact.decode(std::span(ids).subspan(i - 1, 1));
        REQUIRE(begins[i] == begins[i - 1] + piece.size());
    }
    // One that normalizes and prepends a space maps its pieces back.
    const Tokenizer loose = normalizing_tokenizer();
    ids.clear();
    begins.clear();
    const std::string wide =
        "the   \xEF\xBC\xA5"
        "arth";  // a full-width E, extra blanks
    loose.encode(wide, ids, begins);
    REQUIRE(begins.size() == ids.size());
    CHECK(begins.front() == 0);
    const auto at = std::find(begins.begin(), begins.end(), wide.find("\xEF\xBC\xA5"));
    CHECK(at != begins.end());
}

TEST_CASE("a conversation of sentencepiece has its marks as tokens, and learns up to them") {
    const Tokenizer tokenizer = lossless_tokenizer();
    const NamedTemplate& mistral = *find_named_template("mistral");
    const Json tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const Json messages = Json::array(
        {message("user", "let there be light"), message("assistant", "and there was light"),
         message("user", "good"), message("assistant", "it was good")});
    const LearnedText text =
        render_learned(ChatTemplate(mistral.text, "t"), {messages}, tokens).front();
    const LocatedIds located = encoder_of(tokenizer).encode(text.text);
    const auto learned = learned_tokens(located.begins, text.learned);
    REQUIRE(learned.size() == located.ids.size());
    CHECK(located.ids.front() == tokenizer.bos_id());
    CHECK(located.ids.back() == tokenizer.eos_id());
    CHECK(std::count(located.ids.begin(), located.ids.end(), *tokenizer.eos_id()) == 2);
    CHECK(
        show_learned(tokenizer, located.ids, learned, {"{+", "+}"}) ==
        "<s>[INST] let there be light [/INST]{+ and there was light</s>+}[INST] good [/INST]{+ it "
        "was good</s>+}");
}

TEST_CASE("texts that spell pieces of sentencepiece have the ids of transformers") {
    const Tokenizer tokenizer(data / "marked/tokenizer.model");
    std::ifstream lines(data / "marked/expected.jsonl");
    std::string line;
    int checked = 0;
    for (; std::getline(lines, line); ++checked) {
        const Json expected = parse_json(line, "expected.jsonl");
        const MarkedEncoder encoder(tokenizer, expected.at("config"), "config");
        const auto text = expected.at("text").get<std::string>();
        CAPTURE(text, expected.at("config").dump());
        const LocatedIds located = encoder.encode(text);
        CHECK(located.ids == expected.at("ids").get<std::vector<std::int32_t>>());
        // A special token begins where the text spells it.
        REQUIRE(located.begins.size() == located.ids.size());
        for (std::size_t i = 0; i < located.ids.size(); ++i) {
            const std::string_view mark = tokenizer.mark(located.ids[i]);
            CHECK(text.substr(located.begins[i]).starts_with(mark));
        }
    }
    CHECK(checked > 500);
    // Texts that are no conversations have sentencepiece's ids: letters.
    std::vector<std::int32_t> plain;
    tokenizer.encode("[INST]", plain);
    CHECK(plain.size() > 1);
    EndTokens ends;
    ends.add(tokenizer, "[/INST]");
    CHECK(ends.contains(4));
}

TEST_CASE("a template is asked for the names that it uses") {
    const ChatTemplate chat(
        "{# comment #}{{ tools }}{{ m.calls }}{{ m['name'] }}{% if x %}{{ a | trim }}text{% endif "
        "%}",
        "t");
    for (const char* name : {"tools", "calls", "name", "x", "a", "m"})
        CHECK(chat.uses(name));
    for (const char* name : {"comment", "text", "trim", "tool", "content"})
        CHECK(!chat.uses(name));
}

TEST_CASE("shown text cannot control the terminal") {
    const Tokenizer tokenizer(data / "learned/bpe.json");
    std::vector<std::int32_t> ids;
    std::vector<std::size_t> begins;
    tokenizer.encode("a\x1b[31mb\n", ids, begins);
    const std::vector<std::uint8_t> learned(ids.size(), 1);
    CHECK(show_learned(tokenizer, ids, learned, {"<", ">"}) == "<a\\x1b[31mb\n>");
}
