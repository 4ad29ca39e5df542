#include "answers/answer_report.h"

#include <array>
#include <cmath>

#include "base/json.h"
#include "search/search_report.h"
#include "search/table_text.h"

namespace gptrain {
namespace {

constexpr std::array<std::size_t, 9> widths = {6, 4, 4, 6, 9, 10, 10, 10, 7};

std::string row(const std::array<std::string, widths.size()>& cells, std::string_view last) {
    return row_of_cells(cells, widths, last);
}

std::string row_of(const AnswerCost& cost) {
    const std::string cache = gib(static_cast<double>(cost.cache_bytes));
    return row(
        {text(cost.mesh.data), text(cost.mesh.tensor), text(cost.mesh.pipeline),
         text(cost.shape.batch), plain_seconds(cost.first_seconds),
         cost.shape.new_tokens > 1 ? decimals(1e3 * cost.next.seconds, 2) : "-",
         plain_seconds(cost.seconds()), human_count(cost.tokens_per_second()),
         gib(static_cast<double>(cost.required_bytes))},
        text(cache, " GiB", cost.shape.new_tokens > 1 ? text("  ", largest_loss(cost.next)) : ""));
}

std::string mesh_text(std::int64_t tensor, std::int64_t pipeline) {
    return text("tp ", tensor, ", pp ", pipeline);
}

std::string too_large_lines(const AnswerResult& result, const SearchContext& context) {
    std::string lines;
    for (const AnswerCost& cost : result.too_large) {
        lines += text("does not fit: ", mesh_text(cost.mesh.tensor, cost.mesh.pipeline), ", batch ",
                      cost.shape.batch, " needs ", gib(static_cast<double>(cost.required_bytes)),
                      " GiB of ", gib(context.capacity), " GiB\n");
    }
    return lines;
}

Json json_of(const AnswerCost& cost) {
    return {{"copies", cost.mesh.data},
            {"parallel.tensor", cost.mesh.tensor},
            {"parallel.pipeline", cost.mesh.pipeline},
            {"batch", cost.shape.batch},
            {"first_token_seconds", cost.first_seconds},
            {"token_seconds", cost.shape.new_tokens > 1 ? Json(cost.next.seconds) : Json()},
            {"answer_seconds", cost.seconds()},
            {"tokens_per_s", cost.tokens_per_second()},
            {"memory_bytes", cost.required_bytes},
            {"cache_bytes", cost.cache_bytes}};
}

}  // namespace

std::string to_text(const AnswerResult& result, const AnswerQuestion& question,
                    const SearchContext& context) {
    std::string out = text("answers of ", counted(question.new_tokens, "token"), " to prompts of ",
                           counted(question.prompt_tokens, "token"), " on ",
                           grouped(context.target.world_size), " x ", context.hardware.name, "\n");
    if (!result.best.empty()) {
        out += row(
            {"copies", "tp", "pp", "batch", "first s", "token ms", "answer s", "tokens/s", "GiB"},
            "of which cache; a token loses");
    }
    for (const AnswerCost& cost : result.best)
        out += row_of(cost);
    if (result.best.empty() && std::isfinite(result.least_seconds)) {
        out += text("none takes at most ", question.max_seconds, " s: the shortest answer takes ",
                    plain_seconds(result.least_seconds), " s\n");
    }
    out += too_large_lines(result, context);
    for (const RefusedMesh& each : result.refused) {
        out += text("not possible: ", mesh_text(each.tensor, each.pipeline), ": ",
                    each.rule.substr(0, each.rule.find(';')), "\n");
    }
    return out;
}

std::string to_json(const AnswerResult& result, const AnswerQuestion& question,
                    const SearchContext& context) {
    Json best = Json::array();
    for (const AnswerCost& cost : result.best)
        best.push_back(json_of(cost));
    Json too_large = Json::array();
    for (const AnswerCost& cost : result.too_large) {
        too_large.push_back({{"parallel.tensor", cost.mesh.tensor},
                             {"parallel.pipeline", cost.mesh.pipeline},
                             {"batch", cost.shape.batch},
                             {"memory_bytes", cost.required_bytes}});
    }
    Json refused = Json::array();
    for (const RefusedMesh& each : result.refused) {
        refused.push_back({{"parallel.tensor", each.tensor},
                           {"parallel.pipeline", each.pipeline},
                           {"reason", each.rule}});
    }
    const Json json = {{"hardware", context.hardware.name},
                       {"calibrated", context.hardware.calibrated},
                       {"world_size", context.target.world_size},
                       {"prompt_tokens", question.prompt_tokens},
                       {"new_tokens", question.new_tokens},
                       {"memory_capacity_bytes", context.capacity},
                       {"best", std::move(best)},
                       {"too_large", std::move(too_large)},
                       {"refused", std::move(refused)}};
    return to_line(json) + "\n";
}

}  // namespace gptrain
