// The run spec that `gptrain new` writes.
#pragma once

#include <cstdint>
#include <string>

#include "search/run_size.h"

namespace gptrain {

/// Facts that the comments of the spec state, in addition to the run.
struct NewSpecNotes {
    std::string command;           ///< as the user could type it
    std::string prefix;            ///< of the data, as the user gave it
    std::string tokenizer;         ///< its path, or empty
    std::string hardware;          ///< the name of the profile
    std::int64_t data_tokens = 0;  ///< of one pass
    std::int64_t ranks = 1;
};

/// "12,000 parameters", of a mixture also how many a token uses.
std::string parameters_text(const SizedRun& run);

/// The limit of the model's size in words, such as "the memory".
std::string limit_text(const SizedRun& run);

/// A run spec (YAML) with the reason of each choice. Reading it returns run.spec, but for paths,
/// which stay as they were given.
std::string new_run_spec(const SizedRun& run, const NewSpecNotes& notes);

}  // namespace gptrain
