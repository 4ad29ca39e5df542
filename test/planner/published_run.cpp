#include "planner/published_run.h"

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "spec/make_plan.h"

namespace gptrain::test {
namespace {

using Fields = std::vector<std::string>;

Fields split(const std::string& line) {
    Fields fields;
    std::istringstream stream(line + ",");
    for (std::string field; std::getline(stream, field, ',');)
        fields.push_back(field);
    return fields;
}

std::optional<std::int64_t> number(const std::string& field) {
    if (field.empty()) return {};
    return std::stoll(field);
}

std::optional<Recompute> recompute_of(const std::string& field) {
    for (const auto& [value, word] : words_of(Recompute{}))
        if (word == field) return value;
    return {};
}

PublishedRun to_run(const Fields& fields) {
    GPTRAIN_CHECK(fields.size() == 17, "published_runs.csv: a row of ", fields.size(), " fields");
    std::size_t i = 0;
    const auto next = [&]() -> const std::string& { return fields[i++]; };
    const auto count = [&] { return number(next()).value(); };
    PublishedRun run;
    run.source = next();
    run.model = next();
    run.gpus = count();
    run.mesh.tensor = count();
    run.mesh.data = count();
    run.mesh.pipeline = count();
    run.virtual_stages = number(next());
    run.layers = count();
    run.hidden = count();
    run.heads = count();
    run.sequence = count();
    run.vocab = number(next());
    run.micro_batch = number(next());
    run.global_batch = count();
    run.recompute = recompute_of(next());
    run.sequence_parallel = next() != "no";
    run.seconds = std::stod(next());
    return run;
}

std::int64_t vocab_of(const PublishedRun& run) {
    return run.vocab.value_or(32000);
}

std::int64_t micro_batch_of(const PublishedRun& run) {
    const std::int64_t all = run.mesh.pipeline > 1 ? 1 : run.global_batch / run.mesh.data;
    return run.micro_batch.value_or(all);
}

std::int64_t chunks_of(const PublishedRun& run) {
    if (run.virtual_stages || run.mesh.pipeline == 1) return run.virtual_stages.value_or(1);
    const std::int64_t layers = run.layers / run.mesh.pipeline;
    return layers % 2 == 0 ? layers / 2 : layers;
}

/// Equal chunks. Where they do not divide the layers (Qi et al.), the first and the last one have a
/// layer less.
std::string layers_of(const PublishedRun& run) {
    const std::int64_t chunks = run.mesh.pipeline * chunks_of(run);
    const bool ends = run.layers % chunks != 0;
    const std::int64_t layers = (run.layers + (ends ? 2 : 0)) / chunks;
    std::string list;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const bool less = ends && (chunk == 0 || chunk == chunks - 1);
        list += text(chunk == 0 ? "" : ", ", layers - (less ? 1 : 0));
    }
    return list;
}

std::string_view schedule_of(const PublishedRun& run) {
    if (is_from(run, "zb-1p")) return "zero_bubble";
    return chunks_of(run) > 1 ? "interleaved_1f1b" : "1f1b";
}

}  // namespace

bool is_from(const PublishedRun& run, std::string_view source) {
    return run.source.find(source) != std::string::npos;
}

double PublishedRun::flops() const {
    const auto s = static_cast<double>(sequence);
    const auto h = static_cast<double>(hidden);
    const auto l = static_cast<double>(layers);
    const auto v = static_cast<double>(vocab_of(*this));
    const double tokens = static_cast<double>(global_batch) * s;
    return 72 * tokens * l * h * h * (1 + s / (6 * h) + v / (12 * l * h)) /
           (static_cast<double>(gpus) * seconds);
}

std::vector<PublishedRun> published_runs(const std::filesystem::path& csv) {
    std::ifstream file(csv);
    GPTRAIN_CHECK(file, "cannot read ", csv.string());
    std::vector<PublishedRun> runs;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line))
        runs.push_back(to_run(split(line)));
    GPTRAIN_CHECK(!runs.empty(), "no rows in ", csv.string());
    return runs;
}

RunPlan plan_of(const PublishedRun& run) {
    // Selective recomputation of Megatron-LM is that of its attention (megatron.h).
    const bool full = run.recompute == Recompute::full;
    const bool shards = is_from(run, "megatron-core");
    const std::string yaml = text(
        "name: published\noutput_dir: out\ndevice: cuda\n", "model: {num_layers: ", run.layers,
        ", hidden_size: ", run.hidden, ", num_attention_heads: ", run.heads,
        ", vocab_size: ", vocab_of(run),
        ", dropout: 0.1, tie_embeddings: ", is_from(run, "qi-2024") || shards ? "false" : "true",
        "}\ndata: {train: [{prefix: data}]}\n", "training: {seq_length: ", run.sequence,
        ", micro_batch_size: ", micro_batch_of(run), ", global_batch_size: ", run.global_batch,
        ", steps: 10}\n", "parallel: {tensor: ", run.mesh.tensor, ", pipeline: ", run.mesh.pipeline,
        ", virtual_stages: ", chunks_of(run), ", schedule: ", schedule_of(run),
        ", sequence_parallel: ", run.sequence_parallel && run.mesh.tensor > 1 ? "true" : "false",
        ", shard: ", shards ? "optimizer" : "none", ", layers: [", layers_of(run), "]}\n",
        "precision: {compute: bf16, grad_reduce: ", is_from(run, "narayanan") ? "bf16" : "fp32",
        "}\n", "recompute: ", full ? "full" : "none", "\n");
    RunPlan plan = make_plan(parse_run_spec(yaml, text(run.source, " ", run.model)),
                             {.world_size = run.gpus, .cuda = true, .dry_run = true});
    plan.deferred_heads = 0;
    // Megatron-LM clears all gradients and adds to them.
    plan.overwrites_gradients = false;
    return plan;
}

}  // namespace gptrain::test
