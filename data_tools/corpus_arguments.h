// The options of `gpt-preprocess` that name a corpus and say how to read it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "corpus.h"

namespace gptrain {

/// The corpus options of one (sub)command, and the values given for its choices.
struct CorpusArguments {
    CorpusOptions options;
    std::string format = "auto";
    std::string documents = "paragraph";
    std::string on_error = "stop";
    CLI::Option* documents_option = nullptr;
    CLI::Option* json_key_option = nullptr;

    void add_to(CLI::App& app);
    /// Of a corpus that is JSON lines in any case.
    void add_json_lines_to(CLI::App& app);
    CorpusOptions resolved() const;
    CorpusOptions resolved_json_lines() const;

private:
    void add_input(CLI::App& app, const char* help);
    void add_fault_options(CLI::App& app);
};

}  // namespace gptrain
