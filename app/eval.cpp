#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "help/option_checks.h"
#include "infer/evaluate.h"
#include "infer/evaluate_tasks.h"
#include "inference.h"
#include "spec/spec_rules.h"
#include "task_report.h"
#include "tasks/load_task.h"

namespace gptrain {
namespace {

struct EvalCommand {
    ModelOptions model;
    EvaluationData data;
    std::vector<std::string> tasks;
    TaskUse use;
    bool chat = false;
    std::string chat_template;
    std::string template_kwargs;
    TaskReportFiles files;
};

void evaluate_data(const InferenceRun& run, const EvaluationData& data) {
    const EvaluationResult result = evaluate(run, data, [](std::int64_t done, std::int64_t total) {
        show_status(text("evaluated ", done, " of ", total, " batches"));
    });
    print(to_line(
        {{"loss", result.loss}, {"perplexity", result.perplexity}, {"tokens", result.tokens}}));
}

/// The data with the file of the tokenizer, which may lie among the texts of a folder.
EvaluationData with_tokenizer(const EvalCommand& options, const ModelSource& source) {
    EvaluationData data = options.data;
    data.tokenizer = options.model.tokenizer;
    if (data.tokenizer.empty() && source.whole().is_checkpoint())
        data.tokenizer = source.spec().data.tokenizer.value_or("");
    return data;
}

void evaluate_on_tasks(const InferenceRun& run, const EvalCommand& options) {
    std::vector<Task> tasks;
    std::optional<TaskChatOptions> chat;
    run.ranks.run_on_all([&] {
        if (options.chat) {
            chat = {.chat_template = options.chat_template,
                    .template_kwargs = template_kwargs(options.template_kwargs)};
        }
        require_causal(run.plan.objective, run.source.folder(), "answer tasks");
        tasks = load_tasks(options.tasks, "--task");
        check_task_files(options.files);
    });
    const std::vector<TaskResult> results =
        evaluate_tasks(run, tasks, options.use, chat, task_progress_bar());
    run.ranks.run_on_first([&] { report_tasks(results, options.files); });
}

ExitCode run_eval(const EvalCommand& options) {
    return run_with_model(options.model, [&](const InferenceRun& run) {
        if (options.tasks.empty()) {
            evaluate_data(run, with_tokenizer(options, run.source));
        } else {
            evaluate_on_tasks(run, options);
        }
    });
}

void add_task_options(CLI::App& command, EvalCommand& options) {
    CLI::Option* task =
        command
            .add_option("--task", options.tasks,
                        text("Tasks: files (docs/evaluation.md), or ", choice_of(task_names())))
            ->type_name("FILE|NAME");
    command
        .add_option("--task-data", options.use.folder,
                    "The folder of the tasks' data files (default: that of the task's file)")
        ->type_name("DIR")
        ->needs(task);
    command.add_option("--limit", options.use.limit, "Only the first N documents of each task")
        ->check(whole_number(1, std::int64_t{1} << 40))
        ->needs(task);
    command
        .add_option("--few-shot", options.use.few_shot,
                    "Solved examples before each question (default: the task's)")
        ->check(whole_number(0, 1000))
        ->needs(task);
    CLI::Option* chat =
        command
            .add_flag("--chat", options.chat,
                      "The question, with its examples, is a user's turn that the model answers "
                      "(tasks with a prompt)")
            ->needs(task);
    add_template_option(command, options.chat_template)->needs(chat);
    add_template_kwargs_option(command, options.template_kwargs)->needs(chat);
    command.add_option("--json", options.files.json, "Write the results of tasks as JSON")
        ->type_name("FILE")
        ->needs(task);
    command
        .add_option("--details", options.files.details,
                    "Write a JSON line for each document of the tasks")
        ->type_name("FILE")
        ->needs(task);
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "eval",
        "Measure a trained model: its loss on a text, or its results on tasks; the last line of "
        "stdout is a JSON object");
    auto options = std::make_shared<EvalCommand>();
    add_model_options(*command, options->model);
    command
        ->add_option(
            "--data", options->data.path,
            "Prefix of a token data set (.bin and .idx); or a text file: Parquet if named "
            ".parquet, JSON lines if named .jsonl, .json, .ndjson or .jsonlines, otherwise plain "
            "text; .gz and .zst are decompressed; or a folder of text files")
        ->type_name("PREFIX|FILE|DIR");
    command
        ->add_option("--json-key", options->data.json_key,
                     "JSON lines, Parquet: the key or column of the text (default: text)")
        ->type_name("KEY");
    command
        ->add_option("--split", options->data.folder.split,
                     "Of a folder that holds a data set with several splits: the one to read, or "
                     "all")
        ->type_name("NAME");
    command
        ->add_option("--subset", options->data.folder.subset,
                     "Of a data set with several subsets (configs of its README.md): the one to "
                     "read")
        ->type_name("NAME");
    add_task_options(*command, *options);
    command->final_callback([&chosen, options] {
        if (options->data.path.empty() == options->tasks.empty())
            throw CLI::ValidationError("give either --data or --task");
        if (options->data.json_key && options->data.path.empty())
            throw CLI::ValidationError("--json-key", "goes with --data");
        if (options->data.path.empty()) require_folder(options->data.folder, false);
        chosen = [options] { return run_eval(*options); };
    });
}

}  // namespace gptrain
