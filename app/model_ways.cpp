#include "model_ways.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "device.h"
#include "help/option_checks.h"
#include "interop/hf_folder.h"
#include "memory_headroom.h"

namespace gptrain {
namespace {

RunSpec base_of(const WaysQuestion& question) {
    const std::filesystem::path file = std::filesystem::path(question.model) / hf_config_name;
    const HfConfig config = read_hf_config(
        parse_json(read_file(file, max_hf_file_bytes), file.string()), file.string());
    RunSpec spec;
    spec.name = std::filesystem::absolute(question.model).lexically_normal().filename().string();
    spec.init_from = std::filesystem::absolute(question.model).lexically_normal();
    spec.device = question.hardware.kind;
    spec.model = config.model;
    const std::int64_t positions =
        config.model.max_position_embeddings.value_or(std::int64_t{tuning_length});
    spec.training.seq_length =
        question.seq_length > 0 ? question.seq_length : std::min(tuning_length, positions);
    spec.training.global_batch_size = tuning_batch * question.ranks;
    spec.training.steps = 1;
    return spec;
}

double host_capacity(const WaysQuestion& question) {
    if (question.host_memory.empty()) return question.hardware.node.host_memory;
    return static_cast<double>(parse_size("--host-memory", question.host_memory, "64GB"));
}

}  // namespace

CLI::Option* add_model(CLI::App& command, std::string& model, std::string& host_memory,
                       const std::string& description) {
    CLI::Option* option = command.add_option("--model", model, description)
                              ->type_name("HF-DIR")
                              ->check(CLI::ExistingDirectory);
    command
        .add_option("--host-memory", host_memory,
                    "Host memory of a node, such as 64GB; default: the profile's")
        ->type_name("SIZE")
        ->needs(option);
    return option;
}

WaysAnswer try_ways(const WaysQuestion& question, const std::string& way) {
    if (!way.empty() && find_way(way) == nullptr)
        fail(ExitCode::usage, "--way ", way, ": give one of ", way_words());
    WaysAnswer answer = {.base = base_of(question), .outcomes = {}, .table = {}};
    const bool cuda = question.hardware.kind == DeviceChoice::cuda;
    const BackendMemory needs = backend_memory(cuda);
    const WayMachine machine = {
        .target = {.world_size = question.ranks,
                   .cuda = cuda,
                   .dry_run = true,
                   .ranks_per_node = question.hardware.node.devices},
        .needs = needs,
        .hardware = question.hardware,
        .capacity = usable_memory(question.hardware, question.ranks, question.headroom),
        .host_capacity = host_capacity(question)};
    for (const TrainingWay& each : training_ways()) {
        if (!way.empty() && each.word != way) continue;
        answer.outcomes.push_back(try_way(each, answer.base, machine));
    }
    answer.table = to_text(answer.outcomes, machine);
    return answer;
}

}  // namespace gptrain
