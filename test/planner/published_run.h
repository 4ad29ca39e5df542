// Training runs that others have published, as runs of this program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spec/run_plan.h"

namespace gptrain::test {

/// A row of published_runs.csv; empty fields are not published.
struct PublishedRun {
    std::string source;
    std::string model;
    std::int64_t gpus = 1;
    MeshShape mesh;
    std::optional<std::int64_t> virtual_stages;
    std::int64_t layers = 0;
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t sequence = 0;
    std::optional<std::int64_t> vocab;
    std::optional<std::int64_t> micro_batch;
    std::int64_t global_batch = 0;
    std::optional<Recompute> recompute;
    bool sequence_parallel = false;
    double seconds = 0;  ///< of a step

    /// The mean model FLOP/s of a GPU, without recomputation, as Narayanan et al. 2021 count them:
    /// attention as if nothing were masked.
    double flops() const;
};

/// True if the run's source contains the text: "narayanan-2021", "korthikanti-2022",
/// "megatron-core-0.8" or "qi-2024", which are all there are, or a part of it ("zb-1p").
bool is_from(const PublishedRun& run, std::string_view source);

std::vector<PublishedRun> published_runs(const std::filesystem::path& csv);

/// The run with this program. Values that are not published are assumed:
///  - vocabulary (of Qi et al.): 32,000 ids, as the tokenizer of their scripts;
///  - microbatch: one sequence, but without a pipeline all sequences of a rank;
///  - chunks of a stage: two layers each, or one where the layers of a stage are odd;
///  - recomputation: none.
/// Megatron-LM computes the head's weight gradient with the others, so none is deferred.
RunPlan plan_of(const PublishedRun& run);

}  // namespace gptrain::test
