#include "plan_problem.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "device.h"
#include "planner/step_prices.h"
#include "spec/spec_keys.h"
#include "spec/spec_settings.h"
#include "train/choose_resets.h"

namespace gptrain {
namespace {

std::vector<std::int64_t> global_batches(const PlanOptions& options, const RunSpec& spec) {
    if (!options.global_batch.empty())
        return parse_sizes("--global-batch", options.global_batch, batch_count);
    if (spec.training.global_batch_size) return {*spec.training.global_batch_size};
    fail(ExitCode::usage, options.config,
         ": training.global_batch_size is auto, so it would follow from the mesh; give "
         "--global-batch N or N..M, or set it");
}

}  // namespace

std::vector<std::int64_t> parse_sizes(std::string_view option, const std::string& word,
                                      const IntRange& range) {
    const auto bad = [&]() {
        fail(ExitCode::usage, option, " ", word, ": give ", range.description(),
             ", several with commas between them, or FIRST..LAST (each twice the one before)");
    };
    const auto number = [&](std::string_view digits) {
        const auto value = parse_int(digits);
        if (!value || !range.accepts(*value)) bad();
        return *value;
    };
    std::vector<std::int64_t> sizes;
    if (const std::size_t dots = word.find(".."); dots != std::string::npos) {
        const std::int64_t last = number(std::string_view(word).substr(dots + 2));
        for (std::int64_t size = number(std::string_view(word).substr(0, dots)); size <= last;
             size *= 2)
            sizes.push_back(size);
        if (sizes.empty()) bad();
        return sizes;
    }
    for (std::string_view rest = word;;) {
        const std::size_t comma = rest.find(',');
        const std::int64_t size = number(rest.substr(0, comma));
        if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
        if (comma == std::string_view::npos) return sizes;
        rest.remove_prefix(comma + 1);
    }
}

namespace {

/// The spec with the value of a --fix as its last setting, which errors name as the user gave it.
RunSpec spec_with_fixed(const std::string& config, const std::vector<std::string>& settings) {
    try {
        return load_run_spec(config, settings);
    } catch (const Error& error) {
        const std::string& last = settings.back();
        const std::string as_setting = text("--set ", last.substr(0, last.find('=')), ":");
        const std::string_view message = error.what();
        if (!message.starts_with(as_setting)) throw;
        fail(error.code(), "--fix", message.substr(std::string_view("--set").size()));
    }
}

}  // namespace

SearchSpace limited_space(const PlanOptions& options, const RunSpec& spec) {
    SearchSpace space = whole_space(spec);
    std::set<std::string> known;
    for (const std::string& setting : options.fixed) {
        const FixedKey fixed = parse_fixed_key(setting);
        if (!known.insert(fixed.key).second) {
            fail(ExitCode::usage, "--fix ", setting, ": ", fixed.key,
                 " is limited twice; give its values once, with commas between them");
        }
        std::vector<RunSpec> specs;
        for (const std::string& value : fixed.values) {
            std::vector<std::string> settings = options.settings;
            settings.push_back(text(fixed.key, "=", value));
            specs.push_back(spec_with_fixed(options.config, settings));
        }
        fix(space, fixed.key, specs);
    }
    return space;
}

namespace {

void check_outputs(const PlanOptions& options) {
    check_output_file(options.json, "--json");
    check_output_file(options.picture, "--picture");
    check_output_file(options.learn, "--learn");
}

}  // namespace

PlanProblem read_problem(const PlanOptions& options, std::int64_t cores) {
    PlanProblem problem = {.spec = load_run_spec(options.config, options.settings),
                           .hardware = {},
                           .headroom = headroom_share(options.memory_headroom),
                           .needs = {}};
    check_outputs(options);  // before the first line is printed
    choose_resets(problem.spec);
    problem.hardware = read_hardware(options.hardware, cores);
    problem.cuda = plan_for_cuda(problem.spec.device, &problem.hardware);
    problem.needs = backend_memory(problem.cuda);
    return problem;
}

SearchContext context_of(const PlanProblem& problem, std::int64_t ranks) {
    const HardwareProfile& hardware = problem.hardware;
    return {.spec = problem.spec,
            .target = {.world_size = ranks,
                       .cuda = problem.cuda,
                       .dry_run = true,
                       .ranks_per_node = hardware.node.devices},
            .needs = problem.needs,
            .hardware = hardware,
            .capacity = usable_memory(hardware, ranks, problem.headroom),
            .host_capacity = problem.cuda ? hardware.node.host_memory /
                                                static_cast<double>(ranks_per_node(hardware, ranks))
                                          : 0};
}

TrainingProblem read_training_problem(const PlanOptions& options, std::int64_t cores) {
    TrainingProblem training = {.problem = read_problem(options, cores), .space = {}};
    RunSpec& spec = training.problem.spec;
    const std::vector<std::int64_t> batches = global_batches(options, spec);
    spec.training.global_batch_size = spec.training.global_batch_size.value_or(batches.front());
    training.space = limited_space(options, spec);
    training.space.global_batch = batches;
    spec.locations = {};
    return training;
}

void check_written_spec(const PlanOptions& options) {
    if (options.write.empty()) return;
    check_output_file(options.write, "--write");
    if (!is_stdout(options.write)) require_new(options.write, "--write");
}

void write_best(const PlanOptions& options, const Found& best) {
    const RunSpec spec = load_run_spec(options.config, options.settings);
    std::vector<std::string> settings = options.settings;
    for (std::string& setting : changed_keys(spec, with_choices(spec, best.choices)))
        settings.push_back(std::move(setting));
    write_output_file(options.write, edited_run_spec(options.config, settings));
    print(options.write, ": the run spec with the settings of the fastest");
}

}  // namespace gptrain
