#include <algorithm>
#include <filesystem>

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

}  // namespace

void merge_token_files(const MergeOptions& options) {
    std::vector<IndexedDataset> datasets;
    for (const std::string& prefix : options.inputs) {
        datasets.emplace_back(prefix);
        if (datasets.back().dtype() != datasets.front().dtype()) {
            fail(ExitCode::bad_input, prefix, ".idx: its ids are ",
                 name_of(datasets.back().dtype()), ", those of ", options.inputs.front(),
                 ".idx are ", name_of(datasets.front().dtype()),
                 "; files of two tokenizers cannot be merged");
        }
    }
    const std::filesystem::path prefix = options.output_prefix;
    if (prefix.has_parent_path()) create_folders(prefix.parent_path());
    IndexedWriter writer(prefix, datasets.front().dtype());
    for (const IndexedDataset& dataset : datasets)
        append_documents(dataset, writer);
    writer.commit();
    print("wrote ", writer.bin_path().string(), " and .idx: ", writer.num_documents(),
          " documents, ", writer.num_tokens(), " tokens");
}

}  // namespace gptrain
