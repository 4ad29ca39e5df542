// The options of `gpt-preprocess` that name a corpus and say how to read it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "corpus.h"

namespace gptrain {

/// A choice of words. No description: the help's type names already list them.
CLI::Validator one_of(std::vector<std::string> words);
/// A whole number, also without a description.
CLI::Validator in_range(std::int64_t low, std::int64_t high);

/// The corpus options of one (sub)command, and the values given for its choices.
struct CorpusArguments {
    CorpusOptions options;
    std::string format = "auto";
    std::string documents = "paragraph";
    std::string on_error = "stop";
    CLI::Option* documents_option = nullptr;
    CLI::Option* json_key_option = nullptr;

    void add_to(CLI::App& app);
    /// Adds the options for a corpus that is always JSON lines.
    void add_json_lines_to(CLI::App& app);
    /// The file `tokenizer` is no corpus file of a folder.
    CorpusOptions resolved(const std::string& tokenizer = "") const;
    CorpusOptions resolved_json_lines(const std::string& tokenizer) const;

private:
    void add_input(CLI::App& app, const char* help);
    void add_fault_options(CLI::App& app);
};

}  // namespace gptrain
