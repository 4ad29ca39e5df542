#include "infer/generate.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "inference.h"

namespace gptrain {
namespace {

struct Options {
    ModelOptions model;
    std::string prompt;
    std::string prompt_file;
    GenerateOptions generate;
};

constexpr std::int64_t max_prompt_bytes = std::int64_t{64} << 20;

/// Accepts numbers from low to high; rejects NaN.
CLI::Validator number_between(double low, double high) {
    const auto check = [=](const std::string& word) {
        const auto value = parse_double(word);
        if (value && *value >= low && *value <= high) return std::string();
        return text("'", word, "' is not a number from ", low, " to ", high);
    };
    return {check, ""};
}

CLI::Validator seed() {
    const auto check = [](const std::string& word) {
        std::uint64_t value = 0;
        const char* end = word.data() + word.size();
        const auto [stop, error] = std::from_chars(word.data(), end, value);
        if (error == std::errc() && stop == end) return std::string();
        return text("'", word, "' is not a whole number from 0 to ", UINT64_MAX);
    };
    return {check, ""};
}

ExitCode run_generate(const Options& options) {
    return run_with_model(options.model, [&](const InferenceRun& run) {
        std::string prompt = options.prompt;
        run.ranks.run_on_first([&] {
            if (!options.prompt_file.empty())
                prompt = read_file(options.prompt_file, max_prompt_bytes);
        });
        GenerateOptions generate_options = options.generate;
        generate_options.echo = stdout_is_terminal();
        generate(run, prompt, generate_options, print_raw);
        print_raw("\n");
    });
}

}  // namespace

void add_generate(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
    auto options = std::make_shared<Options>();
    SamplingOptions& sampling = options->generate.sampling;
    add_model_options(*command, options->model);
    CLI::Option* prompt = command->add_option("--prompt", options->prompt,
                                              "Text to continue (token ids for a run without a "
                                              "tokenizer); empty: a new document");
    CLI::Option* prompt_file =
        command->add_option("--prompt-file", options->prompt_file, "File with the text to continue")
            ->type_name("FILE")
            ->excludes(prompt);
    command
        ->add_option("--max-tokens", options->generate.max_tokens,
                     "Maximum number of tokens to generate")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24))
        ->capture_default_str();
    command->add_option("--temperature", sampling.temperature, "0: always the most likely token")
        ->check(number_between(0, 1e6))
        ->capture_default_str();
    command->add_option("--top-k", sampling.top_k, "Sample from the K most likely tokens; 0: all")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24))
        ->capture_default_str();
    command
        ->add_option("--top-p", sampling.top_p,
                     "Sample from the most likely tokens whose probabilities add up to P")
        ->check(number_between(0, 1))
        ->capture_default_str();
    command->add_option("--seed", sampling.seed, "The same seed gives the same text")
        ->check(seed())
        ->capture_default_str();
    command->final_callback([&chosen, options, prompt, prompt_file] {
        if (prompt->empty() && prompt_file->empty()) {
            throw CLI::RequiredError("--prompt or --prompt-file");
        }
        chosen = [options] { return run_generate(*options); };
    });
}

}  // namespace gptrain
