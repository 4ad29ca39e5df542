#include "answers/answer_search.h"

#include <algorithm>
#include <utility>

#include "base/parallel_for.h"
#include "infer/positions.h"
#include "search/space.h"

namespace gptrain {
namespace {

constexpr std::int64_t largest_batch = 4096;                        // of those searched
constexpr std::int64_t most_prompt_tokens = std::int64_t{1} << 28;  // of a batch

/// Everything about one mesh.
struct MeshAnswers {
    ParallelSpec mesh;
    std::string refused;
    std::vector<AnswerCost> fitting;
    std::vector<AnswerCost> too_large;  ///< at most one
};

void require_positions(const RunPlan& plan, const AnswerQuestion& question) {
    const std::int64_t positions = last_position(plan.model);
    if (question.prompt_tokens + question.new_tokens <= positions) return;
    fail(ExitCode::usage, "--prompt ", question.prompt_tokens, " --tokens ", question.new_tokens,
         ": the model has ", positions, " positions", source_of_positions(plan.model),
         "; ask for fewer tokens");
}

/// False if it does not fit.
bool add_batch(const SearchContext& context, const AnswerQuestion& question, std::int64_t batch,
               MeshAnswers& answers) {
    const AnswerShape shape = {question.prompt_tokens, question.new_tokens, batch};
    const RunPlan plan = answer_plan(context, answers.mesh, shape);
    AnswerCost cost = answer_memory(context, plan, shape);
    if (static_cast<double>(cost.required_bytes) > context.capacity) {
        answers.too_large.push_back(std::move(cost));
        return false;
    }
    time_answer(context, plan, cost);
    answers.fitting.push_back(std::move(cost));
    return true;
}

/// False for more tokens of prompts than a generator takes at a time: their ids fill a GiB.
bool can_read(const AnswerQuestion& question, std::int64_t batch) {
    return batch <= most_prompt_tokens / question.prompt_tokens;
}

void require_readable(const AnswerQuestion& question) {
    for (const std::int64_t batch : question.batches) {
        if (can_read(question, batch)) continue;
        fail(ExitCode::usage, "--batch ", batch, " with --prompt ", question.prompt_tokens,
             ": a copy of the model reads at most ", grouped(most_prompt_tokens),
             " tokens at a time; give fewer texts or shorter prompts");
    }
}

void price_mesh(const SearchContext& context, const AnswerQuestion& question,
                MeshAnswers& answers) {
    try {
        answer_plan(context, answers.mesh, {});
    } catch (const Error& error) {
        answers.refused = error.what();
        return;
    }
    if (question.batches.empty()) {
        for (std::int64_t batch = 1; batch <= largest_batch && can_read(question, batch);
             batch *= 2)
            if (!add_batch(context, question, batch, answers)) return;
        return;
    }
    std::vector<std::int64_t> batches = question.batches;
    std::sort(batches.begin(), batches.end());
    for (const std::int64_t batch : batches)
        if (!add_batch(context, question, batch, answers)) return;
}

std::vector<MeshAnswers> meshes_of(const AnswerQuestion& question, std::int64_t ranks) {
    std::vector<MeshAnswers> meshes;
    for (const std::int64_t tensor : dividing_values(question.tensor, ranks)) {
        for (const std::int64_t pipeline : dividing_values(question.pipeline, ranks / tensor)) {
            MeshAnswers answers;
            answers.mesh.tensor = tensor;
            answers.mesh.pipeline = pipeline;
            meshes.push_back(std::move(answers));
        }
    }
    return meshes;
}

/// Leaves those of which no other has a shorter answer and more tokens per second. `costs` are in
/// the order of their seconds.
void keep_best(std::vector<AnswerCost>& costs) {
    double most = 0;  // tokens per second so far
    std::erase_if(costs, [&](const AnswerCost& cost) {
        const double rate = cost.tokens_per_second();
        if (rate <= most) return true;
        most = rate;
        return false;
    });
}

}  // namespace

AnswerResult search_answers(const SearchContext& context, const AnswerQuestion& question) {
    require_positions(make_plan(context.spec, context.target), question);
    require_readable(question);
    std::vector<MeshAnswers> meshes = meshes_of(question, context.target.world_size);
    parallel_for(std::ssize(meshes), core_count(), [&](std::int64_t i) {
        price_mesh(context, question, meshes[static_cast<std::size_t>(i)]);
    });
    AnswerResult result;
    for (MeshAnswers& answers : meshes) {
        if (!answers.refused.empty()) {
            result.refused.push_back(
                {answers.mesh.tensor, answers.mesh.pipeline, std::move(answers.refused)});
        }
        for (AnswerCost& cost : answers.fitting) {
            result.least_seconds = std::min(result.least_seconds, cost.seconds());
            if (cost.seconds() <= question.max_seconds) result.best.push_back(std::move(cost));
        }
        std::move(answers.too_large.begin(), answers.too_large.end(),
                  std::back_inserter(result.too_large));
    }
    std::stable_sort(result.best.begin(), result.best.end(),
                     [](const AnswerCost& a, const AnswerCost& b) {
                         return std::pair(a.seconds(), -a.tokens_per_second()) <
                                std::pair(b.seconds(), -b.tokens_per_second());
                     });
    if (question.batches.empty()) keep_best(result.best);
    return result;
}

}  // namespace gptrain
