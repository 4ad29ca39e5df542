#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "chat/template_clock.h"
#include "chunk_encoder.h"
#include "commands.h"
#include "data/indexed_writer.h"
#include "fault_log.h"
#include "input_progress.h"
#include "joint_work.h"
#include "ordered_pipeline.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer_meta.h"
#include "unread_keys.h"

namespace gptrain {
namespace {

/// Like Megatron, writes an empty text as a document without sequences.
void write_chunk(const EncodedChunk& chunk, IndexedWriter& writer) {
    std::span<const std::int32_t> rest = chunk.ids;
    std::span<const std::uint8_t> learned = chunk.learned;
    std::span<const float> weights = chunk.weights;
    for (const std::size_t length : chunk.lengths) {
        const std::size_t bits = writer.masked() ? length : 0;
        const std::size_t weighted = weights.empty() ? 0 : length;
        if (length > 0)
            writer.add_sequence(rest.first(length), learned.first(bits), weights.first(weighted));
        writer.end_document();
        rest = rest.subspan(length);
        learned = learned.subspan(bits);
        weights = weights.subspan(weighted);
    }
}

std::optional<std::int32_t> end_of_document(const EncodeOptions& options, const TokenizerFile& file,
                                            const Tokenizer& tokenizer) {
    if (!options.append_eod) return std::nullopt;
    if (!tokenizer.eos_id()) {
        fail(ExitCode::usage, "--append-eod: the tokenizer ", options.tokenizer,
             " has no end-of-document token; ", end_token_advice(file));
    }
    return tokenizer.eos_id();
}

void print_summary(const IndexedWriter& writer, std::int64_t bytes, double seconds) {
    if (writer.num_tokens() == 0) warn("no document contains a token");
    const double rate = static_cast<double>(bytes) / std::max(seconds, 1e-3);
    const std::string learned =
        writer.masked()
            ? text(" (", percent(writer.learned_tokens(), writer.num_tokens()), " of them learned)")
            : "";
    print("wrote ", writer.written(), ": ", writer.num_documents(), " documents, ",
          writer.num_tokens(), " tokens", learned, " from ", human_bytes(bytes), " in ",
          fixed(seconds, 1), " s (", human_bytes(static_cast<std::int64_t>(rate)), "/s)");
}

/// The template of some models ends every turn with the end-of-document token, and a text may spell
/// it.
void warn_of_inner_ends(std::int64_t documents, bool chat) {
    if (documents == 0) return;
    warn(documents, documents == 1 ? " document has" : " documents have",
         " the end-of-document token inside, where data.reset_at_eod would split documents: leave "
         "that off, or ",
         chat ? "use a template that ends turns with another token, or another eos_token"
              : "remove its spelling from the text");
}

/// A template that writes earlier turns otherwise makes a document of each message.
void note_repeating(std::int64_t conversations) {
    if (conversations == 0) return;
    print(conversations, conversations == 1 ? " conversation became" : " conversations became",
          " several documents each, because the template writes a message of the assistant "
          "otherwise once others follow");
}

/// The results of encoding a rank's inputs.
struct RankPart {
    TokenCounts counts;
    std::int64_t bytes = 0;
    std::int64_t ended_inside = 0;
    std::int64_t repeating = 0;
    FaultLog::Counts skipped{};
    EmptyInputs empty;
    std::set<std::string> unread_keys;
};

/// All ranks call it: returns the parts of all, in rank order.
std::vector<RankPart> exchange_parts(const MpiSession& ranks, const RankPart& mine) {
    const TokenCounts& counts = mine.counts;
    std::string line = text(counts.sequences, " ", counts.documents, " ", counts.tokens, " ",
                            mine.bytes, " ", mine.ended_inside, " ", mine.repeating);
    for (const std::int64_t skipped : mine.skipped)
        append(line, text(" ", skipped));
    append(line, text(" ", mine.empty.count));
    for (const std::size_t input : mine.empty.first)
        append(line, text(" ", input));
    std::vector<RankPart> parts;
    for (const std::string& theirs : ranks.exchange(line + " ")) {
        std::string_view rest = theirs;
        RankPart& part = parts.emplace_back();
        for (std::int64_t* number :
             {&part.counts.sequences, &part.counts.documents, &part.counts.tokens, &part.bytes,
              &part.ended_inside, &part.repeating})
            *number = take_number(rest);
        for (std::int64_t& skipped : part.skipped)
            skipped = take_number(rest);
        part.empty.count = take_number(rest);
        while (!rest.empty())
            part.empty.first.push_back(static_cast<std::size_t>(take_number(rest)));
    }
    return parts;
}

/// Where a rank writes its tokens until rank 0 has taken them over.
std::filesystem::path part_prefix(const std::filesystem::path& prefix, std::size_t rank) {
    return rank == 0 ? prefix : std::filesystem::path(text(prefix.string(), ".rank-", rank));
}

/// Removes what ranks of killed runs left. The files that rank 0 writes are locked and stay.
void remove_leftover_parts(const std::filesystem::path& prefix) {
    const std::string start = prefix.filename().string() + ".rank-";
    std::set<std::size_t> ranks = {0};
    std::error_code unreadable;
    for (std::filesystem::directory_iterator entry(folder_of(prefix), unreadable), end;
         !unreadable && entry != end; entry.increment(unreadable)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(start)) continue;
        const auto rank =
            parse_int(name.substr(start.size(), name.find('.', start.size()) - start.size()));
        if (rank && *rank > 0) ranks.insert(static_cast<std::size_t>(*rank));
    }
    for (const std::size_t rank : ranks) {
        for (const auto& path : IndexedWriter::unfinished_files_of(part_prefix(prefix, rank))) {
            try {
                remove_leftover(path);
            } catch (const Error& error) {
                warn(error.what());
            }
        }
    }
}

/// The writer of this rank. Rank 0's part comes first, because it locks the files: then no other
/// run has parts.
void open_writer(std::optional<IndexedWriter>& writer, const std::filesystem::path& prefix,
                 DType dtype, bool masked, const MpiSession& ranks) {
    ranks.run_on_first([&] {
        create_folders(folder_of(prefix));
        writer.emplace(prefix, dtype, masked);
        remove_leftover_parts(prefix);
    });
    ranks.run_on_all([&] {
        if (ranks.rank() == 0) return;
        writer.emplace(part_prefix(prefix, static_cast<std::size_t>(ranks.rank())), dtype, masked);
    });
}

/// Error (usage) on all ranks if one of them sees inputs or a tokenizer other than rank 0's.
void check_same_inputs(const EncodeOptions& options, const Tokenizer& tokenizer,
                       const MpiSession& ranks) {
    std::string mine = text(tokenizer.fingerprint());
    for (const std::string& input : options.corpus.inputs)
        append(mine, text("\n", input));
    const std::vector<std::string> all = ranks.exchange(text(crc32c(mine.data(), mine.size())));
    const auto other =
        std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != all[0]; });
    if (other == all.end()) return;
    throw CommonError(ExitCode::usage,
                      text("rank ", other - all.begin(),
                           " sees other input files or another tokenizer than rank 0; put them "
                           "where all nodes see the same"));
}

/// The inputs of this rank, as rank 0 shares them out.
InputRange inputs_of_rank(const CorpusOptions& corpus, const MpiSession& ranks) {
    std::vector<InputRange> ranges;
    ranks.run_on_first(
        [&] { ranges = share_inputs(corpus, static_cast<std::size_t>(ranks.size())); });
    const std::string mine = ranks.scatter([&](int rank) {
        const InputRange& range = ranges[static_cast<std::size_t>(rank)];
        return text(range.begin.input, " ", range.begin.group, " ", range.end.input, " ",
                    range.end.group, " ");
    });
    std::string_view rest = mine;
    InputRange range;
    for (InputPosition* position : {&range.begin, &range.end}) {
        position->input = static_cast<std::size_t>(take_number(rest));
        position->group = static_cast<std::size_t>(take_number(rest));
    }
    return range;
}

std::size_t worker_count(const EncodeOptions& options, const MpiSession& ranks) {
    if (options.workers > 0) return static_cast<std::size_t>(options.workers);
    const auto sharers = static_cast<unsigned>(ranks.local_size());
    return std::max(1u, std::thread::hardware_concurrency() / sharers);
}

/// Encodes a range of the inputs into `writer`; returns their (decompressed) bytes and the
/// documents that end inside.
RankPart encode_inputs(const InputRange& inputs, const EncodeOptions& options,
                       const ChunkEncoder& encode, std::size_t workers, IndexedWriter& writer,
                       FaultLog& faults, JointWork& work) {
    CorpusReader reader(options.corpus, inputs, workers);
    RankPart part;
    OrderedPipeline<Chunk, EncodedChunk> pipeline(workers, 2 * workers + 2);
    pipeline.run([&](Chunk& chunk) { return reader.next(chunk); }, encode,
                 [&](const EncodedChunk& chunk) {
                     for (const LocatedFault& fault : chunk.faults)
                         faults.add(fault);
                     write_chunk(chunk, writer);
                     part.bytes += chunk.bytes;
                     part.ended_inside += chunk.ended_inside;
                     part.repeating += chunk.repeating;
                     add_unread_keys(chunk.unread_keys, part.unread_keys);
                     work.report(part.bytes, writer.num_tokens());
                 });
    part.empty = reader.empty();
    return part;
}

/// Rank 0 adds the parts of the other ranks to its own.
void join_parts(const std::vector<RankPart>& parts, const std::filesystem::path& prefix,
                IndexedWriter& writer, FaultLog& faults) {
    if (parts.size() > 1) print("joining the tokens of ", parts.size(), " processes");
    for (std::size_t rank = 1; rank < parts.size(); ++rank) {
        writer.append_part(part_prefix(prefix, rank), parts[rank].counts);
        faults.add(parts[rank].skipped);
    }
}

/// Totals over the inputs of all ranks.
struct InputTotals {
    std::int64_t bytes = 0;
    std::int64_t ended_inside = 0;
    std::int64_t repeating = 0;
    EmptyInputs empty;
};

InputTotals total_of(const std::vector<RankPart>& parts) {
    InputTotals total;
    for (const RankPart& part : parts) {
        total.bytes += part.bytes;
        total.ended_inside += part.ended_inside;
        total.repeating += part.repeating;
        total.empty.add(part.empty);
    }
    return total;
}

/// A slash in the key would make a folder.
std::filesystem::path prefix_of(const EncodeOptions& options) {
    std::string key = options.corpus.documents.json_key;
    std::replace(key.begin(), key.end(), '/', '_');
    return text(options.output_prefix, "_", key, "_document");
}

}  // namespace

void encode_corpus(const EncodeOptions& options, const MpiSession& ranks) {
    const std::filesystem::path prefix = prefix_of(options);
    ranks.run_on_first([&] {
        require_other_files(options.corpus.inputs, IndexedWriter::files_of(prefix),
                            "--output-prefix " + options.output_prefix);
        check_inputs(options.corpus);
    });
    std::optional<TokenizerFile> file;
    std::optional<Tokenizer> tokenizer;
    std::optional<std::int32_t> end;
    std::optional<ChatEncoder> chat;
    ranks.run_on_all([&] {
        file = read_tokenizer(options.tokenizer);
        tokenizer.emplace(*file);
        end = end_of_document(options, *file, *tokenizer);
        if (options.chat) chat.emplace(*options.chat, *file, *tokenizer);
    });
    check_same_inputs(options, *tokenizer, ranks);
    fix_template_time(parse_int(ranks.broadcast(text(template_time()))).value());
    const InputRange inputs = inputs_of_rank(options.corpus, ranks);
    std::optional<IndexedWriter> writer;
    open_writer(writer, prefix, token_dtype(tokenizer->vocab_size()), options.chat.has_value(),
                ranks);

    InputProgress progress(ranks.rank() == 0 ? total_bytes(options.corpus) : std::nullopt);
    FaultLog faults(options.corpus.skip_faulty);
    const ChunkEncoder encode(options, *tokenizer, end, chat ? &*chat : nullptr);
    JointWork work(ranks, progress);
    RankPart mine;
    work.run([&] {
        mine = encode_inputs(inputs, options, encode, worker_count(options, ranks), *writer, faults,
                             work);
        if (ranks.rank() != 0) writer->finish_part();
    });
    show_status("");
    mine.counts = writer->counts();
    mine.skipped = faults.counts();
    const std::vector<RankPart> parts = exchange_parts(ranks, mine);
    report_unread_keys(mine.unread_keys, ranks);
    ranks.run_on_first([&] {
        join_parts(parts, prefix, *writer, faults);
        if (const std::string skipped = faults.summary(); !skipped.empty()) warn(skipped);
        if (writer->num_documents() == 0)
            fail(ExitCode::bad_input, "no usable document in the input; nothing was written");
        TokenMeta meta = meta_of(file->source, *tokenizer);
        meta.append_eod = options.append_eod || options.chat;
        writer->commit(meta, chat ? chat->template_text() : "");
        const InputTotals read = total_of(parts);
        warn_of_empty(read.empty, options.corpus.inputs);
        warn_of_inner_ends(read.ended_inside, options.chat.has_value());
        note_repeating(read.repeating);
        print_summary(*writer, read.bytes, progress.seconds());
        if (!options.append_eod && !options.chat && tokenizer->eos_id()) {
            print(
                "no end-of-document id was appended; with --append-eod each document ends in one, "
                "so that a model learns where a text ends");
        }
    });
}

}  // namespace gptrain
