#include "tokenizer/train_tokenizer.h"

#include <deque>
#include <sentencepiece_trainer.h>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/model_check.h"
#include "tokenizer/protobuf_wire.h"
#include "tokenizer/train_byte_bpe.h"

namespace gptrain {
namespace {

constexpr std::size_t max_sentence_bytes = 4096;
constexpr std::string_view unknown_mark = "\xE2\x96\x85";  // U+2585
constexpr std::string_view nul("\0", 1);
// The trainer terminates the process if it ends up without pieces, as happens with some texts of a
// few dozen characters.
constexpr std::size_t min_corpus_bytes = 1024;
constexpr int smallest_vocabulary = 3 + 256 + 1;

/// Splits documents into what the trainer calls sentences: lines with their line feed, of at most 4
/// KiB, without the three characters that have a special meaning to the trainer.
class Sentences : public sentencepiece::SentenceIterator {
public:
    explicit Sentences(const std::function<bool(std::string&)>& next_document)
        : next_document_(next_document) {
        std::string sentence;
        for (std::size_t bytes = 0; bytes < min_corpus_bytes; bytes += sentence.size()) {
            if (!fetch(sentence)) fail_too_small(bytes);
            ahead_.push_back(sentence);
        }
        Next();
    }

    bool done() const override { return done_; }
    const std::string& value() const override { return sentence_; }
    sentencepiece::util::Status status() const override { return {}; }

    void Next() override {
        if (ahead_.empty()) {
            done_ = !fetch(sentence_);
        } else {
            sentence_ = std::move(ahead_.front());
            ahead_.pop_front();
        }
    }

private:
    [[noreturn]] static void fail_too_small(std::size_t bytes) {
        fail(ExitCode::bad_input, "the input files contain ", bytes,
             " bytes of text, but training needs at least ", min_corpus_bytes);
    }

    /// Returns false at the end of the corpus.
    bool fetch(std::string& sentence) {
        do {
            while (rest_.empty()) {
                document_.clear();
                if (!next_document_(document_)) return false;
                rest_ = document_;
            }
            sentence = take();
            // The trainer treats tabs as separators of words, not as characters.
        } while (sentence.find_first_not_of('\t') == std::string::npos);
        return true;
    }

    std::string_view take() {
        std::size_t end = rest_.find('\n');
        end = end == std::string_view::npos ? rest_.size() : end + 1;
        if (end > max_sentence_bytes) end = shorten(max_sentence_bytes);
        std::size_t skipped = 0;
        const std::string_view line = rest_.substr(0, end);
        for (const std::string_view mark : {space_mark, unknown_mark, nul}) {
            if (const auto at = line.find(mark); at < end) {
                end = at;
                skipped = mark.size();
            }
        }
        rest_.remove_prefix(end + skipped);
        return line.substr(0, end);
    }

    /// Where to end a part of about `limit` bytes: before a space, else before a character.
    std::size_t shorten(std::size_t limit) const {
        const std::size_t blank = rest_.find_last_of(' ', limit);
        if (blank != std::string_view::npos && blank > 0) return blank;
        return character_start(rest_, limit);
    }

    const std::function<bool(std::string&)>& next_document_;
    std::deque<std::string> ahead_;
    std::string document_;
    std::string_view rest_;
    std::string sentence_;
    bool done_ = false;
};

std::unordered_map<std::string, std::string> settings(const TokenizerTraining& training) {
    return {
        {"model_type", training.kind == TokenizerTraining::Kind::bpe ? "bpe" : "unigram"},
        {"vocab_size", text(training.vocab_size)},
        {"input_sentence_size", text(training.max_lines)},
        {"shuffle_input_sentence", "true"},
        {"max_sentence_length", text(2 * max_sentence_bytes)},
        {"normalization_rule_name", "identity"},
        {"add_dummy_prefix", "false"},
        {"remove_extra_whitespaces", "false"},
        {"allow_whitespace_only_pieces", "true"},
        {"byte_fallback", "true"},
        {"unk_id", "0"},
        {"bos_id", "1"},
        {"eos_id", "2"},
        {"pad_id", "-1"},
        // The number of threads affects the model through the order of additions.
        {"num_threads", "16"},
        {"train_extremely_large_corpus", "false"},
        {"minloglevel", "4"},
    };
}

std::string piece_with_real_spaces(std::string_view piece) {
    constexpr std::uint64_t piece_text = 1;
    std::string result;
    WireField field;
    for (WireReader reader(piece, "trained piece"); reader.next(field);) {
        if (field.number == piece_text) {
            append_bytes_field(result, piece_text, unescape_spaces(field.bytes));
        } else {
            result += field.encoded;
        }
    }
    return result;
}

/// Writes real spaces in the pieces and disables their replacement by U+2581.
std::string with_real_spaces(std::string_view model) {
    constexpr std::uint64_t pieces = 1, normalizer_spec = 3, escape_whitespaces = 5;
    std::string result;
    WireField field;
    for (WireReader reader(model, "trained model"); reader.next(field);) {
        if (field.number == pieces) {
            append_bytes_field(result, pieces, piece_with_real_spaces(field.bytes));
        } else if (field.number == normalizer_spec) {
            std::string spec(field.bytes);
            append_varint_field(spec, escape_whitespaces, 0);
            append_bytes_field(result, normalizer_spec, spec);
        } else {
            result += field.encoded;
        }
    }
    return result;
}

/// A library message without the leading source line and the trailing library options.
std::string_view reason(std::string_view message) {
    const auto end = message.rfind("] ");
    if (end != std::string_view::npos) message.remove_prefix(end + 2);
    return message.substr(0, message.find(" or decrease"));
}

}  // namespace

std::string train_tokenizer(const TokenizerTraining& training,
                            const std::function<bool(std::string&)>& next_document) {
    if (training.kind == TokenizerTraining::Kind::byte_bpe)
        return train_byte_bpe(training.vocab_size, next_document);
    if (training.vocab_size < smallest_vocabulary || training.vocab_size > (1 << 20)) {
        fail(ExitCode::usage, "the vocabulary size must be ", smallest_vocabulary,
             " (3 special pieces, 256 bytes and the corpus' characters) to ", 1 << 20, ", not ",
             training.vocab_size);
    }
    Sentences sentences(next_document);
    std::string model;
    const auto status =
        sentencepiece::SentencePieceTrainer::Train(settings(training), &sentences, &model);
    if (!status.ok()) {
        fail(ExitCode::usage, "cannot train a vocabulary of ", training.vocab_size,
             " pieces on this corpus: ", reason(status.message()));
    }
    return with_real_spaces(model);
}

}  // namespace gptrain
