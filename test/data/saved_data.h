// The description of the data in a run's checkpoint.
#pragma once

#include <cstdint>

#include "data/training_data.h"

namespace gptrain::test {

/// The saved data of a run that has read `consumed` samples, the last ones with `length` tokens
/// each.
inline SavedData saved_after(const TrainingData& data, std::int64_t length, std::int64_t consumed) {
    SavedData saved;
    saved.num_samples = data.num_samples;
    saved.seq_length = length;
    saved.phase = data.phase;
    saved.consumed_samples = consumed;
    for (const SourceIdentity& source : data.train_sources) {
        saved.fingerprints.push_back(source.fingerprint);
        saved.weights.push_back(source.weight);
    }
    return saved;
}

}  // namespace gptrain::test
