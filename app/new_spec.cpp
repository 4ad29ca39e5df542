#include "new_spec.h"

#include <algorithm>

#include "base/text.h"
#include "spec/spec_settings.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

/// "  key: value", with a comment at column 34.
std::string commented(std::string_view key, const std::string& value, std::string_view comment) {
    constexpr std::size_t column = 34;
    std::string line = text("  ", key, ": ", value);
    if (!comment.empty()) {
        line.resize(std::max(line.size() + 1, column), ' ');
        line += text("# ", comment);
    }
    return line + "\n";
}

std::string head_text(const SizedRun& run, const NewSpecNotes& notes) {
    const std::string time = human_time(run.estimate.days * 86400);
    return text("# Written by: ", notes.command, "\n# ", parameters_text(run), ", trained on ",
                grouped(run.tokens), " tokens in about ", time, " on ",
                counted(notes.ranks, "rank"), "\n# (", notes.hardware,
                "). The model's size is limited by ", limit_text(run),
                ".\n# docs/run-spec.md has all keys; `gptrain plan --calibrate` measures a machine "
                "for better estimates.\n");
}

std::string experts_text(const ExpertsSpec& experts) {
    return text("  experts:\n", commented("  count", text(experts.count), "experts of a layer"),
                commented("  per_token", text(experts.per_token), "that each token uses"),
                commented("  ffn_hidden_size", text(experts.ffn_hidden_size),
                          "together as wide as ffn_hidden_size"));
}

std::string model_text(const ModelSpec& model) {
    return text("model:\n", commented("num_layers", text(model.num_layers), ""),
                commented("hidden_size", text(model.hidden_size), ""),
                commented("num_attention_heads", text(model.num_attention_heads), ""),
                commented("ffn_hidden_size", text(model.ffn_hidden_size.value_or(0)),
                          "8/3 hidden_size: SwiGLU has three matrices"),
                commented("vocab_size", text(model.vocab_size), "pieces of the tokenizer"),
                commented("position_embedding", std::string(name_of(model.position_embedding)),
                          "this and the rest as in Llama"),
                commented("normalization", std::string(name_of(model.normalization)), ""),
                commented("activation", std::string(name_of(model.activation)), ""),
                commented("bias", text(model.bias), ""),
                model.experts ? experts_text(*model.experts) : "");
}

std::string data_text(const DataSpec& data, const NewSpecNotes& notes) {
    std::string out =
        text("data:\n  train: [{prefix: ", word_or_quotes(notes.prefix), "}]\n",
             commented("split", in_quotes(data.split), "% to train on, to validate with, unused"));
    if (!notes.tokenizer.empty())
        out += commented("tokenizer", word_or_quotes(notes.tokenizer), "");
    return out;
}

std::string training_text(const SizedRun& run, const NewSpecNotes& notes) {
    const TrainingSpec& training = run.spec.training;
    const double passes = static_cast<double>(run.tokens) /
                          static_cast<double>(std::max<std::int64_t>(1, notes.data_tokens));
    return text(
        "training:\n", commented("seq_length", text(training.seq_length), "tokens of a sample"),
        commented("micro_batch_size", text(training.micro_batch_size),
                  "samples at a time: fastest within the memory"),
        commented("global_batch_size", text(*training.global_batch_size), "samples of a step"),
        commented(
            "steps", text(training.steps),
            text(significant(passes, 3), " passes over ", grouped(notes.data_tokens), " tokens")),
        commented("eval_interval", text(training.eval_interval), ""),
        commented("eval_steps", text(training.eval_steps), ""));
}

/// The mesh keys that differ from their defaults.
std::string mesh_text(const RunSpec& spec) {
    constexpr std::string_view section = "parallel.";
    RunSpec plain = spec;
    plain.parallel = {};
    if (spec.parallel.tensor == 1) plain.parallel.overlap_tensor = spec.parallel.overlap_tensor;
    std::string out;
    for (const std::string& setting : changed_keys(plain, spec)) {
        if (!setting.starts_with(section)) continue;
        const std::size_t equals = setting.find('=');
        if (out.empty())
            out = "parallel:                         # the fastest mesh by the estimate\n";
        out += commented(setting.substr(section.size(), equals - section.size()),
                         setting.substr(equals + 1), "");
    }
    return out;
}

}  // namespace

std::string parameters_text(const SizedRun& run) {
    if (run.parameters == run.active) return text(grouped(run.parameters), " parameters");
    return text(grouped(run.parameters),
                " parameters, of which each token uses as many as a model of ",
                grouped(run.active));
}

std::string limit_text(const SizedRun& run) {
    switch (run.limit) {
        case SizeLimit::tokens: {
            const std::string budget =
                text("the token budget (", tokens_per_parameter, " tokens per parameter)");
            const double needed = tokens_per_parameter * static_cast<double>(run.active);
            if (static_cast<double>(run.tokens) >= needed) return budget;
            return text("the smallest size that gptrain new suggests; ", budget,
                        " is for a smaller one");
        }
        case SizeLimit::time: return "the time budget";
        case SizeLimit::memory: return "the memory";
        case SizeLimit::largest: return "the largest size that gptrain new suggests";
    }
    return "";
}

std::string new_run_spec(const SizedRun& run, const NewSpecNotes& notes) {
    const RunSpec& spec = run.spec;
    return text(
        head_text(run, notes), "name: ", word_or_quotes(spec.name),
        "\noutput_dir: ", word_or_quotes("runs/" + spec.name), "\ndevice: ", name_of(spec.device),
        "\n", model_text(spec.model), data_text(spec.data, notes), training_text(run, notes),
        mesh_text(spec), "recompute: ", name_of(spec.recompute), "\noptimizer:\n",
        commented("lr", scientific(spec.optimizer.lr, 1),
                  "by a scaling law; lower it if the loss jumps"),
        "lr_schedule:\n", commented("kind", std::string(name_of(spec.lr_schedule.kind)), ""),
        commented("warmup_steps", text(spec.lr_schedule.warmup_steps), ""),
        commented("min_lr", scientific(spec.lr_schedule.min_lr, 2), ""), "checkpoint:\n",
        commented("interval", text(spec.checkpoint.interval), "steps"), "logging:\n",
        commented("interval", text(spec.logging.interval), "steps"));
}

}  // namespace gptrain
