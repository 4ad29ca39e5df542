#include "answers/answer_report.h"
#include "base/log.h"
#include "base/output_file.h"
#include "infer/inference.h"
#include "plan_problem.h"

namespace gptrain {
namespace {

constexpr IntRange batch_sizes = {1, std::int64_t{1} << 24};

AnswerQuestion question_of(const PlanOptions& options, const RunSpec& spec) {
    for (const std::string& setting : options.fixed) {
        const FixedKey fixed = parse_fixed_key(setting);
        if (fixed.key == "parallel.tensor" || fixed.key == "parallel.pipeline") continue;
        fail(ExitCode::usage, "--fix ", setting,
             ": --inference varies parallel.tensor and parallel.pipeline only");
    }
    RunSpec batched = spec;  // the search for training wants a batch
    batched.training.global_batch_size = 1;
    const SearchSpace space = limited_space(options, batched);
    AnswerQuestion question = {.prompt_tokens = options.prompt,
                               .new_tokens = options.tokens,
                               .batches = {},
                               .tensor = space.tensor,
                               .pipeline = space.pipeline};
    if (!options.batch.empty())
        question.batches = parse_sizes("--batch", options.batch, batch_sizes);
    if (options.max_latency) question.max_seconds = *options.max_latency;
    return question;
}

}  // namespace

ExitCode plan_inference(const PlanOptions& options) {
    const std::vector<std::int64_t> sizes =
        parse_sizes("--world-size", options.world_size, rank_counts);
    if (sizes.size() > 1) {
        fail(ExitCode::usage, "--world-size ", options.world_size,
             ": --inference takes one number of ranks");
    }
    PlanProblem problem = read_problem(options);
    require_causal(problem.spec.objective, options.config, "generate text");
    const AnswerQuestion question = question_of(options, problem.spec);
    problem.spec = without_training(std::move(problem.spec));
    problem.spec.locations = {};
    const SearchContext context = context_of(problem, sizes.front());
    const AnswerResult result = search_answers(context, question);
    print_raw(to_text(result, question, context));
    if (!options.json.empty()) write_output_file(options.json, to_json(result, question, context));
    if (result.best.empty() && result.least_seconds == std::numeric_limits<double>::infinity()) {
        fail(ExitCode::usage, options.config, ": no mesh of ", context.target.world_size,
             " ranks fits on ", problem.hardware.name,
             "; use more ranks (--world-size) or fewer texts at a time (--batch)");
    }
    return ExitCode::done;
}

}  // namespace gptrain
