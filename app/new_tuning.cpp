// gptrain new --model: a run spec that trains a model that exists, in a way that the machine
// allows.
#include <algorithm>

#include "base/log.h"
#include "base/output_file.h"
#include "commands.h"
#include "data/training_data.h"
#include "help/shell_text.h"
#include "model_ways.h"
#include "new_options.h"
#include "search/size_rules.h"
#include "spec/spec_settings.h"

namespace gptrain {
namespace {

/// Passes over the data: more help little, and the model forgets what it knew.
constexpr std::int64_t tuning_passes = 3;
/// Of all weights, as in Stanford Alpaca (2023).
constexpr double full_lr = 2.0e-5;
/// Of an adapter (Dettmers et al. 2023, arXiv 2305.14314).
constexpr double adapter_lr = 2.0e-4;

/// Steps, learning rate and intervals for so many tokens.
void set_training(RunSpec& spec, std::int64_t tokens) {
    const std::int64_t step_tokens = *spec.training.global_batch_size * spec.training.seq_length;
    const std::int64_t steps = std::max<std::int64_t>(1, tokens / step_tokens);
    set_steps(spec, steps);
    spec.optimizer.lr = spec.adapter ? adapter_lr : full_lr;
    spec.optimizer.weight_decay = 0;
    spec.lr_schedule.warmup_steps = std::max<std::int64_t>(1, steps * 3 / 100);
}

/// The keys in which `spec` differs from the defaults, and those of the model.
std::string spec_text(const RunSpec& spec) {
    YamlNode root(YamlNode::Kind::map, {});
    for (const std::string& setting : changed_keys(RunSpec(), spec))
        apply_setting(root, setting);
    return to_yaml(root);
}

const WayOutcome& chosen(const WaysAnswer& answer, const NewOptions& options,
                         const std::string& hardware) {
    const auto fits = std::find_if(answer.outcomes.begin(), answer.outcomes.end(),
                                   [](const WayOutcome& each) { return each.fastest.has_value(); });
    if (fits != answer.outcomes.end()) return *fits;
    fail(ExitCode::usage, "new: ", options.model, " cannot be trained on ", hardware,
         options.way.empty() ? " in any of these ways" : " so",
         "; use more --ranks, other --hardware or a smaller model");
}

}  // namespace

ExitCode write_tuning_spec(NewOptions options) {
    require_token_files(options.data);
    options.output = output_of(options);
    check_output(options.output);
    const IndexedDataset data(options.data);
    const HardwareProfile hardware = hardware_of(options);
    const WaysAnswer answer = try_ways({.model = options.model,
                                        .host_memory = options.host_memory,
                                        .hardware = hardware,
                                        .headroom = headroom_share(options.memory_headroom),
                                        .ranks = options.rank_count()},
                                       options.way);
    print_raw(answer.table);
    const WayOutcome& way = chosen(answer, options, hardware.name);
    RunSpec spec = way.spec;
    spec.name = name_of_run(options);
    spec.output_dir = "runs/" + spec.name;
    spec.data.train = {{.prefix = options.data}};
    spec.data.split = split_of(data);
    const std::string tokenizer = tokenizer_of(options, data);
    if (!tokenizer.empty()) spec.data.tokenizer = tokenizer;
    const std::int64_t pass = count_training_tokens(spec.data).value_or(0);
    set_training(spec, options.tokens.value_or(tuning_passes * pass));
    const double seconds =
        static_cast<double>(spec.training.steps) * way.fastest->estimate.step.seconds;
    write_output_file(options.output, text("# Written by: ", shown_command(options), "\n# ",
                                           way.way->words, ", about ", human_time(seconds), " on ",
                                           hardware.name, ".\n", spec_text(spec)));
    print(options.output, ": ", way.way->words, ", ", counted(spec.training.steps, "step"),
          ", about ", human_time(seconds));
    const std::int64_t ranks = options.rank_count();
    print("train with: ", ranks > 1 ? text("mpirun -n ", ranks, " ") : "", "gptrain train ",
          shell_word(options.output));
    return ExitCode::done;
}

}  // namespace gptrain
