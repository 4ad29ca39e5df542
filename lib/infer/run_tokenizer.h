// The tokenizer of a trained model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/restart_point.h"
#include "comm/mpi_session.h"
#include "data/token_meta.h"
#include "spec/run_spec.h"
#include "text/tokenizer.h"

namespace gptrain {

/// The one that the model was trained with: the checkpoint's tokenizer.model. A checkpoint of an
/// older program has none; then the file that was given, else the one that the run's spec names.
/// Whichever it is, its bytes must be those that the model was trained with.
class RunTokenizer {
public:
    /// All ranks call it, before the checkpoint is loaded. `given`: a file that the user named, or
    /// empty. Error (usage) where it is not the one trained with.
    RunTokenizer(const RestartPoint& checkpoint, const RunSpec& spec,
                 const std::filesystem::path& given, const MpiSession& ranks);

    /// Nothing where the run has no tokenizer. Error (bad_input) where the file is missing or
    /// faulty, (usage) where the spec's is another than the one trained with.
    std::optional<Tokenizer> open() const;

    /// What token files should be made with; nothing where the run has no tokenizer.
    std::optional<ExpectedTokenizer> expected() const;

private:
    void take(const std::filesystem::path& given, const std::optional<std::string>& saved);
    bool is_right(std::string_view bytes) const;
    void check(std::string_view bytes, const std::string& source) const;

    std::string fingerprint_;           ///< of the one trained with; empty: the run has none
    std::optional<std::string> bytes_;  ///< from the checkpoint or the given file
    std::string source_;                ///< where they are from, or the spec's path; for messages
};

}  // namespace gptrain
