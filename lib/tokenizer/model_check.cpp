#include "tokenizer/model_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/charsmap_check.h"
#include "tokenizer/protobuf_wire.h"

namespace gptrain {
namespace {

constexpr std::size_t max_pieces = std::size_t{1} << 20;
constexpr std::size_t max_text_bytes = 4096;
constexpr std::size_t max_prefixes = 64;  // the library's buffer for matches of user-defined pieces

void require(const WireField& field, WireType type, std::string_view name,
             std::string_view source) {
    if (field.type != type) {
        fail(ExitCode::bad_input, source, ": field '", name, "' has the wrong type");
    }
}

bool flag(const WireField& field, std::string_view name, std::string_view source) {
    require(field, WireType::varint, name, source);
    return field.value != 0;
}

ModelPiece read_piece(std::string_view message, std::size_t id, std::string_view source) {
    ModelPiece piece;
    WireField field;
    const std::string where = text(source, ": piece ", id);
    for (WireReader reader(message, where); reader.next(field);) {
        if (field.number == 1) {
            require(field, WireType::bytes, "piece", where);
            piece.text = field.bytes;
        } else if (field.number == 2) {
            require(field, WireType::fixed32, "score", where);
            piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
            if (!std::isfinite(piece.score))
                fail(ExitCode::bad_input, where, ": score is not finite");
        } else if (field.number == 3) {
            require(field, WireType::varint, "type", where);
            if (field.value < 1 || field.value > 6) {
                fail(ExitCode::bad_input, where, ": unknown type ", field.value);
            }
            piece.type = static_cast<PieceType>(field.value);
        }
    }
    if (piece.text.empty()) fail(ExitCode::bad_input, where, " is empty");
    if (piece.text.size() > max_text_bytes) {
        fail(ExitCode::bad_input, where, " has ", piece.text.size(), " bytes, more than ",
             max_text_bytes);
    }
    if (piece.text.find('\0') != std::string_view::npos) {
        fail(ExitCode::bad_input, where, " contains a NUL");
    }
    if (find_invalid_utf8(piece.text) != std::string_view::npos) {
        fail(ExitCode::bad_input, where, " is not UTF-8");
    }
    return piece;
}

void check_trainer_spec(std::string_view message, const std::string& source, CheckedModel& facts) {
    WireField field;
    for (WireReader reader(message, source); reader.next(field);) {
        if (field.number == 3) {
            require(field, WireType::varint, "model_type", source);
            if (field.value < 1 || field.value > 4) {
                fail(ExitCode::bad_input, source, ": unknown model type ", field.value);
            }
            facts.model = static_cast<PieceModel>(field.value);
        } else if (field.number == 35) {
            facts.byte_fallback = flag(field, "byte_fallback", source);
        } else if (field.number >= 40 && field.number <= 43) {
            require(field, WireType::varint, "unk_id, bos_id, eos_id or pad_id", source);
            const auto id = static_cast<std::int64_t>(field.value);
            if (id < -1 || id >= static_cast<std::int64_t>(facts.pieces.size())) {
                fail(ExitCode::bad_input, source, ": id ", id, " is outside the vocabulary of ",
                     facts.pieces.size(), " pieces");
            }
            if (field.number == 41) facts.bos_id = id;
            if (field.number == 42) facts.eos_id = id;
        } else if (field.number >= 44 && field.number <= 48) {
            require(field, WireType::bytes, "the name of a special piece", source);
            if (field.bytes.size() > max_text_bytes ||
                find_invalid_utf8(field.bytes) != std::string_view::npos) {
                fail(ExitCode::bad_input, source, ": the name of a special piece is too long or ",
                     "not UTF-8");
            }
            if (field.number == 44) facts.unknown_surface = field.bytes;
        }
    }
}

void check_normalizer_spec(std::string_view message, const std::string& source,
                           CheckedModel& facts) {
    WireField field;
    std::string_view table;
    for (WireReader reader(message, source); reader.next(field);) {
        if (field.number == 2) {
            require(field, WireType::bytes, "precompiled_charsmap", source);
            table = field.bytes;
        } else if (field.number == 3) {
            facts.add_dummy_prefix = flag(field, "add_dummy_prefix", source);
        } else if (field.number == 4) {
            facts.remove_extra_whitespaces = flag(field, "remove_extra_whitespaces", source);
        } else if (field.number == 5) {
            facts.escape_whitespaces = flag(field, "escape_whitespaces", source);
        }
    }
    facts.has_charsmap = !table.empty();
    check_charsmap(table, source);
}

void refuse_denormalizer(std::string_view message, const std::string& source) {
    WireField field;
    for (WireReader reader(message, source); reader.next(field);) {
        if (field.number == 2 && !field.bytes.empty()) {
            fail(ExitCode::bad_input, source, ": models with a denormaliser are not supported");
        }
    }
}

void check_duplicates(const std::vector<ModelPiece>& pieces, std::string_view source) {
    std::unordered_set<std::string_view> seen;
    seen.reserve(pieces.size());
    for (std::size_t id = 0; id < pieces.size(); ++id) {
        if (!seen.insert(pieces[id].text).second) {
            fail(ExitCode::bad_input, source, ": piece ", id, " occurs twice");
        }
    }
}

void check_prefixes(const std::vector<ModelPiece>& pieces, std::string_view source) {
    std::vector<std::string_view> symbols;
    for (const ModelPiece& piece : pieces)
        if (piece.type == PieceType::user_defined) symbols.push_back(piece.text);
    std::sort(symbols.begin(), symbols.end());
    std::vector<std::string_view> prefixes;
    for (const std::string_view symbol : symbols) {
        while (!prefixes.empty() && !symbol.starts_with(prefixes.back()))
            prefixes.pop_back();
        prefixes.push_back(symbol);
        if (prefixes.size() > max_prefixes) {
            fail(ExitCode::bad_input, source, ": more than ", max_prefixes,
                 " user-defined pieces are prefixes of one another");
        }
    }
}

/// Every model contains control characters: the tag of its unknown piece's type is one.
bool is_plain_text(std::string_view bytes) {
    const auto is_control = [](unsigned char c) {
        return c < 32 && c != '\t' && c != '\n' && c != '\r' && c != '\f';
    };
    return !bytes.empty() && std::none_of(bytes.begin(), bytes.end(), is_control);
}

struct Specs {
    std::string_view trainer;
    std::string_view normalizer;
    std::string_view denormalizer;
};

/// Returns the specs and adds the pieces to `facts`.
Specs read_fields(std::string_view model, std::string_view source, CheckedModel& facts) {
    Specs specs;
    std::string_view* const spec_of[] = {nullptr,           nullptr, &specs.trainer,
                                         &specs.normalizer, nullptr, &specs.denormalizer};
    WireField field;
    for (WireReader reader(model, source); reader.next(field);) {
        if (field.number == 1) {
            require(field, WireType::bytes, "pieces", source);
            if (facts.pieces.size() == max_pieces) {
                fail(ExitCode::bad_input, source, ": more than ", max_pieces, " pieces");
            }
            facts.pieces.push_back(read_piece(field.bytes, facts.pieces.size(), source));
        } else if (field.number < std::size(spec_of) && spec_of[field.number] != nullptr) {
            require(field, WireType::bytes, "spec", source);
            // The library would merge repeated messages, which no writer needs.
            if (spec_of[field.number]->data() != nullptr) {
                fail(ExitCode::bad_input, source, ": field ", field.number, " occurs twice");
            }
            *spec_of[field.number] = field.bytes;
        }
        if (field.number <= 3) facts.checked += field.encoded;
    }
    return specs;
}

/// The same. A file without even one piece before the first fault is no model at all.
Specs read_model(std::string_view model, std::string_view source, CheckedModel& facts) {
    try {
        return read_fields(model, source, facts);
    } catch (const Error& error) {
        if (!facts.pieces.empty()) throw;
        std::string_view fault = error.what();
        const std::string prefix = text(source, ": ");
        if (fault.starts_with(prefix)) fault.remove_prefix(prefix.size());
        fail(error.code(), source, ": is neither a tokenizer.json nor a sentencepiece model (",
             fault, ")");
    }
}

}  // namespace

std::string unescape_spaces(std::string_view text) {
    std::string result;
    while (true) {
        const std::size_t at = text.find(space_mark);
        result += text.substr(0, at);
        if (at == std::string_view::npos) return result;
        result += ' ';
        text.remove_prefix(at + space_mark.size());
    }
}

CheckedModel check_model(std::string_view model, std::string_view source) {
    if (is_plain_text(model)) {
        fail(
            ExitCode::bad_input, source,
            ": is a text file, not a tokenizer; give a tokenizer.json or a sentencepiece model, as "
            "gpt-preprocess train-tokenizer makes");
    }
    CheckedModel facts;
    const Specs specs = read_model(model, source, facts);
    if (facts.pieces.empty()) {
        fail(ExitCode::bad_input, source, ": not a sentencepiece model: it has no pieces");
    }
    check_trainer_spec(specs.trainer, text(source, ": trainer spec"), facts);
    check_normalizer_spec(specs.normalizer, text(source, ": normaliser spec"), facts);
    refuse_denormalizer(specs.denormalizer, text(source, ": denormaliser spec"));
    check_duplicates(facts.pieces, source);
    check_prefixes(facts.pieces, source);
    return facts;
}

}  // namespace gptrain
