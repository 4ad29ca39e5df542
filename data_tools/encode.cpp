#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/indexed_writer.h"
#include "ordered_pipeline.h"
#include "progress.h"
#include "text/tokenizer.h"

namespace gptrain {
namespace {

/// The token ids of a chunk's documents.
struct EncodedChunk {
    std::int64_t bytes = 0;
    std::vector<std::int32_t> ids;     // of all documents, concatenated
    std::vector<std::size_t> lengths;  // one per document
    std::vector<LocatedFault> faults;
};

class ChunkEncoder {
public:
    ChunkEncoder(const EncodeOptions& options, const Tokenizer& tokenizer,
                 std::optional<std::int32_t> end_of_document)
        : options_(options), tokenizer_(tokenizer), end_of_document_(end_of_document) {}

    EncodedChunk operator()(Chunk chunk) const {
        const std::string& path = options_.corpus.inputs[chunk.file];
        const CorpusFormat format = format_of(path, options_.corpus);
        EncodedChunk encoded;
        encoded.bytes = chunk.bytes;
        std::string text;
        for (Record& record : chunk.records) {
            if (auto fault = take_document(record, format, text)) {
                encoded.faults.push_back(locate(std::move(*fault), path, record));
                if (!options_.corpus.skip_faulty) break;
            } else {
                add_document(text, encoded);
            }
        }
        return encoded;
    }

private:
    void add_document(const std::string& text, EncodedChunk& encoded) const {
        const std::size_t begin = encoded.ids.size();
        tokenizer_.encode(text, encoded.ids);
        if (end_of_document_ && encoded.ids.size() > begin) {
            encoded.ids.push_back(*end_of_document_);
        }
        encoded.lengths.push_back(encoded.ids.size() - begin);
    }

    const EncodeOptions& options_;
    const Tokenizer& tokenizer_;
    std::optional<std::int32_t> end_of_document_;
};

/// Like Megatron, writes an empty text as a document without sequences.
void write_chunk(const EncodedChunk& chunk, IndexedWriter& writer) {
    std::span<const std::int32_t> rest = chunk.ids;
    for (const std::size_t length : chunk.lengths) {
        if (length > 0) writer.add_sequence(rest.first(length));
        writer.end_document();
        rest = rest.subspan(length);
    }
}

std::optional<std::int32_t> end_of_document(const EncodeOptions& options,
                                            const Tokenizer& tokenizer) {
    if (!options.append_eod) return std::nullopt;
    if (!tokenizer.eos_id()) {
        fail(ExitCode::usage, "--append-eod: the tokenizer ", options.tokenizer,
             " has no end-of-document token; name it as eos_token in a tokenizer_config.json next "
             "to "
             "it");
    }
    return tokenizer.eos_id();
}

TokenMeta meta_of(const EncodeOptions& options, const std::filesystem::path& tokenizer_file,
                  const Tokenizer& tokenizer) {
    TokenMeta meta;
    meta.tokenizer_file = tokenizer_file.filename().string();
    const auto is_control = [](unsigned char c) { return c < 32 || c == 127; };
    std::replace_if(meta.tokenizer_file.begin(), meta.tokenizer_file.end(), is_control, '_');
    meta.tokenizer_crc32c = tokenizer.fingerprint();
    meta.vocab_size = tokenizer.vocab_size();
    meta.append_eod = options.append_eod;
    meta.program = "gptrain " GPTRAIN_VERSION;
    return meta;
}

void print_summary(const IndexedWriter& writer, const FaultLog& faults, std::int64_t bytes,
                   double seconds) {
    if (const std::string skipped = faults.summary(); !skipped.empty()) warn(skipped);
    if (writer.num_tokens() == 0) warn("no document contains a token");
    const double rate = static_cast<double>(bytes) / std::max(seconds, 1e-3);
    print("wrote ", writer.bin_path().string(), ", .idx and .meta.json: ", writer.num_documents(),
          " documents, ", writer.num_tokens(), " tokens from ", human_bytes(bytes), " in ",
          fixed(seconds, 1), " s (", human_bytes(static_cast<std::int64_t>(rate)), "/s)");
}

}  // namespace

void encode_corpus(const EncodeOptions& options) {
    check_inputs(options.corpus);
    const TokenizerFile file = read_tokenizer(options.tokenizer);
    const Tokenizer tokenizer(file);
    const ChunkEncoder encode(options, tokenizer, end_of_document(options, tokenizer));
    const std::filesystem::path prefix =
        text(options.output_prefix, "_", options.corpus.documents.json_key, "_document");
    if (prefix.has_parent_path()) create_folders(prefix.parent_path());
    IndexedWriter writer(prefix, token_dtype(tokenizer.vocab_size()));

    Progress progress(total_bytes(options.corpus));
    CorpusReader reader(options.corpus);
    FaultLog faults(options.corpus.skip_faulty);
    std::int64_t bytes = 0;
    const auto workers = static_cast<std::size_t>(
        options.workers > 0 ? options.workers : std::max(1u, std::thread::hardware_concurrency()));
    OrderedPipeline<Chunk, EncodedChunk> pipeline(workers, 2 * workers + 2);
    pipeline.run([&](Chunk& chunk) { return reader.next(chunk); }, encode,
                 [&](const EncodedChunk& chunk) {
                     for (const LocatedFault& fault : chunk.faults)
                         faults.add(fault);
                     write_chunk(chunk, writer);
                     bytes += chunk.bytes;
                     progress.show(bytes, writer.num_tokens());
                 });
    show_status("");
    if (writer.num_documents() == 0) {
        if (const std::string skipped = faults.summary(); !skipped.empty()) warn(skipped);
        fail(ExitCode::bad_input, "no usable document in the input; nothing was written");
    }
    writer.commit(meta_of(options, file.source, tokenizer));
    print_summary(writer, faults, bytes, progress.seconds());
}

}  // namespace gptrain
