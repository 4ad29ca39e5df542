#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "chat/conversation.h"
#include "commands.h"
#include "data/indexed_dataset.h"
#include "data/token_meta.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {
namespace {

std::string padded(std::string word, std::size_t width) {
    word.insert(0, width - std::min(width, word.size()), ' ');
    return word;
}

/// Counts documents by length: empty ones, then [2^k, 2^(k+1)).
void print_histogram(const IndexedDataset& dataset) {
    std::vector<std::int64_t> counts(64);
    std::int64_t longest = 0;
    for (std::int64_t document = 0; document < dataset.num_documents(); ++document) {
        std::int64_t tokens = 0;
        const std::int64_t end = dataset.document_begin(document + 1);
        for (std::int64_t i = dataset.document_begin(document); i < end; ++i)
            tokens += dataset.sequence_length(i);
        ++counts[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(tokens)))];
        longest = std::max(longest, tokens);
    }
    const std::int64_t most = *std::max_element(counts.begin(), counts.end());
    print("tokens per document (longest ", longest, "):");
    for (std::size_t k = 0; k < counts.size(); ++k) {
        if (counts[k] == 0) continue;
        const std::int64_t low = k == 0 ? 0 : std::int64_t{1} << (k - 1);
        const std::int64_t high = k == 0 ? 0 : 2 * (low - 1) + 1;
        print("  ", padded(text(low), 10), " to ", padded(text(high), 10), "  ",
              padded(text(counts[k]), 10), "  ",
              std::string(static_cast<std::size_t>((40 * counts[k] + most - 1) / most), '#'));
    }
}

void print_sample(const IndexedDataset& dataset, const InspectOptions& options) {
    if (options.document >= dataset.num_documents()) {
        fail(ExitCode::usage, dataset.prefix().string(), " has no document ", options.document,
             "; it has documents 0 to ", dataset.num_documents() - 1);
    }
    const auto tokens = first_tokens(dataset, options.document, options.sample_tokens);
    std::string numbers;
    for (const std::int32_t id : tokens.ids)
        numbers += text(" ", id);
    print("document ", options.document, " starts with", numbers);
    if (options.tokenizer.empty()) return;
    const Tokenizer tokenizer(options.tokenizer);
    check_ids(tokenizer, tokens.ids, dataset.prefix(), options.document);
    const LearnedMarks marks = dataset.masked() ? learned_marks() : LearnedMarks{};
    print_sequences(text(show_learned(tokenizer, tokens.ids, tokens.learned, marks), "\n"));
}

void print_tokenizer(const IndexedDataset& dataset, const InspectOptions& options) {
    const std::optional<TokenMeta>& meta = dataset.meta();
    print("made with ", meta ? describe(*meta) : "an unknown tokenizer (no .meta.json)");
    if (!meta || options.tokenizer.empty()) return;
    const Tokenizer tokenizer(options.tokenizer);
    check_tokenizer(dataset.prefix(), *meta,
                    {"--tokenizer " + options.tokenizer, text(tokenizer.fingerprint())});
}

}  // namespace

void inspect_token_files(const InspectOptions& options) {
    const IndexedDataset dataset(options.prefix);
    print(dataset.prefix().string(), ": ", dataset.num_documents(), " documents, ",
          dataset.num_sequences(), " sequences, ", dataset.num_tokens(), " tokens of ",
          name_of(dataset.dtype()), " (",
          human_bytes(dataset.num_tokens() * size_of(dataset.dtype())), ")");
    if (dataset.masked()) {
        const std::int64_t learned = dataset.learned_tokens(0, dataset.num_sequences());
        print("learned: ", learned, " tokens (", percent(learned, dataset.num_tokens()), ")");
        if (dataset.weighted())
            print("weights: ", dataset.weighted_tokens(), " of them count less than 1");
    }
    print_tokenizer(dataset, options);
    if (dataset.num_documents() == 0) return;
    print_histogram(dataset);
    print_sample(dataset, options);
}

}  // namespace gptrain
