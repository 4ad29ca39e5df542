#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/cores.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/output_file.h"
#include "device.h"
#include "hardware/load_profile.h"
#include "metrics/run_directory.h"
#include "plan_problem.h"
#include "ranks.h"
#include "search/measured.h"
#include "spec/make_plan.h"
#include "train/timed_steps.h"
#include "version.h"
#include "watch/stop_signals.h"

namespace gptrain {
namespace {

constexpr std::int64_t timed_steps = 5;  // of each candidate

/// The state that every rank needs to measure a candidate.
struct Measurement {
    Ranks& ranks;
    const Device& device;
    std::string machine;         ///< as in machine_of
    std::filesystem::path file;  ///< of the results
    const StopSignals& signals;
};

/// The model of this machine's CPU; "CPU" if the system does not report it.
std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos)
            return line.substr(colon + 2);
    }
    return "CPU";
}

/// The name of the hardware that the ranks compute on, the same on all. All ranks call it together.
std::string machine_of(const Ranks& ranks, const Device& device, const HardwareProfile& hardware) {
    const std::string cpu = ranks.cpu_name();
    return ranks.session().broadcast(device.cuda ? hardware.name : text(cpu_model(), ", ", cpu));
}

/// The key of a measurement in the results file: everything that the measurement depends on.
Json identity_of(const RunSpec& candidate, std::int64_t ranks, const std::string& machine) {
    RunSpec spec = candidate;
    spec.output_dir.clear();
    spec.fault_injection.reset();
    const std::string yaml = to_yaml(spec);
    return {{"ranks", ranks},
            {"machine", machine},
            {"program", text(version_text(), ", commit ", built_commit())},
            {"spec_crc32c", crc32c(yaml.data(), yaml.size())}};
}

MeasuredTime summary_of(std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    return {
        .seconds = median, .spread = (seconds.back() - seconds.front()) / median, .failure = ""};
}

/// Empty if a signal interrupted it.
std::optional<MeasuredTime> time_candidate(const RunSpec& spec, const Measurement& measurement) {
    Ranks& ranks = measurement.ranks;
    const MpiSession& session = ranks.session();
    const Device& device = measurement.device;
    RunPlan plan;
    session.run_on_all(
        [&] { plan = make_plan(spec, {.world_size = session.size(), .cuda = device.cuda}); });
    require_fp8_blocks(device, plan, session);
    ranks.set_mesh(plan.mesh);
    Observers observers(ranks.watch(spec, plan.mesh, device.cuda));
    observers.watchdog.connect_nodes(RunPaths{spec.output_dir}.cache() / "heartbeats", session);
    const Mesh mesh = open_training_mesh(device, session, plan, observers.comm);
    StartTimes unused;
    const std::vector<double> seconds =
        time_steps(spec, plan, {*device.backend, mesh, session, observers, "", unused}, timed_steps,
                   [&] { return measurement.signals.received() != 0; });
    if (std::ssize(seconds) < timed_steps) return std::nullopt;
    return summary_of(seconds);
}

/// Measures a candidate on all ranks and adds the result to the file. False if a signal interrupted
/// it. An Error of one rank alone ends the program, but the file has recorded it by then.
bool measure(const RunSpec& spec, const Measurement& measurement) {
    const MpiSession& session = measurement.ranks.session();
    const Json identity = identity_of(spec, session.size(), measurement.machine);
    const auto record = [&](const MeasuredTime& time) {
        MeasuredFile(measurement.file).end(identity, time);
    };
    session.run_on_first([&] { MeasuredFile(measurement.file).start(identity); });
    std::optional<MeasuredTime> time;
    try {
        time = time_candidate(spec, measurement);
    } catch (const CommonError& error) {
        time = {.seconds = 0, .spread = 0, .failure = error.what()};
    } catch (const std::exception& error) {
        record({.seconds = 0, .spread = 0, .failure = text(session.name(), ": ", error.what())});
        throw;
    }
    session.run_on_first([&] {
        if (time) {
            record(*time);
        } else {
            MeasuredFile(measurement.file).interrupt(identity);
        }
    });
    return time.has_value();
}

/// The K fastest by estimate, on rank 0.
std::vector<Measured> search_on_first(const PlanOptions& options, const TrainingProblem& training,
                                      const MpiSession& session) {
    std::vector<Measured> all;
    session.run_on_first([&] {
        const SearchContext context = context_of(training.problem, session.size());
        SearchResult result = search(context, training.space, options.measure);
        for (Found& found : result.best)
            all.push_back({.found = std::move(found), .time = {}});
        if (!all.empty()) return;
        fail(ExitCode::usage, options.config, ": ", why_nothing(result, context),
             "; start more ranks or limit fewer keys (--fix)");
    });
    return all;
}

/// Writes the profile in which estimates have the measured times on average.
void learn(const PlanOptions& options, const std::vector<Measured>& measured,
           const SearchContext& context) {
    const auto times = std::count_if(measured.begin(), measured.end(), [](const Measured& each) {
        return each.time.failure.empty();
    });
    if (times == 0) {
        return warn("--learn ", options.learn, ": nothing was measured, so nothing is written");
    }
    const double correction = context.hardware.correction * measured_ratio(measured);
    // Only the cores that worked.
    HardwareProfile used = context.hardware;
    const std::int64_t ranks = context.target.world_size;
    used.node.devices = std::llround(devices_per_rank(used, ranks) *
                                     static_cast<double>(ranks_per_node(used, ranks)));
    used.device.memory = used.node.host_memory / static_cast<double>(used.node.devices);
    const std::string yaml = corrected_profile(
        options.hardware, correction,
        text("measured / estimated step time of ", times, times == 1 ? " mesh" : " meshes", " on ",
             counted(context.target.world_size, "rank"), ", by gptrain plan --measure on ",
             today()),
        used);
    write_output_file(options.learn, yaml);
    print("wrote ", options.learn, ": correction ", fixed(correction, 4));
}

void report(const PlanOptions& options, const TrainingProblem& training, std::int64_t ranks,
            std::vector<Measured> measured) {
    const SearchContext context = context_of(training.problem, ranks);
    sort_measured(measured);
    print("measured on ", counted(ranks, "rank"), ", ", timed_steps, " steps each");
    print_raw(to_text(measured));
    if (!options.json.empty()) write_output_file(options.json, to_json(measured, context));
    if (!options.learn.empty()) learn(options, measured, context);
    if (!options.write.empty() && measured.front().time.failure.empty())
        write_best(options, measured.front().found);
}

/// The cores of all ranks, some of which may be bound to their own.
std::int64_t cores_of(const MpiSession& session) {
    std::string any;
    for (const std::string& cores : session.exchange(allowed_cores())) {
        any.resize(std::max(any.size(), cores.size()), '0');
        for (std::size_t core = 0; core < cores.size(); ++core)
            any[core] = std::max(any[core], cores[core]);
    }
    return std::count(any.begin(), any.end(), '1');
}

TrainingProblem read_on_all(const PlanOptions& options, const Ranks& ranks) {
    TrainingProblem training;
    const MpiSession& session = ranks.session();
    const std::int64_t cores = cores_of(session);
    session.run_on_all([&] {
        check_written_spec(options);
        if (!options.learn.empty()) corrected_profile(options.hardware, 1, "");  // it can be
        training = read_training_problem(options, cores);
        RunSpec& spec = training.problem.spec;
        spec.device = training.problem.hardware.kind;
        if (options.world_size.empty() || options.world_size == text(session.size())) return;
        fail(ExitCode::usage, "--world-size ", options.world_size, ": ",
             counted(session.size(), "rank"), session.size() == 1 ? " was" : " were",
             " started, and --measure uses these; omit --world-size");
    });
    ranks.check_same_spec(to_yaml(training.problem.spec));
    return training;
}

/// The candidates that the file does not have, as run specs, the same on all ranks.
std::vector<RunSpec> missing_candidates(const RunSpec& base, const std::vector<Measured>& all,
                                        const Measurement& measurement) {
    const MpiSession& session = measurement.ranks.session();
    const std::filesystem::path& path = measurement.file;
    Json missing = Json::array();
    session.run_on_first([&] {
        MeasuredFile file(path);
        for (const Measured& each : all) {
            const RunSpec spec = with_choices(base, each.found.choices);
            const Json identity = identity_of(spec, session.size(), measurement.machine);
            const auto known = file.find(identity);
            if (!known) {
                missing.push_back(to_yaml(spec));
                continue;
            }
            print("known from ", path.string(), ": ", describe(each.found));
        }
    });
    const std::string common = session.broadcast(to_line(missing));
    std::vector<RunSpec> specs;
    session.run_on_all([&] {
        for (const Json& yaml : parse_json(common, "the candidates"))
            specs.push_back(parse_run_spec(yaml.get<std::string>(), "a candidate"));
    });
    return specs;
}

ExitCode measure_as_rank(const PlanOptions& options, Ranks& ranks) {
    const MpiSession& session = ranks.session();
    ranks.check_same_program();
    const TrainingProblem training = read_on_all(options, ranks);
    const RunSpec& base = training.problem.spec;
    ranks.share_cores();
    const RunPaths paths = {base.output_dir};
    const Device device = open_device(base, session, paths.cache());
    std::optional<RunDirectory> directory;
    session.run_on_first([&] { directory.emplace(base.output_dir); });
    std::vector<Measured> all = search_on_first(options, training, session);
    const StopSignals signals("the measurement stops after the current step");
    const Measurement measurement = {ranks, device,
                                     machine_of(ranks, device, training.problem.hardware),
                                     paths.measured(), signals};
    const std::vector<RunSpec> missing = missing_candidates(base, all, measurement);
    for (std::size_t i = 0; i < missing.size(); ++i) {
        print("measuring ", i + 1, " of ", missing.size());
        if (measure(missing[i], measurement)) continue;
        print("interrupted: the same command goes on here");
        return ExitCode::requeue;
    }
    session.run_on_first([&] {
        const MeasuredFile file(measurement.file);
        for (Measured& each : all) {
            const RunSpec spec = with_choices(base, each.found.choices);
            each.time = file.find(identity_of(spec, session.size(), measurement.machine)).value();
        }
        report(options, training, session.size(), std::move(all));
    });
    return ExitCode::done;
}

}  // namespace

ExitCode plan_measure(const PlanOptions& options) {
    end_run_on_signals();
    Ranks ranks;
    return ranks.run([&] { return measure_as_rank(options, ranks); });
}

}  // namespace gptrain
