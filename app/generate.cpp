#include "infer/generate.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/utf8.h"
#include "help/option_checks.h"
#include "infer/chat.h"
#include "infer/positions.h"
#include "inference.h"
#include "lines.h"

namespace gptrain {
namespace {

struct GenerateCommand {
    ModelOptions model;
    std::optional<std::string> prompt;
    std::string prompt_file;
    bool piped = false;  ///< the prompt is stdin, without the end of its last line
    bool chat = false;
    std::string chat_template;
    std::string template_kwargs;
    std::string system;
    std::optional<std::int64_t> max_tokens;
    std::optional<std::int64_t> context;
    GenerateOptions generate;
};

constexpr std::int64_t max_prompt_bytes = std::int64_t{64} << 20;
// The positions of texts of unknown length, without --context: more would take memory that few
// conversations use.
constexpr std::int64_t generate_context = 8192;

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

CLI::Validator stop_text() {
    const auto check = [](const std::string& word) {
        if (word.empty()) return std::string("a stop text must not be empty");
        if (find_invalid_utf8(word) == word.npos) return std::string();
        return std::string("a stop text must be UTF-8");
    };
    return {check, ""};
}

bool is_interactive() {
    return stdin_is_terminal() && stdout_is_terminal();
}

/// Removes the line end that `echo` and editors write behind a text. Error if nothing is left.
void take_line_end(std::string& prompt) {
    if (prompt.ends_with('\n')) prompt.pop_back();
    if (prompt.ends_with('\r')) prompt.pop_back();
    if (prompt.empty())
        fail(ExitCode::usage, "stdin holds no prompt; for a new document give --prompt ''");
}

/// The prompt of the command line, on rank 0; nothing if lines of stdin are the prompts.
std::optional<std::string> given_prompt(const GenerateCommand& options, const InferenceRun& run) {
    std::optional<std::string> prompt = options.prompt;
    run.ranks.run_on_first([&] {
        const std::string& file = options.prompt_file;
        if (file.empty()) return;
        prompt = read_any_file(file, max_prompt_bytes);
        if (options.piped) take_line_end(*prompt);
        if (const std::size_t at = find_invalid_utf8(*prompt); at != prompt->npos)
            fail(ExitCode::bad_input, file == "-" ? "stdin" : file, ": is not UTF-8 at byte ", at);
    });
    return prompt;
}

/// Calls `take` with each line of rank 0's stdin, on all ranks. On a terminal it asks for lines, an
/// Error in one does not end the loop, and Ctrl-C ends only the text being written.
void for_each_line(const InferenceRun& run,
                   const std::function<void(const std::string& line, const Reader& reader)>& take) {
    StdinLines lines;
    const bool interactive = is_interactive();
    while (true) {
        std::optional<std::string> line;
        run.ranks.run_on_first([&] {
            if (interactive) print_raw("> ");
            line = lines.next();
        });
        const std::string common = run.ranks.broadcast(line ? text("+", *line) : "");
        if (common.empty()) break;
        if (!interactive) {
            take(common.substr(1), {.show = print_raw, .enough = {}});
            continue;
        }
        if (common == "+") continue;
        const CatchInterrupt interrupt;
        try {
            take(common.substr(1),
                 {.show = print_raw, .enough = [&] { return interrupt.caught(); }});
        } catch (const Error& error) {
            if (error.code() != ExitCode::usage && error.code() != ExitCode::bad_input) throw;
            warn(error.what());
        }
    }
    if (interactive) print_raw("\n");
}

void run_chat(const GenerateCommand& options, const InferenceRun& run) {
    ChatOptions chat_options = {.chat_template = options.chat_template,
                                .template_kwargs = template_kwargs(options.template_kwargs),
                                .system = options.system,
                                .positions = 0,
                                .sampling = options.generate.write.sampling,
                                .stop = options.generate.write.stop,
                                .max_tokens = options.max_tokens};
    run.ranks.run_on_all([&] {
        chat_options.positions = context_limit(run.plan.model, options.context, generate_context);
    });
    Chat chat(run, chat_options);
    const std::optional<std::string> prompt = given_prompt(options, run);
    if (options.prompt || !options.prompt_file.empty()) {
        chat.answer(run.ranks.broadcast(prompt.value_or("")), {.show = print_raw, .enough = {}});
        return;
    }
    for_each_line(
        run, [&](const std::string& line, const Reader& reader) { chat.answer(line, reader); });
}

void run_prompts(const GenerateCommand& options, const InferenceRun& run) {
    GenerateOptions generate_options = options.generate;
    if (options.max_tokens) generate_options.write.max_tokens = *options.max_tokens;
    if (options.prompt || !options.prompt_file.empty()) {
        const std::optional<std::string> prompt = given_prompt(options, run);
        generate_options.echo = stdout_is_terminal();
        generate(run, prompt.value_or(""), generate_options, {.show = print_raw, .enough = {}});
        return;
    }
    std::int64_t positions = 0;
    run.ranks.run_on_all(
        [&] { positions = context_limit(run.plan.model, options.context, generate_context); });
    PromptLoop loop(run, positions);
    std::int64_t turn = 0;
    for_each_line(run, [&](const std::string& line, const Reader& reader) {
        loop.continue_prompt(line, turn++, generate_options, reader);
    });
}

ExitCode run_generate(const GenerateCommand& options) {
    return run_with_model(options.model, [&](const InferenceRun& run) {
        run.ranks.run_on_all(
            [&] { require_causal(run.plan.objective, run.source.folder(), "generate text"); });
        if (options.chat) {
            run_chat(options, run);
        } else {
            run_prompts(options, run);
        }
    });
}

void add_sampling_options(CLI::App& command, SamplingOptions& sampling) {
    command.add_option("--temperature", sampling.temperature, "0: always the most likely token")
        ->check(number_between(0, 1e6))
        ->capture_default_str();
    command.add_option("--top-k", sampling.top_k, "Sample from the K most likely tokens; 0: all")
        ->check(whole_number(0, std::int64_t{1} << 24))
        ->capture_default_str();
    command
        .add_option("--top-p", sampling.top_p,
                    "Sample from the most likely tokens whose probabilities add up to P")
        ->check(number_between(0, 1))
        ->capture_default_str();
    command
        .add_option("--min-p", sampling.min_p,
                    "Sample from tokens at least P times as likely as the most likely one")
        ->check(number_between(0, 1))
        ->capture_default_str();
    command
        .add_option("--repetition-penalty", sampling.repetition_penalty,
                    "Make tokens of the prompt and the output less likely; 1: off")
        ->check(number_between(0.01, 100))
        ->capture_default_str();
    command.add_option("--seed", sampling.seed, "The same seed gives the same text")
        ->check(seed())
        ->capture_default_str();
}

void add_chat_options(CLI::App& command, GenerateCommand& options) {
    CLI::Option* chat = command.add_flag(
        "--chat", options.chat,
        "Talk to the model in turns: the prompt, or each line of stdin, is a turn");
    add_template_option(command, options.chat_template)->needs(chat);
    add_template_kwargs_option(command, options.template_kwargs)->needs(chat);
    command
        .add_option("--system", options.system, "System message: what the assistant is told first")
        ->type_name("TEXT")
        ->needs(chat);
    command
        .add_option("--context", options.context,
                    "Tokens of a conversation, or of a prompt from the terminal with its "
                    "continuation; default: the model's, at most 8192")
        ->type_name("N")
        ->check(whole_number(2, std::int64_t{1} << 30));
}

/// Without a prompt, stdin is one unless it is a terminal. Error if the options leave open what to
/// write, or contradict each other.
void settle_options(GenerateCommand& options) {
    const bool is_given = options.prompt || !options.prompt_file.empty() || options.chat;
    if (!is_given && !is_interactive()) {
        if (stdin_is_terminal()) throw CLI::RequiredError("--prompt, --prompt-file or --chat");
        options.prompt_file = "-";
        options.piped = true;
    }
    const bool has_prompt = options.prompt || !options.prompt_file.empty();
    if (options.generate.samples > 1 && options.chat)
        throw CLI::ValidationError("--samples", "does not go with --chat");
    if (options.context && has_prompt && !options.chat)
        throw CLI::ValidationError("--context", "does not go with a prompt; see --max-tokens");
}

}  // namespace

void add_generate(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
    auto options = std::make_shared<GenerateCommand>();
    add_model_options(*command, options->model);
    CLI::Option* prompt =
        command->add_option("--prompt", options->prompt,
                            "Text to continue (token ids for a run without a tokenizer); empty: a "
                            "new document; default: what a pipe brings, or prompts typed on a "
                            "terminal");
    command
        ->add_option("--prompt-file", options->prompt_file,
                     "File with the text to continue; -: standard input")
        ->type_name("FILE")
        ->excludes(prompt);
    command
        ->add_option("--max-tokens", options->max_tokens,
                     "Maximum number of tokens to generate; default: 100, with --chat as many as "
                     "there is room for")
        ->check(whole_number(0, std::int64_t{1} << 24));
    command
        ->add_option("--stop", options->generate.write.stop,
                     "Text before which the output ends; repeatable")
        ->type_name("TEXT")
        ->check(stop_text())
        ->allow_extra_args(false);
    command->add_option("--samples", options->generate.samples, "Continuations of each prompt")
        ->check(whole_number(1, std::int64_t{1} << 20))
        ->capture_default_str();
    add_sampling_options(*command, options->generate.write.sampling);
    add_chat_options(*command, *options);
    command->final_callback([&chosen, options] {
        settle_options(*options);
        chosen = [options] { return run_generate(*options); };
    });
}

}  // namespace gptrain
