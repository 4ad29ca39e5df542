// gptrain plan: the settings with which a model trains fastest, on hardware that need not be here.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "calibration.h"
#include "commands.h"
#include "device.h"
#include "hardware/load_profile.h"
#include "search/search_report.h"
#include "spec/make_plan.h"
#include "spec/spec_keys.h"

namespace gptrain {
namespace {

constexpr std::int64_t table_rows = 10;

struct Options {
    std::string config;
    std::vector<std::string> settings;
    std::string world_size;
    std::string hardware;
    std::string calibrate;
    std::vector<std::string> fixed;
    std::string global_batch;
    std::string memory_headroom = "0%";
    std::optional<double> max_days;
    std::string write;
    std::string json;
};

constexpr IntRange rank_counts = {1, std::int64_t{1} << 24};

/// "512", "512,768" or "512..2048", which doubles.
std::vector<std::int64_t> parse_sizes(std::string_view option, const std::string& word,
                                      const IntRange& range) {
    const auto bad = [&]() {
        fail(ExitCode::usage, option, " ", word, ": give ", range.description(),
             ", several with commas between them, or FIRST..LAST, which doubles");
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
        sizes.push_back(number(rest.substr(0, comma)));
        if (comma == std::string_view::npos) return sizes;
        rest.remove_prefix(comma + 1);
    }
}

/// The share of "5%".
double parse_headroom(std::string_view word) {
    const bool percent = word.ends_with('%');
    const auto value = parse_double(word.substr(0, word.size() - (percent ? 1 : 0)));
    if (!percent || !value || *value < 0 || *value >= 100) {
        fail(ExitCode::usage, "--memory-headroom ", word,
             ": give a share of the device's memory from 0% to below 100%, such as 5%");
    }
    return *value / 100;
}

std::vector<std::int64_t> global_batches(const Options& options, const RunSpec& spec) {
    if (!options.global_batch.empty())
        return parse_sizes("--global-batch", options.global_batch, batch_count);
    if (spec.training.global_batch_size) return {*spec.training.global_batch_size};
    fail(ExitCode::usage, options.config,
         ": training.global_batch_size is auto, so it would follow from the mesh; give "
         "--global-batch N or N..M, or set it");
}

/// The space of the spec with the keys of --fix limited.
SearchSpace limited_space(const Options& options, const RunSpec& spec) {
    SearchSpace space = whole_space(spec);
    for (const std::string& text : options.fixed) {
        const FixedKey fixed = parse_fixed_key(text);
        std::vector<RunSpec> specs;
        for (const std::string& value : fixed.values) {
            std::vector<std::string> settings = options.settings;
            settings.push_back(gptrain::text(fixed.key, "=", value));
            specs.push_back(load_run_spec(options.config, settings));
        }
        fix(space, fixed.key, specs);
    }
    return space;
}

OwnSettings own_settings(const SearchContext& context) {
    OwnSettings own;
    try {
        own.found = evaluate(context, choices_of(context.spec));
    } catch (const Error& error) {
        own.refused = error.what();
    }
    return own;
}

void write_spec(const Options& options, const RunSpec& spec, const Found& best) {
    write_file_durably(options.write, to_yaml(with_choices(spec, best.choices)));
    print(options.write, ": the run spec with the settings of the fastest");
}

void check_folder(const std::string& path, std::string_view option) {
    const std::filesystem::path file = path;
    if (!file.has_parent_path()) return;
    require_path(file.parent_path(), ExitCode::usage, "folder",
                 text(" for ", option, "; create it"));
}

/// What all searches of a call have in common.
struct Problem {
    RunSpec spec;
    HardwareProfile hardware;
    SearchSpace space;
    bool cuda = false;
    double headroom = 0;
    BackendMemory needs;
};

Problem read_problem(const Options& options) {
    Problem problem = {.spec = load_run_spec(options.config, options.settings),
                       .hardware = load_profile(options.hardware),
                       .space = {},
                       .needs = {}};
    problem.headroom = parse_headroom(options.memory_headroom);
    const std::vector<std::int64_t> batches = global_batches(options, problem.spec);
    problem.spec.training.global_batch_size =
        problem.spec.training.global_batch_size.value_or(batches.front());
    problem.space = limited_space(options, problem.spec);
    problem.space.global_batch = batches;
    problem.spec.locations = {};
    problem.cuda = plan_for_cuda(problem.spec.device, problem.hardware);
    problem.needs = backend_memory(problem.cuda);
    return problem;
}

SearchContext context_of(const Problem& problem, std::int64_t ranks) {
    const HardwareProfile& hardware = problem.hardware;
    return {.spec = problem.spec,
            .target = {.world_size = ranks, .cuda = problem.cuda, .dry_run = true},
            .needs = problem.needs,
            .hardware = hardware,
            .capacity = (1 - problem.headroom) * hardware.device.memory *
                        devices_per_rank(hardware, ranks)};
}

void plan_mesh(const Options& options, const Problem& problem, std::int64_t ranks) {
    const SearchContext context = context_of(problem, ranks);
    const SearchReport report = {.result = search(context, problem.space, table_rows),
                                 .own = own_settings(context),
                                 .global_batches = problem.space.global_batch};
    print_raw(to_text(report, context));
    if (!options.json.empty()) write_file_durably(options.json, to_json(report, context));
    const std::vector<Found>& best = report.result.best;
    if (best.empty()) {
        fail(ExitCode::usage, options.config, ": no settings of ", ranks, " ranks fit on ",
             problem.hardware.name, "; use more ranks (--world-size) or limit fewer keys (--fix)");
    }
    if (options.max_days && best.front().estimate.days > *options.max_days) {
        print("no settings train in ", *options.max_days, " days: the fastest take ",
              fixed(best.front().estimate.days, 2), "; use more ranks (--world-size)");
    }
    if (!options.write.empty()) write_spec(options, problem.spec, best.front());
}

/// The fastest settings of each number of ranks.
void plan_scaling(const Options& options, const Problem& problem,
                  const std::vector<std::int64_t>& sizes) {
    if (!options.json.empty() || !options.write.empty()) {
        fail(ExitCode::usage, "--world-size ", options.world_size,
             ": --write and --json take one number of ranks");
    }
    print(scaling_head());
    std::optional<std::int64_t> enough;
    for (const std::int64_t ranks : sizes) {
        const SearchResult result = search(context_of(problem, ranks), problem.space, 1);
        if (result.best.empty()) {
            print(scaling_row(ranks, nullptr));
            continue;
        }
        const Found& best = result.best.front();
        print(scaling_row(ranks, &best));
        if (!enough && options.max_days && best.estimate.days <= *options.max_days) enough = ranks;
    }
    if (!options.max_days) return;
    if (enough) {
        print("the fewest ranks for ", *options.max_days, " days: ", *enough);
    } else {
        print("none of these train in ", *options.max_days, " days");
    }
}

ExitCode run_plan(const Options& options) {
    check_folder(options.write, "--write");
    check_folder(options.json, "--json");
    const std::vector<std::int64_t> sizes =
        parse_sizes("--world-size", options.world_size, rank_counts);
    const Problem problem = read_problem(options);
    if (sizes.size() == 1) {
        plan_mesh(options, problem, sizes.front());
    } else {
        plan_scaling(options, problem, sizes);
    }
    return ExitCode::done;
}

void add_search_options(CLI::App& command, Options& options) {
    command
        .add_option("--fix", options.fixed,
                    "Limit a key to one value or to several, such as parallel.tensor=4,8; "
                    "repeatable")
        ->type_name("KEY.PATH=VALUE")
        ->allow_extra_args(false);
    command
        .add_option("--global-batch", options.global_batch,
                    "Global batch sizes: a number, several with commas, or 512..2048, which "
                    "doubles; the steps of the run follow; default: the spec's")
        ->type_name("SIZES");
    command
        .add_option("--memory-headroom", options.memory_headroom,
                    "Share of the device's memory to leave free")
        ->type_name("PERCENT")
        ->capture_default_str();
    command
        .add_option("--max-days", options.max_days,
                    "Report whether all steps take at most D days, or how many ranks do")
        ->type_name("D")
        ->check(CLI::PositiveNumber);
    command.add_option("--write", options.write, "Write the run spec with the fastest settings")
        ->type_name("FILE.yaml");
    command.add_option("--json", options.json, "Write the result as JSON")->type_name("FILE");
}

}  // namespace

void add_plan(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "plan", "Find the mesh and the settings that train a model fastest on given hardware");
    auto options = std::make_shared<Options>();
    command->add_option("--config", options->config, "Run spec (YAML)")->type_name("RUN.yaml");
    add_settings(*command, options->settings);
    command
        ->add_option("--world-size", options->world_size,
                     "Ranks; 64..4096 shows the fastest for 64, 128, ... 4096 ranks")
        ->type_name("N|N..M");
    command
        ->add_option("--hardware", options->hardware,
                     "A profile of the program (h100-sxm, ...) or a file like those of "
                     "configs/hardware")
        ->type_name("NAME|FILE");
    add_search_options(*command, *options);
    command
        ->add_option("--calibrate", options->calibrate,
                     "Measure the machine of the ranks started, and write its profile")
        ->type_name("FILE")
        ->excludes("--config", "--set", "--world-size", "--hardware", "--fix", "--global-batch",
                   "--memory-headroom", "--max-days", "--write", "--json");
    command->final_callback([&chosen, options] {
        if (!options->calibrate.empty()) {
            chosen = [options] { return run_calibrate(options->calibrate); };
            return;
        }
        if (options->config.empty()) throw CLI::RequiredError("plan: --config");
        if (options->hardware.empty()) throw CLI::RequiredError("plan: --hardware");
        if (options->world_size.empty()) throw CLI::RequiredError("plan: --world-size");
        chosen = [options] { return run_plan(*options); };
    });
}

}  // namespace gptrain
