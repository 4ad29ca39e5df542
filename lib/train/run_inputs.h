// A run's inputs: tokenizer and token data, opened and checked before any computation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/mesh.h"
#include "data/chat_template_file.h"
#include "data/training_data.h"
#include "spec/run_plan.h"
#include "tokenizer/tokenizer.h"
#include "train/run_tasks.h"

namespace gptrain {

/// A run's tokenizer. All fields are empty if it has none.
struct TokenizerInput {
    std::string bytes;                          ///< the model file, for checkpoints
    std::vector<NamedFile> companions;          ///< the files next to it, for checkpoints
    std::filesystem::path folder;               ///< where they are
    std::optional<ExpectedTokenizer> expected;  ///< the tokenizer that the token files must name
    std::optional<std::int32_t> eos_id;
    std::optional<std::int32_t> mask_id;
};

/// The inputs that a run reads before it writes anything.
struct CheckedInputs {
    TokenizerInput tokenizer;
    /// The token files' template (common_template), else the one next to the tokenizer.
    ChatTemplateFile chat_template;
    std::optional<RunTasks> tasks;
};

/// Checks that every file named in the spec exists; reads the tokenizer, the chat template and the
/// tasks. Errors (bad_input) name the key of a missing file, or a faulty tokenizer, template, task
/// or document; Error (usage) if the tokenizer and the model do not fit together.
CheckedInputs check_inputs(const RunSpec& spec, const RunPlan& plan);

struct RunInputs {
    RunSpec spec;
    /// With the ids of end of document and mask from the tokenizer, and the samples of the data.
    RunPlan plan;
    TrainingData data;
    TokenizerInput tokenizer;
    ChatTemplateFile chat_template = {};
    std::optional<RunTasks> tasks = {};
    Json identity;                           ///< what must be equal to resume (identity.h)
    std::optional<PeerAxes> peer_axes = {};  ///< of the mesh
};

struct OpenInputs {
    std::filesystem::path cache;        ///< the folder of the index files
    const MpiSession* ranks = nullptr;  ///< those that open the inputs together, if not null
    std::optional<SavedData> saved;     ///< the data of the checkpoint that the run resumes
    std::string adapted;                ///< the fingerprint of the model that its adapter adapts
};

/// Error (usage) if the tokenizer and the token files do not fit together; Error (bad_input) for a
/// faulty data set.
RunInputs open_inputs(const RunSpec& spec, const RunPlan& plan, const TokenizerInput& tokenizer,
                      const OpenInputs& from);

}  // namespace gptrain
