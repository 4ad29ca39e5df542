// The sources of a run, and what of each is used for training or validation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/mpi_session.h"
#include "data/indexed_dataset.h"
#include "data/split.h"
#include "spec/run_spec.h"

namespace gptrain {

struct OpenedSource {
    DataSource spec;  ///< with the prefix of the files
    std::shared_ptr<const IndexedDataset> tokens;
};

/// The part of a token data set used for training or validation.
struct SourcePart {
    std::shared_ptr<const IndexedDataset> tokens;
    SequenceRange range;
    double weight = 1.0;
    std::int64_t num_tokens = 0;
    std::int64_t learned_tokens = 0;
};

/// Checks and opens them; `ranks`, if given, open them together.
std::vector<OpenedSource> open_sources(const std::vector<DataSource>& specs,
                                       std::int64_t virtual_tokens, const MpiSession* ranks);

/// With sources for validation every source is used whole.
std::optional<DataSplit> split_of(const DataSpec& spec);

/// Without a split every source is used whole. All `ranks`, if given, call it together within
/// run_on_all, and share the counting.
std::vector<SourcePart> parts_of(const std::vector<OpenedSource>& sources,
                                 const std::optional<DataSplit>& split, DataSplit::Part part,
                                 const MpiSession* ranks);

std::int64_t tokens_of(const std::vector<SourcePart>& parts);
std::int64_t learned_tokens_of(const std::vector<SourcePart>& parts);

}  // namespace gptrain
