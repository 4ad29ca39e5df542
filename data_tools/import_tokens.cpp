#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "commands.h"
#include "data/foreign_tokens.h"
#include "data/indexed_writer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer_meta.h"

namespace gptrain {
namespace {

/// Cuts a stream of ids into documents, each of which ends with the end-of-document id. In the
/// stream that id precedes each document (llm.c) or follows it (nanoGPT).
class DocumentCutter {
public:
    DocumentCutter(IndexedWriter& writer, std::int32_t end) : writer_(writer), end_(end) {}

    void add(std::int32_t id) {
        const bool precedes = first_ && id == end_;
        first_ = false;
        if (precedes) return;
        if (document_.size() == most_ids)
            fail(ExitCode::bad_input, "--input: a document of more than ", most_ids,
                 " ids: is the end-of-document token of this tokenizer that of the files?");
        document_.push_back(id);
        if (id == end_) finish();
    }
    /// Ends the last document.
    void finish_last() {
        if (!document_.empty()) add(end_);
    }

private:
    void finish() {
        writer_.add_sequence(document_);
        writer_.end_document();
        document_.clear();
    }

    static constexpr std::size_t most_ids = std::numeric_limits<std::int32_t>::max();

    IndexedWriter& writer_;
    std::int32_t end_;
    bool first_ = true;
    std::vector<std::int32_t> document_;
};

void add_file(const ForeignTokens& tokens, const Tokenizer& tokenizer, DocumentCutter& documents) {
    for (std::int64_t i = 0; i < tokens.size(); ++i) {
        const std::uint32_t id = tokens.at(i);
        if (id >= tokenizer.vocab_size()) {
            fail(ExitCode::bad_input, tokens.path().string(), ": id ", i, " is ", id,
                 ", but the tokenizer has ", tokenizer.vocab_size(),
                 " pieces; give the one that made the file");
        }
        documents.add(static_cast<std::int32_t>(id));
    }
}

}  // namespace

void import_token_files(const ImportOptions& options) {
    const TokenizerFile file = read_tokenizer(options.tokenizer);
    const Tokenizer tokenizer(file);
    if (!tokenizer.eos_id()) {
        fail(ExitCode::usage, "the tokenizer ", options.tokenizer,
             " has no end-of-document token, which would divide the documents; ",
             end_token_advice(file));
    }
    std::vector<ForeignTokens> inputs;
    for (const std::string& input : options.inputs)
        inputs.emplace_back(input, options.raw_bytes);
    const std::filesystem::path prefix = options.output_prefix;
    require_other_files(options.inputs, IndexedWriter::files_of(prefix),
                        "--output-prefix " + prefix.string());
    create_folders(folder_of(prefix));
    IndexedWriter writer(prefix, token_dtype(tokenizer.vocab_size()));
    DocumentCutter documents(writer, *tokenizer.eos_id());
    for (const ForeignTokens& tokens : inputs)
        add_file(tokens, tokenizer, documents);
    documents.finish_last();
    if (writer.num_documents() == 0)
        fail(ExitCode::bad_input, options.inputs[0], ": has no ids; nothing was written");
    TokenMeta meta = meta_of(file.source, tokenizer);
    meta.append_eod = true;
    writer.commit(meta);
    print("wrote ", writer.written(), ": ", writer.num_documents(), " documents, ",
          writer.num_tokens(), " tokens");
}

}  // namespace gptrain
