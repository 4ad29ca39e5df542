// The tokenizer of a trained model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "comm/mpi_session.h"
#include "data/token_meta.h"
#include "spec/run_spec.h"
#include "stored/model_source.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// The tokenizer that the model was trained with: tokenizer.model or tokenizer.json in the
/// checkpoint. Checkpoints of older versions lack it; then the given file, or else the one named in
/// the run's spec. In each case its bytes must be those that the model was trained with. For
/// a Hugging Face model folder it is the given file or, without one, the folder's own tokenizer;
/// rank 0 warns if gptrain cannot use that.
class RunTokenizer {
public:
    /// All ranks call it, before the checkpoint is loaded. `given`: a file named by the user, or
    /// empty. Error (usage) if it is not the tokenizer that the model was trained with.
    RunTokenizer(const ModelSource& source, const RunSpec& spec, const std::filesystem::path& given,
                 const MpiSession& ranks);

    /// Empty if the run has no tokenizer. Error (bad_input) if the file is missing or faulty,
    /// (usage) if the spec's tokenizer is not the one that the model was trained with.
    std::optional<Tokenizer> open() const;

    /// The bytes of its file, if the checkpoint or the user gave it.
    const std::optional<std::string>& bytes() const { return bytes_; }

    /// The tokenizer that token files must be made with; nothing if the run has no tokenizer.
    std::optional<ExpectedTokenizer> expected() const;

private:
    void read_saved(const RestartPoint& checkpoint, const RunSpec& spec,
                    const std::filesystem::path& given, const MpiSession& ranks);
    void read_folder_tokenizer(const HfFolder& folder, const std::filesystem::path& given,
                               bool may_warn);
    void take(const std::filesystem::path& given, const std::optional<std::string>& saved);
    bool is_right(std::string_view bytes) const;
    void check(std::string_view bytes, const std::string& source) const;

    std::string fingerprint_;           ///< of the model's tokenizer; empty: the run has none
    std::optional<std::string> bytes_;  ///< from the checkpoint or the given file
    std::string source_;                ///< origin of the bytes, or the spec's path; for messages
};

/// The tokenizer in a Hugging Face model folder: its bytes, or why gptrain cannot use it.
struct FolderTokenizer {
    std::string bytes;
    std::string source;  ///< its file
    std::string fault;   ///< empty if it can be used
};
FolderTokenizer folder_tokenizer(const HfFolder& folder);

}  // namespace gptrain
