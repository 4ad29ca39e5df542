#include "tokenizer/tokenizer_pipeline.h"

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/split_patterns.h"

namespace gptrain {
namespace {

using Prefix = SpaceMarks::Prefix;

/// The parts of a step in order: of a Sequence those in its list `key`, else the step alone.
std::vector<const Json*> parts_of(const Json& step, const std::string& place, const char* key) {
    if (JsonReader(step, place).string("type") != "Sequence") return {&step};
    std::vector<const Json*> parts;
    for (const Json& part : JsonReader(step, place).array(key))
        parts.push_back(&part);
    return parts;
}

class PipelineReader {
public:
    PipelineReader(const Json& file, const std::string& source, TokenizerDescription& result)
        : file_(file), source_(source), result_(result) {}

    void read() {
        if (!is_absent(file_, "normalizer")) {
            for (const Json* part : parts_of("normalizer", "normalizers"))
                read_normalizer(*part);
        }
        if (!is_absent(file_, "pre_tokenizer")) {
            for (const Json* part : parts_of("pre_tokenizer", "pretokenizers"))
                read_pre_tokenizer(*part);
        }
        if (of_pieces()) return read_bert_steps();
        if (byte_level_) return check_byte_level();
        result_.symbols = TokenizerDescription::Symbols::characters;
        if (!result_.splitters.empty()) refuse("pre_tokenizer", "without ByteLevel at its end");
        if (result_.nfc) refuse("normalizer", "NFC without the pre-tokenizer ByteLevel");
        if (splits_marks_) result_.splitters = {Splitter::each_mark};
        if (is_absent(file_, "decoder")) refuse("decoder", "none");
        for (const Json* part : parts_of("decoder", "decoders"))
            read_decoder(*part);
    }

private:
    std::string where(std::string_view part) const { return text(source_, ": ", part); }

    [[noreturn]] void refuse(std::string_view part, std::string_view kind) const {
        refuse_kind(source_, part, kind);
    }

    std::vector<const Json*> parts_of(const char* step, const char* key) const {
        return gptrain::parts_of(file_.at(step), where(step), key);
    }

    /// That a text to look for, in {"String": ...} or {"Regex": ...}, is `wanted`.
    bool is_pattern(const JsonReader& part, std::string_view place, std::string_view wanted) const {
        const JsonReader pattern(part.object("pattern"), where(text(place, ".pattern")));
        for (const char* kind : {"String", "Regex"})
            if (pattern.has(kind)) return pattern.string(kind) == wanted;
        return false;
    }

    void read_normalizer(const Json& part) {
        const JsonReader reader(part, where("normalizer"));
        const std::string& type = reader.string("type");
        if (type == "BertNormalizer" && of_pieces() && !result_.bert) {
            read_bert_normalizer(part, reader);
        } else if (type == "NFC" && !of_pieces()) {
            result_.nfc = true;
        } else if (type == "Replace" && is_pattern(reader, "normalizer", " ") &&
                   reader.string("content") == space_mark) {
            result_.normalizer.replaces = true;
        } else if (type == "Prepend" && reader.string("prepend") == space_mark &&
                   result_.normalizer.prefix == Prefix::none) {
            result_.normalizer.prefix = Prefix::always;
        } else {
            refuse("normalizer", type == "Replace" || type == "Prepend"
                                     ? text(type, " of other texts")
                                     : shown(type));
        }
    }

    void read_pre_tokenizer(const Json& part) {
        const JsonReader reader(part, where("pre_tokenizer"));
        const std::string& type = reader.string("type");
        if (of_pieces()) {
            if (type != "BertPreTokenizer" || !result_.splitters.empty())
                refuse("pre_tokenizer", text(shown(type), " with WordPiece"));
            result_.splitters = {Splitter::bert};
            return;
        }
        if (byte_level_) refuse("pre_tokenizer", text(shown(type), " after ByteLevel"));
        if (result_.pre_tokenizer.changes() || splits_marks_)
            refuse("pre_tokenizer", text(shown(type), " after Metaspace"));
        if (type == "ByteLevel") {
            read_byte_level(reader);
        } else if (type == "Digits") {
            result_.splitters.push_back(reader.boolean("individual_digits")
                                            ? Splitter::single_digits
                                            : Splitter::digit_runs);
        } else if (type == "Split") {
            read_split(reader);
        } else if (type == "Metaspace") {
            read_metaspace(reader);
        } else {
            refuse("pre_tokenizer", shown(type));
        }
    }

    void read_byte_level(const JsonReader& reader) {
        if (reader.boolean("add_prefix_space"))
            refuse("pre_tokenizer", "ByteLevel with add_prefix_space");
        if (!reader.has("use_regex") || reader.boolean("use_regex"))
            result_.splitters.push_back(Splitter::gpt2);
        byte_level_ = true;
    }

    void read_split(const JsonReader& split) {
        const std::string& behavior = split.string("behavior");
        const bool invert = split.boolean("invert");
        // Gemma splits after spaces, of which its normalizer leaves none.
        if (result_.normalizer.replaces && is_pattern(split, "pre_tokenizer", " ")) return;
        const JsonReader pattern(split.object("pattern"), where("pre_tokenizer.pattern"));
        if (!pattern.has("Regex")) refuse("pre_tokenizer", "Split without a Regex");
        const std::string& regex = pattern.string("Regex");
        const auto known = split_pattern(regex);
        if (!known) refuse("pre_tokenizer", text("Split with the pattern ", shown(regex)));
        // Of a pattern that matches all of a text, what it matches and what it removes is the same.
        if (behavior != (invert ? "Removed" : "Isolated") || (invert && !known->covers))
            refuse("pre_tokenizer", text("Split with the behavior ", shown(behavior)));
        result_.splitters.push_back(known->splitter);
    }

    void read_metaspace(const JsonReader& metaspace) {
        if (!result_.splitters.empty())
            refuse("pre_tokenizer", "Metaspace after another pre-tokenizer");
        if (metaspace.string("replacement") != space_mark)
            refuse("pre_tokenizer", "Metaspace with another replacement than U+2581");
        result_.pre_tokenizer = {true, prefix_of(metaspace, "pre_tokenizer")};
        splits_marks_ = !metaspace.has("split") || metaspace.boolean("split");
    }

    /// Older files have add_prefix_space in the place of prepend_scheme.
    Prefix prefix_of(const JsonReader& metaspace, std::string_view place) const {
        const bool old =
            metaspace.has("add_prefix_space") && !metaspace.boolean("add_prefix_space");
        if (!metaspace.has("prepend_scheme")) return old ? Prefix::none : Prefix::unless_marked;
        const std::string& scheme = metaspace.string("prepend_scheme");
        if (scheme == "never") return Prefix::none;
        if (scheme == "first") return Prefix::first_unless_marked;
        if (scheme != "always")
            refuse(place, text("Metaspace with the prepend_scheme ", shown(scheme)));
        return Prefix::unless_marked;
    }

    bool of_pieces() const { return result_.symbols == TokenizerDescription::Symbols::pieces; }

    void read_bert_normalizer(const Json& part, const JsonReader& reader) {
        BertRules rules;
        rules.clean_text = reader.boolean("clean_text");
        rules.handle_chinese_chars = reader.boolean("handle_chinese_chars");
        rules.lowercase = reader.boolean("lowercase");
        rules.strip_accents =
            is_absent(part, "strip_accents") ? rules.lowercase : reader.boolean("strip_accents");
        result_.bert = rules;
    }

    void read_bert_steps() {
        if (result_.normalizer.changes()) refuse("normalizer", "Replace or Prepend with WordPiece");
        if (result_.splitters.empty()) refuse("pre_tokenizer", "none with WordPiece");
        if (is_absent(file_, "decoder")) refuse("decoder", "none");
        const JsonReader decoder(file_.at("decoder"), where("decoder"));
        const JsonReader model(file_.at("model"), where("model"));
        if (decoder.string("type") != "WordPiece")
            refuse("decoder", text(shown(decoder.string("type")), " with WordPiece"));
        if (decoder.string("prefix") != model.string("continuing_subword_prefix"))
            refuse("decoder", "WordPiece with another prefix than the model's");
        result_.cleans_up = decoder.boolean("cleanup");
    }

    void check_byte_level() const {
        if (result_.normalizer.changes())
            refuse("normalizer", "Replace or Prepend with the pre-tokenizer ByteLevel");
        if (result_.pre_tokenizer.changes()) refuse("pre_tokenizer", "Metaspace with ByteLevel");
    }

    void read_decoder(const Json& part) {
        const JsonReader reader(part, where("decoder"));
        const std::string& type = reader.string("type");
        if (result_.strips_first_blank || result_.drops_first_marks)
            refuse("decoder", text(shown(type), " after Strip or Metaspace"));
        if (type == "Replace" && !result_.decodes_bytes && !fused_ &&
            is_pattern(reader, "decoder", space_mark) && reader.string("content") == " ") {
            result_.decodes_marks = true;
        } else if (type == "ByteFallback" && !fused_) {
            result_.decodes_bytes = true;
        } else if (type == "Fuse") {
            fused_ = true;
        } else if (type == "Strip" && fused_ && reader.string("content") == " " &&
                   reader.integer("start") == 1 && reader.integer("stop") == 0) {
            result_.strips_first_blank = true;
        } else if (type == "Metaspace" && !fused_ && !result_.decodes_bytes &&
                   reader.string("replacement") == space_mark) {
            result_.decodes_marks = true;
            result_.drops_first_marks = prefix_of(reader, "decoder") != Prefix::none;
        } else {
            refuse("decoder", shown(type));
        }
    }

    const Json& file_;
    const std::string& source_;
    TokenizerDescription& result_;
    bool byte_level_ = false;
    bool splits_marks_ = false;  ///< Metaspace splits
    bool fused_ = false;
};

}  // namespace

std::string shown(std::string_view word) {
    constexpr std::size_t limit = 120;
    if (word.size() <= limit) return to_line(Json(word));
    return text(to_line(Json(word.substr(0, character_start(word, limit)))), "...");
}

bool is_absent(const Json& object, const char* key) {
    return !object.contains(key) || object.at(key).is_null();
}

void refuse_kind(const std::string& source, std::string_view part, std::string_view kind) {
    fail(ExitCode::bad_input, source, ": ", part, ": ", kind,
         ": not supported; gptrain reads BPE: byte-level (the pre-tokenizers ByteLevel, Digits and "
         "Split with known patterns, the normalizer NFC) or of characters with U+2581 for spaces "
         "(Replace, Prepend, Metaspace); WordPiece as BERT has it; and sentencepiece models");
}

void read_pipeline(const Json& file, const std::string& source, TokenizerDescription& description) {
    PipelineReader(file, source, description).read();
}

}  // namespace gptrain
