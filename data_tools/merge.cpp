#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/indexed_dataset.h"
#include "data/indexed_writer.h"

namespace gptrain {
namespace {

void append_documents(const IndexedDataset& dataset, IndexedWriter& writer) {
    std::vector<std::int32_t> ids;
    for (std::int64_t document = 0; document < dataset.num_documents(); ++document) {
        const std::int64_t end = dataset.document_begin(document + 1);
        for (std::int64_t i = dataset.document_begin(document); i < end; ++i) {
            ids.resize(static_cast<std::size_t>(dataset.sequence_length(i)));
            dataset.read(i, 0, dataset.sequence_length(i), ids.data());
            writer.add_sequence(ids);
        }
        writer.end_document();
    }
}

/// The metadata that all data sets share; nothing if one does not name its tokenizer.
std::optional<TokenMeta> common_meta(const std::vector<IndexedDataset>& datasets) {
    std::optional<TokenMeta> common;
    std::string first;
    std::string unknown;
    for (const IndexedDataset& dataset : datasets) {
        const std::string prefix = dataset.prefix().string();
        std::optional<TokenMeta> meta = read_token_meta(dataset);
        if (!meta) {
            unknown = prefix;
        } else if (!common) {
            common = std::move(meta);
            first = prefix;
        } else if (meta->tokenizer_crc32c != common->tokenizer_crc32c) {
            fail(ExitCode::bad_input, meta_path(prefix).string(), ": its tokenizer is ",
                 tokenizer_text(*meta), ", but ", first, " uses ", tokenizer_text(*common),
                 "; cannot merge files from different tokenizers");
        } else {
            common->append_eod = common->append_eod && meta->append_eod;
        }
    }
    if (unknown.empty()) return common;
    print(unknown, ": no .meta.json, so the merged files will have none");
    return std::nullopt;
}

}  // namespace

void merge_token_files(const MergeOptions& options) {
    std::vector<IndexedDataset> datasets;
    for (const std::string& prefix : options.inputs) {
        datasets.emplace_back(prefix);
        if (datasets.back().dtype() != datasets.front().dtype()) {
            fail(ExitCode::bad_input, prefix, ".idx: its ids are ",
                 name_of(datasets.back().dtype()), ", but those of ", options.inputs.front(),
                 ".idx are ", name_of(datasets.front().dtype()),
                 "; cannot merge files from different tokenizers");
        }
    }
    std::optional<TokenMeta> meta = common_meta(datasets);
    if (meta) meta->program = "gptrain " GPTRAIN_VERSION;
    const std::filesystem::path prefix = options.output_prefix;
    if (prefix.has_parent_path()) create_folders(prefix.parent_path());
    IndexedWriter writer(prefix, datasets.front().dtype());
    for (const IndexedDataset& dataset : datasets)
        append_documents(dataset, writer);
    writer.commit(meta);
    print("wrote ", writer.bin_path().string(),
          meta ? ", .idx and .meta.json: " : " and .idx: ", writer.num_documents(), " documents, ",
          writer.num_tokens(), " tokens");
}

}  // namespace gptrain
