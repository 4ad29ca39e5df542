#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/chat_template_file.h"
#include "data/indexed_dataset.h"
#include "data/indexed_writer.h"

namespace gptrain {
namespace {

void append_documents(const IndexedDataset& dataset, IndexedWriter& writer) {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> learned;
    std::vector<float> weights;
    for (std::int64_t document = 0; document < dataset.num_documents(); ++document) {
        const std::int64_t end = dataset.document_begin(document + 1);
        for (std::int64_t i = dataset.document_begin(document); i < end; ++i) {
            ids.resize(static_cast<std::size_t>(dataset.sequence_length(i)));
            dataset.read(i, 0, dataset.sequence_length(i), ids.data());
            learned.resize(writer.masked() ? ids.size() : 0);
            if (writer.masked()) dataset.read_learned(i, 0, learned);
            weights.resize(dataset.weighted() ? ids.size() : 0);
            if (dataset.weighted()) dataset.read_weights(i, 0, weights);
            writer.add_sequence(ids, learned, weights);
        }
        writer.end_document();
    }
}

/// True if all data sets have a loss mask; Error if only some have.
bool all_masked(const std::vector<IndexedDataset>& datasets) {
    const IndexedDataset& first = datasets.front();
    for (const IndexedDataset& dataset : datasets) {
        if (dataset.masked() == first.masked()) continue;
        const IndexedDataset& masked = dataset.masked() ? dataset : first;
        const IndexedDataset& plain = dataset.masked() ? first : dataset;
        fail(ExitCode::bad_input, plain.prefix().string(), ": has no loss mask, but ",
             masked.prefix().string(),
             " has one; merge masked and unmasked files separately, and blend the results in "
             "data.train");
    }
    return first.masked();
}

/// The metadata that all data sets share; nothing if one does not name its tokenizer.
std::optional<TokenMeta> common_meta(const std::vector<IndexedDataset>& datasets) {
    std::optional<TokenMeta> common;
    std::string first;
    std::string unknown;
    std::string with_ends;
    std::string without_ends;
    for (const IndexedDataset& dataset : datasets) {
        const std::string prefix = dataset.prefix().string();
        std::optional<TokenMeta> meta = dataset.meta();
        if (!meta) {
            unknown = prefix;
        } else if (!common) {
            common = std::move(meta);
            first = prefix;
        } else if (meta->tokenizer_crc32c != common->tokenizer_crc32c) {
            fail(ExitCode::bad_input, meta_path(prefix).string(), ": its tokenizer is ",
                 tokenizer_text(*meta), ", but ", first, " uses ", tokenizer_text(*common),
                 "; cannot merge files from different tokenizers");
        }
        std::string& ends = dataset.meta() && dataset.meta()->append_eod ? with_ends : without_ends;
        if (ends.empty()) ends = prefix;
    }
    if (unknown.empty()) {
        if (!without_ends.empty() && !with_ends.empty()) {
            print(without_ends, ": has no end-of-document ids, but ", with_ends,
                  " has them; the merged files count as files without");
        }
        common->append_eod = without_ends.empty();
        return common;
    }
    print(unknown, ": no .meta.json, so the merged files will have none");
    return std::nullopt;
}

/// The chat template that all data sets share, if they have one.
std::string common_template_text(const std::vector<IndexedDataset>& datasets) {
    std::vector<std::filesystem::path> prefixes;
    for (const IndexedDataset& dataset : datasets)
        prefixes.push_back(dataset.prefix());
    const ChatTemplateFile common = common_template(prefixes);
    for (const auto& prefix : prefixes) {
        if (!common.path.empty() && read_template(prefix).path.empty())
            print(prefix.string(), ": has no chat template; the merged files get ",
                  common.path.string());
    }
    return common.text;
}

std::vector<std::string> files_of(const std::vector<IndexedDataset>& datasets) {
    std::vector<std::string> files;
    for (const IndexedDataset& dataset : datasets)
        for (const std::filesystem::path& file : IndexedWriter::files_of(dataset.prefix()))
            files.push_back(file.string());
    return files;
}

}  // namespace

void merge_token_files(const MergeOptions& options) {
    std::vector<IndexedDataset> datasets;
    for (const std::string& prefix : options.inputs) {
        datasets.emplace_back(prefix);
        if (datasets.back().dtype() != datasets.front().dtype()) {
            fail(ExitCode::bad_input, datasets.back().prefix().string(), ".idx: its ids are ",
                 name_of(datasets.back().dtype()), ", but those of ",
                 datasets.front().prefix().string(), ".idx are ", name_of(datasets.front().dtype()),
                 "; cannot merge files from different tokenizers");
        }
    }
    const bool masked = all_masked(datasets);
    std::optional<TokenMeta> meta = common_meta(datasets);
    if (meta) meta->program = "gptrain " GPTRAIN_VERSION;
    const std::string chat_template = common_template_text(datasets);
    const std::filesystem::path prefix = options.output_prefix;
    require_other_files(files_of(datasets), IndexedWriter::files_of(prefix),
                        "--output-prefix " + prefix.string());
    create_folders(folder_of(prefix));
    IndexedWriter writer(prefix, datasets.front().dtype(), masked);
    for (const IndexedDataset& dataset : datasets)
        append_documents(dataset, writer);
    writer.commit(meta, chat_template);
    print("wrote ", writer.written(), ": ", writer.num_documents(), " documents, ",
          writer.num_tokens(), " tokens");
}

}  // namespace gptrain
