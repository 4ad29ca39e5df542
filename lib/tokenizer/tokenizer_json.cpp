#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer_pipeline.h"

namespace gptrain {
namespace {

constexpr std::size_t max_added_token_bytes = 512;
constexpr std::int64_t most_word_characters = 256;  // searching for pieces takes their square
constexpr std::int64_t most_unused = 64;            // one id of so many may stand for nothing

/// The special token that a post-processor puts before a text; empty if there is none.
std::string prefix_in(const Json& processor) {
    if (!processor.is_object()) return {};
    const Json parts = processor.value("processors", Json::array());
    for (const Json& part : parts)
        if (std::string prefix = prefix_in(part); !prefix.empty()) return prefix;
    const Json single = processor.value("single", Json::array());
    if (!single.is_array() || single.empty() || !single.front().is_object()) return {};
    const Json special = single.front().value("SpecialToken", Json());
    const bool is_named =
        special.is_object() && special.contains("id") && special.at("id").is_string();
    return is_named ? special.at("id").get<std::string>() : std::string();
}

class DescriptionReader {
public:
    DescriptionReader(const Json& file, const std::string& source) : file_(file), source_(source) {}

    TokenizerDescription read() {
        const JsonReader top(file_, source_);
        const Json& model = top.object("model");
        const JsonReader reader(model, where("model"));
        if (reader.has("type") && reader.string("type") == "WordPiece") {
            result_.symbols = TokenizerDescription::Symbols::pieces;
        } else {
            check_bpe(model);
        }
        read_pipeline(file_, source_, result_);
        result_.ignore_merges = flag(model, "ignore_merges");
        read_vocabulary(reader.object("vocab"));
        if (!of_pieces()) read_merges(reader.array("merges"));
        if (!is_absent(file_, "added_tokens")) read_added(top.array("added_tokens"));
        check_ids();
        if (of_bytes()) {
            find_bytes(model);
        } else {
            find_fallback(model);
            find_unknown(model);
        }
        if (of_pieces()) read_word_pieces(model);
        find_prefix();
        return std::move(result_);
    }

private:
    std::string where(std::string_view part) const { return text(source_, ": ", part); }

    [[noreturn]] void fail_kind(std::string_view part, std::string_view kind) const {
        refuse_kind(source_, part, kind);
    }

    bool of_bytes() const { return result_.symbols == TokenizerDescription::Symbols::bytes; }

    bool of_pieces() const { return result_.symbols == TokenizerDescription::Symbols::pieces; }

    void check_bpe(const Json& model) const {
        const JsonReader reader(model, where("model"));
        if (reader.has("type") && reader.string("type") != "BPE")
            fail_kind("model.type", shown(reader.string("type")));
        for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
            if (!is_absent(model, affix) && !reader.string(affix).empty())
                fail_kind(text("model.", affix), shown(reader.string(affix)));
        }
        if (!is_absent(model, "dropout") && reader.number("dropout") != 0)
            fail_kind("model.dropout", "other than 0");
    }

    bool flag(const Json& model, const char* key) const {
        return !is_absent(model, key) && JsonReader(model, where("model")).boolean(key);
    }

    void read_vocabulary(const Json& vocabulary) {
        for (const auto& [token, id] : vocabulary.items()) {
            if (!id.is_number_unsigned() || id.get<std::uint64_t>() > INT32_MAX)
                fail(ExitCode::bad_input, where("model.vocab"), ": the id of ", shown(token),
                     " must be a number of at least 0");
            ids_.emplace(token, static_cast<std::int32_t>(id.get<std::uint64_t>()));
        }
    }

    std::int32_t id_of(const std::string& token, std::size_t merge) const {
        const auto found = ids_.find(token);
        if (found == ids_.end())
            fail(ExitCode::bad_input, where("model.merges"), ": ", shown(token), " of merge ",
                 merge, " is not in the vocabulary");
        return found->second;
    }

    /// A merge is ["a", "b"], or "a b" in older files.
    std::pair<std::string, std::string> parts_of(const Json& merge, std::size_t index) const {
        if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
            return {merge[0], merge[1]};
        if (merge.is_string()) {
            const auto& both = merge.get_ref<const std::string&>();
            const std::size_t blank = both.find(' ');
            if (blank != std::string::npos && both.find(' ', blank + 1) == std::string::npos)
                return {both.substr(0, blank), both.substr(blank + 1)};
        }
        fail(ExitCode::bad_input, where("model.merges"), ": merge ", index,
             " must be two tokens: [\"a\", \"b\"] or \"a b\"");
    }

    void read_merges(const Json& merges) {
        for (std::size_t i = 0; i < merges.size(); ++i) {
            const auto [left, right] = parts_of(merges[i], i);
            result_.merges.push_back({id_of(left, i), id_of(right, i), id_of(left + right, i)});
        }
    }

    void read_added(const Json& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            const std::string place = where(text("added_tokens[", i, "]"));
            const JsonReader reader(tokens[i], place);
            const std::string& content = reader.string("content");
            if (content.empty() || content.size() > max_added_token_bytes)
                fail(ExitCode::bad_input, place, ": 'content' must have 1 to ",
                     max_added_token_bytes, " bytes");
            const auto is_set = [&](const char* key) {
                return reader.has(key) && reader.boolean(key);
            };
            const std::int64_t id = reader.integer("id");
            const auto refuse_id = [&](const auto&... why) {
                fail(ExitCode::bad_input, place, ": ", shown(content), " has the id ", id, why...);
            };
            if (id < 0) refuse_id(", which is below 0");
            if (id > INT32_MAX) refuse_id(", which is above ", INT32_MAX);
            const auto [known, is_new] = ids_.emplace(content, static_cast<std::int32_t>(id));
            if (known->second != id) refuse_id(", but is ", known->second, " elsewhere");
            if (is_new) new_.insert(known->second);
            result_.added.push_back({content, known->second, reader.boolean("special"),
                                     is_set("normalized"), is_set("single_word"), is_set("lstrip"),
                                     is_set("rstrip")});
        }
    }

    /// Fills the tokens. The ids must be 0 to n - 1, each once; some of OpenAI's stand for nothing.
    void check_ids() {
        std::int64_t end = 0;
        for (const auto& [token, id] : ids_)
            end = std::max(end, std::int64_t{id} + 1);
        const std::int64_t unused = end - std::ssize(ids_);
        const bool has_gap = unused > 0 && (!new_.empty() || unused > end / most_unused);
        result_.tokens.resize(has_gap ? ids_.size() : static_cast<std::size_t>(end), {"", false});
        std::vector<bool> taken(result_.tokens.size());
        for (const auto& [token, id] : ids_) {
            const auto at = static_cast<std::size_t>(id);
            if (at >= taken.size() || taken[at])
                fail(ExitCode::bad_input, where("model.vocab"), ": the id ", id, " of ",
                     shown(token),
                     at >= taken.size() ? text(" leaves a gap: the ", ids_.size(),
                                               " tokens need the ids from 0 to ", ids_.size() - 1)
                                        : std::string(" is given twice"));
            taken[at] = true;
            const bool in_model = !new_.contains(id);
            auto bytes = of_bytes() && in_model ? bytes_of_spelling(token) : std::nullopt;
            result_.tokens[at] = {bytes ? *bytes : token,
                                  of_bytes() ? bytes.has_value() : in_model};
        }
    }

    void find_bytes(const Json& model) {
        for (int byte = 0; byte < 256; ++byte) {
            const auto found =
                ids_.find(spelling_of_bytes(std::string(1, static_cast<char>(byte))));
            result_.byte_ids[static_cast<std::size_t>(byte)] =
                found == ids_.end() ? -1 : found->second;
            if (found == ids_.end() && is_in_utf8(static_cast<std::size_t>(byte)))
                require_no_unknown(model, byte);
        }
    }

    /// The token for characters without one.
    void find_fallback(const Json& model) {
        constexpr std::string_view digits = "0123456789ABCDEF";
        result_.byte_ids.fill(-1);
        for (std::size_t byte = 0; byte < 256 && flag(model, "byte_fallback"); ++byte) {
            const std::string name = {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
            if (const auto found = ids_.find(name); found != ids_.end())
                result_.byte_ids[byte] = found->second;
        }
        result_.fuses_unknown = flag(model, "fuse_unk");
    }

    void find_unknown(const Json& model) {
        if (is_absent(model, "unk_token")) return;
        const std::string& unknown = JsonReader(model, where("model")).string("unk_token");
        const auto found = ids_.find(unknown);
        if (found == ids_.end())
            fail(ExitCode::bad_input, where("model.unk_token"), ": ", shown(unknown),
                 " is not in the vocabulary");
        result_.unknown = found->second;
    }

    void read_word_pieces(const Json& model) {
        const JsonReader reader(model, where("model"));
        if (result_.unknown < 0)
            fail(ExitCode::bad_input, where("model"), ": WordPiece needs an unk_token");
        result_.continuing_prefix = reader.string("continuing_subword_prefix");
        const std::int64_t most = reader.integer("max_input_chars_per_word");
        if (most < 1 || most > most_word_characters)
            fail(ExitCode::bad_input, where("model.max_input_chars_per_word"), ": must be 1 to ",
                 most_word_characters);
        result_.most_characters = static_cast<std::size_t>(most);
    }

    void find_prefix() {
        const auto found = ids_.find(prefix_token(file_));
        if (found != ids_.end()) result_.prefix = found->second;
    }

    /// Bytes without a token are left out, unless there is a token for what is unknown.
    void require_no_unknown(const Json& model, int byte) const {
        if (flag(model, "byte_fallback"))
            fail_kind("model.byte_fallback", text("true with a vocabulary that lacks byte ", byte));
        if (is_absent(model, "unk_token")) return;
        fail_kind("model.unk_token",
                  text(shown(JsonReader(model, where("model")).string("unk_token")),
                       " with a vocabulary that lacks byte ", byte));
    }

    const Json& file_;
    const std::string& source_;
    std::unordered_map<std::string, std::int32_t> ids_;
    std::unordered_set<std::int32_t> new_;  ///< added tokens that the model's vocabulary lacks
    TokenizerDescription result_;
};

}  // namespace

std::string prefix_token(const Json& tokenizer_json) {
    if (!tokenizer_json.is_object()) return {};
    return prefix_in(tokenizer_json.value("post_processor", Json()));
}

bool is_tokenizer_json(std::string_view bytes) {
    const std::size_t first = bytes.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && bytes[first] == '{';
}

TokenizerDescription parse_tokenizer_json(std::string_view json, const std::string& source) {
    if (const auto at = find_invalid_utf8(json); at != std::string_view::npos)
        fail(ExitCode::bad_input, source, ": is not UTF-8 at byte ", at);
    const Json file = parse_json(json, source);
    return DescriptionReader(file, source).read();
}

}  // namespace gptrain
