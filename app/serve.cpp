#include "serve/serve.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "help/option_checks.h"
#include "infer/positions.h"
#include "inference.h"
#include "serve/listening_socket.h"

namespace gptrain {
namespace {

struct ServeCommand {
    ModelOptions model;
    std::string token_file;
    std::optional<std::int64_t> context;
    std::optional<std::int64_t> connections;
    std::int64_t seconds = 600;
    ServeOptions serve;
};

constexpr std::int64_t max_token_bytes = 4096;
// Without --context: more takes memory that few answers use.
constexpr std::int64_t serve_context = 2048;

/// The token in a file, without surrounding white space.
std::string read_token(const std::string& file) {
    constexpr auto blanks = " \t\r\n";
    const std::string contents = read_file(file, max_token_bytes);
    const std::size_t begin = contents.find_first_not_of(blanks);
    if (begin == contents.npos) fail(ExitCode::bad_input, file, ": holds no token");
    std::string token = contents.substr(begin, contents.find_last_not_of(blanks) + 1 - begin);
    if (token.find_first_of(blanks) != token.npos)
        fail(ExitCode::bad_input, file, ": a token must not contain white space");
    return token;
}

/// The run's name, or that of a Hugging Face model's folder.
std::string name_of(const ModelSource& source) {
    if (source.is_checkpoint()) return source.spec().name;
    return std::filesystem::canonical(source.folder()).filename().string();
}

ExitCode run_serve(const ServeCommand& options) {
    return run_with_model(options.model, [&](const InferenceRun& run) {
        ServeOptions serve_options = options.serve;
        serve_options.max_time = std::chrono::seconds(options.seconds);
        serve_options.http.connections =
            options.connections.value_or(needed_connections(serve_options));
        run.ranks.run_on_all([&] {
            require_causal(run.plan.objective, run.source.folder(), "generate text");
            serve_options.context = context_limit(run.plan.model, options.context, serve_context);
            if (serve_options.name.empty()) serve_options.name = name_of(run.source);
        });
        run.ranks.run_on_first([&] {
            if (!options.token_file.empty()) serve_options.token = read_token(options.token_file);
        });
        serve(run, serve_options);
    });
}

void add_limits(CLI::App& command, ServeCommand& options) {
    command
        .add_option("--answers", options.serve.answers,
                    "Answers that are written at the same time; each has a slot in the cache")
        ->check(whole_number(1, 1024))
        ->capture_default_str();
    command
        .add_option("--context", options.context,
                    "Tokens of a prompt with its answer; default: the model's, at most 2048")
        ->check(whole_number(2, std::int64_t{1} << 30));
    command
        .add_option("--waiting", options.serve.waiting,
                    "Answers that may wait for a slot; further requests get status 429")
        ->check(whole_number(0, std::int64_t{1} << 20))
        ->capture_default_str();
    command
        .add_option("--connections", options.connections,
                    "Connections at a time; more wait to be accepted; default: 64 more than "
                    "--answers and --waiting together")
        ->check(whole_number(1, std::int64_t{1} << 21));
    command
        .add_option("--max-body", options.serve.http.body_bytes,
                    "Largest body of a request, in bytes")
        ->check(whole_number(1, std::int64_t{1} << 30))
        ->capture_default_str();
    command
        .add_option("--read-seconds", options.serve.http.read_seconds,
                    "A client that takes longer to send its request is cut off")
        ->check(whole_number(1, 86400))
        ->capture_default_str();
    command
        .add_option("--answer-seconds", options.seconds,
                    "An answer that takes longer, including queueing, is cancelled")
        ->check(whole_number(1, 31536000))
        ->capture_default_str();
}

/// Error if it cannot listen there, or if anyone on the network could use the model.
void check_options(ServeCommand& options) {
    if (options.serve.host == "localhost") options.serve.host = "127.0.0.1";
    if (!is_address(options.serve.host)) {
        throw CLI::ValidationError("--host",
                                   text("'", options.serve.host,
                                        "' is not a numeric address; use 127.0.0.1, ::1 or the "
                                        "address of a network card"));
    }
    if (!options.token_file.empty() || is_loopback(options.serve.host)) return;
    throw CLI::ValidationError("--host",
                               "an address that other machines can reach needs --token-file FILE");
}

}  // namespace

void add_serve(CLI::App& app, Command& chosen) {
    CLI::App* command =
        app.add_subcommand("serve", "Serve a trained model over HTTP with OpenAI's API");
    auto options = std::make_shared<ServeCommand>();
    add_model_options(*command, options->model);
    command->add_option("--host", options->serve.host, "Address to listen on")
        ->type_name("ADDRESS")
        ->capture_default_str();
    command->add_option("--port", options->serve.port, "Port to listen on; 0: any free one")
        ->check(whole_number(0, 65535))
        ->capture_default_str();
    command
        ->add_option("--token-file", options->token_file,
                     "File with a token that clients must send (Authorization: Bearer TOKEN)")
        ->type_name("FILE");
    command
        ->add_option("--name", options->serve.name,
                     "The model's name; default: the run's, or the folder's")
        ->type_name("NAME");
    add_template_option(*command, options->serve.chat_template);
    add_limits(*command, *options);
    command->final_callback([&chosen, options] {
        check_options(*options);
        chosen = [options] { return run_serve(*options); };
    });
}

}  // namespace gptrain
