#include "tokenizer/tokenizer_json.h"

#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

namespace gptrain {
namespace {

constexpr std::size_t max_added_token_bytes = 512;

/// Text from a file, for a message: on one line and truncated.
std::string shown(std::string_view word) {
    constexpr std::size_t limit = 120;
    return text(to_line(Json(word.substr(0, limit))), word.size() > limit ? "..." : "");
}

bool is_absent(const Json& object, const char* key) {
    return !object.contains(key) || object.at(key).is_null();
}

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

/// The kind of a part of the file.
std::string type_of(const Json& part, const std::string& where) {
    return JsonReader(part, where).string("type");
}

class DescriptionReader {
public:
    DescriptionReader(const Json& file, const std::string& source) : file_(file), source_(source) {}

    BpeDescription read() {
        const JsonReader top(file_, source_);
        read_model(top.object("model"));
        if (!is_absent(file_, "added_tokens")) read_added(top.array("added_tokens"));
        check_ids();
        find_bytes();
        find_prefix();
        if (!is_absent(file_, "normalizer")) read_normalizer(file_.at("normalizer"), 0);
        if (is_absent(file_, "pre_tokenizer")) fail_kind("pre_tokenizer", "none");
        read_pre_tokenizer(file_.at("pre_tokenizer"), 0);
        if (!byte_level_) fail_kind("pre_tokenizer", "without ByteLevel at its end");
        return std::move(result_);
    }

private:
    std::string where(std::string_view part) const { return text(source_, ": ", part); }

    [[noreturn]] void fail_kind(std::string_view part, std::string_view kind) const {
        fail(ExitCode::bad_input, where(part), ": ", kind,
             ": not supported; gptrain reads byte-level BPE (the pre-tokenizers ByteLevel, Digits "
             "and Split with the patterns of GPT-2, Llama 3 and Qwen2, the normalizer NFC) and "
             "sentencepiece models");
    }

    void read_model(const Json& model) {
        const JsonReader reader(model, where("model"));
        if (reader.has("type") && reader.string("type") != "BPE")
            fail_kind("model.type", shown(reader.string("type")));
        for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
            if (!is_absent(model, affix) && !reader.string(affix).empty())
                fail_kind(text("model.", affix), shown(reader.string(affix)));
        }
        if (!is_absent(model, "byte_fallback") && reader.boolean("byte_fallback"))
            fail_kind("model.byte_fallback", "true");
        if (!is_absent(model, "dropout") && reader.number("dropout") != 0)
            fail_kind("model.dropout", "other than 0");
        result_.ignore_merges =
            !is_absent(model, "ignore_merges") && reader.boolean("ignore_merges");
        read_vocabulary(reader.object("vocab"));
        read_merges(reader.array("merges"));
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
            for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
                if (reader.has(flag) && reader.boolean(flag))
                    fail(ExitCode::bad_input, place, ": ", flag, ": true is not supported");
            }
            const std::int64_t id = reader.integer("id");
            const auto refuse_id = [&](const auto&... why) {
                fail(ExitCode::bad_input, place, ": ", shown(content), " has the id ", id, why...);
            };
            if (id < 0) refuse_id(", which is below 0");
            if (id > INT32_MAX) refuse_id(", which is above ", INT32_MAX);
            const auto [known, is_new] = ids_.emplace(content, static_cast<std::int32_t>(id));
            if (known->second != id) refuse_id(", but is ", known->second, " elsewhere");
            result_.added.push_back({content, known->second, reader.boolean("special"),
                                     reader.has("normalized") && reader.boolean("normalized")});
        }
    }

    /// Fills the tokens: the ids must be 0 to n - 1, each once.
    void check_ids() {
        result_.tokens.resize(ids_.size());
        std::vector<bool> taken(ids_.size());
        for (const auto& [token, id] : ids_) {
            const auto at = static_cast<std::size_t>(id);
            if (at >= ids_.size() || taken[at])
                fail(ExitCode::bad_input, where("model.vocab"), ": the id ", id, " of ",
                     shown(token),
                     at >= ids_.size() ? text(" leaves a gap: the ", ids_.size(),
                                              " tokens need the ids from 0 to ", ids_.size() - 1)
                                       : std::string(" is given twice"));
            taken[at] = true;
            auto bytes = bytes_of_spelling(token);
            result_.tokens[at] = {bytes ? *bytes : token, bytes.has_value()};
        }
    }

    void find_bytes() {
        for (int byte = 0; byte < 256; ++byte) {
            const std::string one(1, static_cast<char>(byte));
            const auto found = ids_.find(spelling_of_bytes(one));
            result_.byte_ids[static_cast<std::size_t>(byte)] =
                found == ids_.end() ? -1 : found->second;
            if (found == ids_.end() && byte_in_utf8(byte)) require_no_unknown(byte);
        }
    }

    void find_prefix() {
        const auto found = ids_.find(prefix_token(file_));
        if (found != ids_.end()) result_.prefix = found->second;
    }

    static bool byte_in_utf8(int byte) { return byte < 0xC0 || (byte >= 0xC2 && byte < 0xF5); }

    /// Bytes without a token are left out, unless there is a token for what is unknown.
    void require_no_unknown(int byte) const {
        const Json& model = file_.at("model");
        if (is_absent(model, "unk_token")) return;
        fail_kind("model.unk_token",
                  text(shown(JsonReader(model, where("model")).string("unk_token")),
                       " with a vocabulary that lacks byte ", byte));
    }

    void read_normalizer(const Json& normalizer, int depth) {
        const std::string type = type_of(normalizer, where("normalizer"));
        if (type == "Sequence" && depth == 0) {
            for (const Json& part :
                 JsonReader(normalizer, where("normalizer")).array("normalizers"))
                read_normalizer(part, depth + 1);
        } else if (type == "NFC") {
            result_.nfc = true;
        } else {
            fail_kind("normalizer", shown(type));
        }
    }

    void read_pre_tokenizer(const Json& part, int depth) {
        const std::string place = where("pre_tokenizer");
        const JsonReader reader(part, place);
        const std::string type = type_of(part, place);
        if (byte_level_) fail_kind("pre_tokenizer", text(shown(type), " after ByteLevel"));
        if (type == "Sequence" && depth == 0) {
            for (const Json& inner : reader.array("pretokenizers"))
                read_pre_tokenizer(inner, depth + 1);
        } else if (type == "ByteLevel") {
            if (reader.boolean("add_prefix_space"))
                fail_kind("pre_tokenizer", "ByteLevel with add_prefix_space");
            if (!reader.has("use_regex") || reader.boolean("use_regex"))
                result_.splitters.push_back(Splitter::gpt2);
            byte_level_ = true;
        } else if (type == "Digits") {
            result_.splitters.push_back(reader.boolean("individual_digits")
                                            ? Splitter::single_digits
                                            : Splitter::digit_runs);
        } else if (type == "Split") {
            read_split(reader);
        } else {
            fail_kind("pre_tokenizer", shown(type));
        }
    }

    void read_split(const JsonReader& split) {
        const JsonReader pattern(split.object("pattern"), where("pre_tokenizer.pattern"));
        if (!pattern.has("Regex")) fail_kind("pre_tokenizer", "Split without a Regex");
        const auto splitter = splitter_of(pattern.string("Regex"));
        if (!splitter)
            fail_kind("pre_tokenizer",
                      text("Split with the pattern ", shown(pattern.string("Regex"))));
        // The patterns match all of a text, so what they match and what they remove is the same.
        const std::string& behavior = split.string("behavior");
        if (behavior != (split.boolean("invert") ? "Removed" : "Isolated"))
            fail_kind("pre_tokenizer", text("Split with the behavior ", shown(behavior)));
        result_.splitters.push_back(*splitter);
    }

    const Json& file_;
    const std::string& source_;
    std::unordered_map<std::string, std::int32_t> ids_;
    bool byte_level_ = false;
    BpeDescription result_;
};

std::string spelling(const BpeToken& token) {
    return token.spells_bytes ? spelling_of_bytes(token.bytes) : token.bytes;
}

Json byte_level_json(bool use_regex) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", use_regex}};
}

Json pre_tokenizer_json(Splitter splitter) {
    if (splitter == Splitter::gpt2) return byte_level_json(true);
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", pattern_of(splitter)}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level_json(false)})}};
}

Json added_json(const AddedToken& token) {
    return {{"id", token.id},          {"content", token.content}, {"single_word", false},
            {"lstrip", false},         {"rstrip", false},          {"normalized", token.normalized},
            {"special", token.special}};
}

Json model_json(const BpeDescription& description) {
    // In place: nlohmann would search for every key.
    Json vocabulary = Json::object();
    auto& members = vocabulary.get_ref<Json::object_t&>();
    std::vector<std::string> spellings;
    for (std::size_t id = 0; id < description.tokens.size(); ++id) {
        spellings.push_back(spelling(description.tokens[id]));
        members.Json::object_t::Container::emplace_back(spellings.back(), id);
    }
    Json merges = Json::array();
    for (const BpeMerge& merge : description.merges) {
        merges.push_back({spellings[static_cast<std::size_t>(merge.left)],
                          spellings[static_cast<std::size_t>(merge.right)]});
    }
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", description.ignore_merges},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}};
}

}  // namespace

std::string prefix_token(const Json& tokenizer_json) {
    if (!tokenizer_json.is_object()) return {};
    return prefix_in(tokenizer_json.value("post_processor", Json()));
}

bool is_tokenizer_json(std::string_view bytes) {
    const std::size_t first = bytes.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && bytes[first] == '{';
}

BpeDescription parse_tokenizer_json(std::string_view json, const std::string& source) {
    if (const auto at = find_invalid_utf8(json); at != std::string_view::npos)
        fail(ExitCode::bad_input, source, ": is not UTF-8 at byte ", at);
    const Json file = parse_json(json, source);
    return DescriptionReader(file, source).read();
}

std::string to_tokenizer_json(const BpeDescription& description) {
    GPTRAIN_CHECK(description.splitters.size() == 1);
    Json added = Json::array();
    for (const AddedToken& token : description.added)
        added.push_back(added_json(token));
    const Json file = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", std::move(added)},
        {"normalizer", description.nfc ? Json{{"type", "NFC"}} : Json()},
        {"pre_tokenizer", pre_tokenizer_json(description.splitters.front())},
        {"post_processor", nullptr},
        {"decoder", byte_level_json(true)},
        {"model", model_json(description)},
    };
    return to_line(file) + "\n";
}

}  // namespace gptrain
