#include "tokenizer/tokenizer_files.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/added_token_files.h"
#include "tokenizer/tokenizer_json.h"

namespace gptrain {
namespace {

constexpr std::size_t max_token_bytes = 256;

/// The next line of `text`, which loses it.
std::string_view take_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

Json merges_of(std::string_view text, const std::string& source) {
    Json merges = Json::array();
    for (int number = 1; !text.empty(); ++number) {
        const std::string_view line = take_line(text);
        if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
        const std::size_t blank = line.find(' ');
        if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
            fail(ExitCode::bad_input, source, ":", number, ": a merge must be two tokens: 'a b'");
        merges.push_back({line.substr(0, blank), line.substr(blank + 1)});
    }
    return merges;
}

/// Without a list, GPT-2's end of text is the one added token.
Json default_added_tokens(const Json& vocabulary) {
    constexpr const char* end = "<|endoftext|>";
    Json added = Json::array();
    if (vocabulary.contains(end) && vocabulary.at(end).is_number_integer())
        added.push_back(added_token(end, vocabulary.at(end).get<std::int64_t>(), true));
    return added;
}

/// True if the class of a tokenizer_config.json is Qwen2's, false if it is GPT-2's.
bool is_qwen2(const Json& config, const std::string& source) {
    if (!config.contains("tokenizer_class") || config.at("tokenizer_class").is_null()) return false;
    const std::string& name = JsonReader(config, source).string("tokenizer_class");
    if (name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast") return true;
    if (name == "GPT2Tokenizer" || name == "GPT2TokenizerFast") return false;
    fail(ExitCode::bad_input, source,
         ": tokenizer_class: of vocab.json and merges.txt gptrain reads only those of "
         "GPT2Tokenizer and Qwen2Tokenizer; give a tokenizer.json");
}

int base64_digit(char digit) {
    if (digit >= 'A' && digit <= 'Z') return digit - 'A';
    if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9') return digit - '0' + 52;
    return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

/// Empty if it is not base64 (RFC 4648, with padding).
std::optional<std::string> decode_base64(std::string_view digits) {
    if (digits.size() % 4 != 0) return std::nullopt;
    const std::size_t padding = digits.ends_with("==") ? 2 : digits.ends_with('=') ? 1 : 0;
    digits.remove_suffix(padding);
    std::string bytes;
    std::uint32_t bits = 0;
    int count = 0;
    for (const char digit : digits) {
        const int value = base64_digit(digit);
        if (value < 0) return std::nullopt;
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes += static_cast<char>(bits >> count & 0xFF);
    }
    return bytes;
}

struct RankedToken {
    std::string bytes;
    std::int64_t rank = 0;
};

/// Empty if the line is not base64, a space and a number.
std::optional<RankedToken> ranked_token(std::string_view line) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || blank == 0) return std::nullopt;
    auto bytes = decode_base64(line.substr(0, blank));
    const auto rank = parse_int(line.substr(blank + 1));
    if (!bytes || bytes->empty() || !rank || *rank < 0) return std::nullopt;
    return RankedToken{std::move(*bytes), *rank};
}

/// The tokens by rank.
std::vector<BpeToken> read_ranks(std::string_view text, const std::string& source) {
    std::vector<RankedToken> ranked;
    for (std::int64_t number = 1; !text.empty(); ++number) {
        const std::string_view line = take_line(text);
        if (line.empty()) continue;
        auto token = ranked_token(line);
        if (!token || token->bytes.size() > max_token_bytes)
            fail(ExitCode::bad_input, source, ":", number,
                 ": must be the base64 of a token of at most ", max_token_bytes,
                 " bytes, a blank and its rank");
        ranked.push_back(std::move(*token));
    }
    std::vector<BpeToken> tokens(ranked.size());
    for (RankedToken& token : ranked) {
        if (token.rank >= std::ssize(tokens) ||
            !tokens[static_cast<std::size_t>(token.rank)].bytes.empty())
            fail(ExitCode::bad_input, source, ": the rank ", token.rank,
                 " leaves a gap or is given twice: ", tokens.size(), " tokens need the ranks 0 to ",
                 tokens.size() - 1);
        tokens[static_cast<std::size_t>(token.rank)].bytes = std::move(token.bytes);
    }
    return tokens;
}

/// All pairs of tokens that form a token: what merging by the rank of the whole means. In the order
/// of the whole, then of the parts.
std::vector<BpeMerge> merges_by_rank(const std::vector<BpeToken>& tokens,
                                     const std::string& source) {
    std::unordered_map<std::string_view, std::int32_t> ids;
    for (const BpeToken& token : tokens) {
        if (!ids.emplace(token.bytes, static_cast<std::int32_t>(ids.size())).second)
            fail(ExitCode::bad_input, source, ": a token is listed twice");
    }
    std::vector<BpeMerge> merges;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
        const std::string_view bytes = tokens[id].bytes;
        const auto begin = std::ssize(merges);
        for (std::size_t length = 1; length < bytes.size(); ++length) {
            const auto left = ids.find(bytes.substr(0, length));
            const auto right = ids.find(bytes.substr(length));
            if (left != ids.end() && right != ids.end())
                merges.push_back({left->second, right->second, static_cast<std::int32_t>(id)});
        }
        std::sort(merges.begin() + begin, merges.end(), [](const BpeMerge& a, const BpeMerge& b) {
            return std::pair(a.left, a.right) < std::pair(b.left, b.right);
        });
    }
    return merges;
}

std::string reserved(int number) {
    return text("<|reserved_special_token_", number, "|>");
}

std::vector<std::string> llama3_specials() {
    std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>"};
    for (int i = 0; i < 4; ++i)
        names.push_back(reserved(i));
    names.insert(names.end(),
                 {"<|start_header_id|>", "<|end_header_id|>", reserved(4), "<|eot_id|>"});
    for (int i = 5; names.size() < 256; ++i)
        names.push_back(reserved(i));
    return names;
}

}  // namespace

bool named_vocabulary(const std::filesystem::path& path) {
    const std::filesystem::path name = path.filename();
    return name == "vocab.json" || name == "merges.txt" || name == "encoder.json" ||
           name == "vocab.bpe";
}

std::string convert_vocabulary(const std::filesystem::path& path, std::int64_t max_bytes) {
    const std::filesystem::path name = path.filename();
    const bool original = name == "encoder.json" || name == "vocab.bpe";
    const auto read = [&path](const char* other, std::int64_t limit) {
        const std::filesystem::path file = path.parent_path() / other;
        return NamedText{read_file(file, limit), file.string()};
    };
    VocabularyFiles files;
    files.vocabulary = read(original ? "encoder.json" : "vocab.json", max_bytes);
    files.merges = read(original ? "vocab.bpe" : "merges.txt", max_bytes);
    files.config = file_in(path.parent_path(), "tokenizer_config.json");
    files.added = file_in(path.parent_path(), "added_tokens.json");
    files.special = file_in(path.parent_path(), "special_tokens_map.json");
    return convert_vocabulary(files);
}

std::string convert_vocabulary(const VocabularyFiles& files) {
    Json vocabulary = parse_json(files.vocabulary.bytes, files.vocabulary.source);
    Json merges = merges_of(files.merges.bytes, files.merges.source);
    const std::string& config_source = files.config.source;
    const Json config = object_in(files.config);
    const bool qwen2 = is_qwen2(config, config_source);
    TokenizerDescription form;  // for all that is not in the files
    form.splitters = {qwen2 ? Splitter::qwen2 : Splitter::gpt2};
    form.nfc = qwen2;
    Json file = parse_json(to_tokenizer_json(form), "form");
    Json added = added_tokens_of(config, config_source);
    if (added.empty()) {
        added = default_added_tokens(vocabulary);
        for (Json& token : added_tokens_of(files.added, files.special))
            if (added.empty() || token.at("content") != added.front().at("content"))
                added.push_back(std::move(token));
    }
    file["added_tokens"] = std::move(added);
    file["model"]["vocab"] = std::move(vocabulary);
    file["model"]["merges"] = std::move(merges);
    return to_line(file) + "\n";
}

bool is_tiktoken(std::string_view bytes) {
    return ranked_token(take_line(bytes)).has_value();
}

std::string convert_tiktoken(std::string_view bytes, const std::string& source) {
    const auto ranks =
        std::count(bytes.begin(), bytes.end(), '\n') + (bytes.ends_with('\n') ? 0 : 1);
    if (ranks == 50'256)
        return convert_tiktoken(bytes, source, {Splitter::gpt2, false, {"<|endoftext|>"}});
    if (ranks == 128'000)
        return convert_tiktoken(bytes, source, {Splitter::llama3, false, llama3_specials()});
    if (ranks == 151'643)
        return convert_tiktoken(
            bytes, source,
            {Splitter::qwen2, true, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}});
    fail(ExitCode::bad_input, source, ": a tiktoken file of ", ranks,
         " ranks does not say how to split text; gptrain knows those of GPT-2 (50,256), Llama 3 "
         "(128,000) and Qwen (151,643); give a tokenizer.json");
}

std::string convert_tiktoken(std::string_view bytes, const std::string& source,
                             const TiktokenFamily& family) {
    TokenizerDescription description;
    description.tokens = read_ranks(bytes, source);
    description.merges = merges_by_rank(description.tokens, source);
    // tiktoken does not merge a word that is a token.
    description.ignore_merges = true;
    description.nfc = family.nfc;
    description.splitters = {family.splitter};
    for (const std::string& name : family.specials) {
        const auto id = static_cast<std::int32_t>(description.tokens.size());
        description.tokens.push_back({name, false});
        description.added.push_back({name, id, true, false});
    }
    return to_tokenizer_json(description);
}

}  // namespace gptrain
