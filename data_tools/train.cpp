#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "commands.h"
#include "fault_log.h"
#include "input_progress.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {
namespace {

/// Yields the documents of a corpus one by one.
class DocumentSource {
public:
    DocumentSource(const CorpusOptions& options, FaultLog& faults)
        : options_(options), reader_(options, all_inputs(options)), faults_(faults) {}

    bool next(std::string& text) {
        while (true) {
            if (at_ == chunk_.records.size()) {
                at_ = 0;
                if (!reader_.next(chunk_)) return false;
            }
            Record& record = chunk_.records[at_++];
            const std::string& path = options_.inputs[chunk_.file];
            auto fault = take_document(record, format_of(path, options_), text);
            if (!fault) return true;
            faults_.add(locate(std::move(*fault), path, record));
        }
    }

    const EmptyInputs& empty() const { return reader_.empty(); }

private:
    const CorpusOptions& options_;
    CorpusReader reader_;
    FaultLog& faults_;
    Chunk chunk_;
    std::size_t at_ = 0;
};

}  // namespace

void train_tokenizer_files(const TrainTokenizerOptions& options) {
    const bool byte_bpe = options.training.kind == TokenizerTraining::Kind::byte_bpe;
    const std::filesystem::path path = options.model_prefix + (byte_bpe ? ".json" : ".model");
    require_other_files(options.corpus.inputs, {path}, "--model-prefix " + options.model_prefix);
    // Token files and checkpoints may depend on an existing tokenizer.
    require_new(path, "--model-prefix");
    check_inputs(options.corpus);
    create_folders(folder_of(path));
    LockedFile output(path);  // before the work, which would be lost

    const InputProgress progress(std::nullopt);
    show_status(text("training a tokenizer of ", options.training.vocab_size, " pieces ..."));
    FaultLog faults(options.corpus.skip_faulty);
    DocumentSource documents(options.corpus, faults);
    const std::string model = train_tokenizer(
        options.training, [&](std::string& document) { return documents.next(document); });
    const Tokenizer tokenizer(model, path.string());
    output.file().write(model);
    output.file().sync();
    output.move_into_place();
    sync_folder(folder_of(path));
    show_status("");
    if (const std::string skipped = faults.summary(); !skipped.empty()) warn(skipped);
    warn_of_empty(documents.empty(), options.corpus.inputs);
    print("wrote ", path.string(), ": ", tokenizer.vocab_size(), " pieces in ",
          fixed(progress.seconds(), 1), " s");
}

}  // namespace gptrain
