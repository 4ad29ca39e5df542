// The options of `gptrain new` and all that follows from them for any run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/indexed_dataset.h"
#include "hardware/profile.h"
#include "memory_headroom.h"

namespace gptrain {

struct NewOptions {
    std::string data;
    std::string tokenizer;
    std::string model;  ///< folder of the model to fine-tune; empty: a new model
    std::string way;    ///< to train that model
    std::string host_memory;
    std::optional<double> hours;
    std::optional<std::int64_t> tokens;
    std::optional<std::int64_t> experts;
    std::string device;
    std::optional<std::int64_t> ranks;  ///< default: 1
    std::string hardware;
    std::string memory_headroom = std::string(default_headroom);
    std::string output;

    std::int64_t rank_count() const { return ranks.value_or(1); }
};

/// The profile that --hardware and --device name. Error (usage) if they disagree or too few cores
/// are there.
HardwareProfile hardware_of(const NewOptions& options);

/// The usual share of the data to validate with, or less if that is more tokens than a validation
/// needs, but one document at least: "95,5,0".
std::string split_of(const IndexedDataset& data);

/// The tokenizer given or, where its file lies next to the token files, the one that made them;
/// else empty.
std::string tokenizer_of(const NewOptions& options, const IndexedDataset& data);

/// "stories" of data/stories_text_document, or of the file to write.
std::string name_of_run(const NewOptions& options);

/// The file to write.
std::string output_of(const NewOptions& options);
/// Error (usage) unless the file can be written.
void check_output(const std::string& output);

/// The command as a user could type it.
std::string shown_command(const NewOptions& options);

/// `gptrain new --model`: a run spec that trains a model that exists.
ExitCode write_tuning_spec(NewOptions options);

}  // namespace gptrain
