#include "inference.h"

#include <CLI/CLI.hpp>

#include "chat/chat_template.h"
#include "infer/inference.h"
#include "start.h"
#include "stored/open_model.h"

namespace gptrain {
namespace {

constexpr const char* template_kwargs_option = "--chat-template-kwargs";

void run_as_rank(const ModelOptions& options, Ranks& ranks,
                 const std::function<void(const InferenceRun&)>& work) {
    const MpiSession& session = ranks.session();
    ranks.check_same_program();
    ModelSource source = open_model(options.checkpoint, session, options.adapted);
    RunSpec spec;
    session.run_on_all([&] { spec = inference_spec(source, options.settings); });
    const RunTokenizer tokenizer(source, spec, options.tokenizer, session);
    const Start common = start(ranks, spec);
    const Device& device = common.device;
    const RunPlan& plan = common.plan;
    Observers observers(ranks.watch(spec, plan.mesh, device.cuda));
    observers.watchdog.progress().phase("load", 0);
    const Mesh mesh = open_mesh(device, session, plan.mesh, answer_connections(plan),
                                observers.comm, choose_peer_axes(device, session, plan));
    work({source, tokenizer, plan, *device.backend, mesh, session, observers});
}

}  // namespace

void add_checkpoint(CLI::App& command, std::string& checkpoint, const std::string& description,
                    const std::string& type) {
    const auto take = [&checkpoint](const std::vector<std::string>& given) {
        if (given.size() > 1)
            throw CLI::ValidationError("--checkpoint", "the first word is already one; give one");
        checkpoint = given.front();
    };
    command
        .add_option_function<std::vector<std::string>>(
            "checkpoint,--checkpoint", take,
            text(description, "; the first word, or with --checkpoint"))
        ->required()
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->type_name(type);
}

void add_adapted_option(CLI::App& command, ModelOptions& options) {
    command
        .add_option("--adapted", options.adapted,
                    "For an adapter: the folder of the model that it adapts, if that is not at the "
                    "run's init_from, or where an adapter of PEFT names it")
        ->type_name("DIR");
}

void add_tokenizer_option(CLI::App& command, ModelOptions& options) {
    command
        .add_option(
            "--tokenizer", options.tokenizer,
            "The tokenizer that the model was trained with, for checkpoints of older versions, "
            "which do not contain it")
        ->type_name("FILE");
}

CLI::Option* add_template_option(CLI::App& command, std::string& chat_template) {
    return command
        .add_option("--template", chat_template,
                    "How a conversation becomes text: a file with a Jinja template, or chatml, "
                    "llama3, mistral or plain; default: the model's own")
        ->type_name("FILE|NAME");
}

CLI::Option* add_template_kwargs_option(CLI::App& command, std::string& kwargs) {
    return command
        .add_option(template_kwargs_option, kwargs,
                    "Other variables for the template, as a JSON object such as "
                    "{\"enable_thinking\": false}")
        ->type_name("JSON");
}

Json template_kwargs(const std::string& given) {
    if (given.empty()) return Json::object();
    try {
        Json kwargs = parse_json(given, template_kwargs_option);
        check_template_kwargs(kwargs, template_kwargs_option);
        return kwargs;
    } catch (const Error& error) {
        throw Error(ExitCode::usage, error.what());
    }
}

void add_model_options(CLI::App& command, ModelOptions& options) {
    add_checkpoint(command, options.checkpoint,
                   "A checkpoint, its model.h5, an output directory (its newest valid "
                   "checkpoint), or a Hugging Face folder of a model or of an adapter (PEFT)",
                   "OUTPUT-DIR|CHECKPOINT|HF-DIR");
    add_adapted_option(command, options);
    add_tokenizer_option(command, options);
    command
        .add_option(
            "--set", options.settings,
            "Override the device (device=cpu), the precision (precision.compute=bf16) or the mesh "
            "(parallel.tensor=2); repeatable")
        ->type_name("KEY.PATH=VALUE")
        ->allow_extra_args(false);
}

ExitCode run_with_model(const ModelOptions& options,
                        const std::function<void(const InferenceRun&)>& work) {
    Ranks ranks;
    return ranks.run([&] {
        run_as_rank(options, ranks, work);
        return ExitCode::done;
    });
}

}  // namespace gptrain
