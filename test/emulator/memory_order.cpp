// Plants a fault at each place in the kernels that orders memory accesses (emulator/sites.h), one
// at a time, and checks that the emulator then refuses an op or that the op computes something
// else.
//
//   test_emulator_memory_order [TEXT]
//
// GPTRAIN_SOAK=1 (scripts/soak.sh) runs the GEMM kernel for sm_90a with all of its results.
//
// With TEXT: only places whose name contains it, each with what notices the fault. memory_order.txt
// lists the faults that nothing notices, with the reasons. Exit code 0: it lists exactly those.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cuda/cuda_backend.h"
#include "emulator/grid.h"
#include "emulator/sites.h"
#include "emulator/sm90_gemm_cases.h"
#include "ops/cases.h"

namespace gptrain {
namespace {

using emulator::Fault;
using emulator::SiteName;
namespace fs = std::filesystem;

const fs::path sources = GPTRAIN_SOURCES;

std::string contents(const fs::path& path) {
    std::ifstream file(path);
    if (!file) fail(ExitCode::io, path.string(), ": cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines(const fs::path& path) {
    std::vector<std::string> all;
    std::ifstream file(path);
    if (!file) fail(ExitCode::io, path.string(), ": cannot be read");
    for (std::string line; std::getline(file, line);)
        all.push_back(line);
    return all;
}

std::string trimmed(const std::string& line) {
    const auto begin = line.find_first_not_of(' ');
    return begin == std::string::npos ? "" : line.substr(begin);
}

// ---- places in the sources ----------------------------------------------------------------------

/// "name|name|...": the functions of the twins that have a site.
std::string ordering_functions() {
    static const std::regex declaration(R"((\w+)\((?:[^(){};]|\([^()]*\))*\bSite where)");
    std::string names;
    for (const char* header : {"device.cuh", "hopper.cuh", "cluster.cuh"}) {
        const std::string text = contents(sources / "test/emulator/cuda/device" / header);
        for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it)
            names += (names.empty() ? "" : "|") + (*it)[1].str();
    }
    return names;
}

/// File and line of every call of these functions in the kernels.
std::set<std::pair<std::string, unsigned>> calls_in_sources() {
    const std::regex call("\\b(" + ordering_functions() + ")(<[^()]*>)?\\(");
    const std::regex definition("__device__ inline (void|unsigned) \\w+\\(");
    std::set<std::pair<std::string, unsigned>> calls;
    for (const auto& entry : fs::recursive_directory_iterator(sources / "cuda")) {
        const fs::path& path = entry.path();
        if (path.extension() != ".cu" && path.extension() != ".cuh") continue;
        unsigned number = 0;
        for (std::string line : lines(path)) {
            ++number;
            line.resize(std::min(line.find("//"), line.size()));
            if (std::regex_search(line, call) && !std::regex_search(line, definition))
                calls.emplace(fs::relative(path, sources).string(), number);
        }
    }
    return calls;
}

/// The site's file and its line of code, numbered if lines are equal.
std::map<SiteName, std::string> names_of(const std::map<SiteName, bool>& sites) {
    std::map<std::string, std::vector<SiteName>> alike;
    for (const auto& [site, can_weaken] : sites) {
        const std::string line = trimmed(lines(sources / site.file)[site.line - 1]);
        alike[text(site.file, ": ", line)].push_back(site);
    }
    std::map<SiteName, std::string> names;
    for (const auto& [name, same] : alike) {
        for (std::size_t i = 0; i < same.size(); ++i)
            names[same[i]] = same.size() == 1 ? name : text(name, " #", i + 1);
    }
    return names;
}

// ---- ops ----------------------------------------------------------------------------------------

/// An op on one of the emulated devices.
struct Case {
    OpCase op;
    bool hopper;
    double seconds = 0;              ///< of CPU time, without a fault
    std::vector<HostTensor> result;  ///< without a fault
};

class Devices {
public:
    Devices()
        : ampere_(make(false)),
          hopper_(make(true)),
          scratch_{ScratchMemory(*ampere_), ScratchMemory(*hopper_)} {}
    std::vector<HostTensor> run(const Case& each) {
        emulate(each.hopper);
        OpRun run(each.hopper ? *hopper_ : *ampere_, each.op, scratch_[each.hopper ? 1 : 0]);
        run.run();
        return run.memory();
    }

private:
    static void emulate(bool hopper) {
        emulator::settings() = hopper ? emulator::Settings{.major = 9,
                                                           .shared_bytes = 227 << 10,
                                                           .races = true,
                                                           .sm90_gemm_parts = 3}
                                      : emulator::Settings{.major = 8, .minor = 6, .races = true};
    }
    static std::unique_ptr<Backend> make(bool hopper) {
        emulate(hopper);
        return cuda::make_backend(0, {.attention = hopper ? cuda::AttentionChoice::sm90
                                                          : cuda::AttentionChoice::automatic});
    }
    std::unique_ptr<Backend> ampere_;
    std::unique_ptr<Backend> hopper_;
    ScratchMemory scratch_[2];
};

bool soaks() {
    return std::getenv("GPTRAIN_SOAK") != nullptr;
}

/// Op cases on the device with the least shared memory, and attention cases in bf16 also on the
/// device that has special kernels for them. Quick cases: they reach as many places as all.
std::vector<Case> chosen_cases() {
    std::vector<Case> cases;
    const auto add = [&](const std::vector<OpCase>& family, bool hopper, double most_flops) {
        for (const OpCase& op : family) {
            const bool chosen =
                op.limits.compute == DType::bf16 || (op.limits.compute == DType::f32 && !hopper);
            if (chosen && !op.large && op.flops <= most_flops) cases.push_back({op, hopper, 0, {}});
        }
    };
    for (const auto& family :
         {linear_cases(), fp8_cases(), fp8_block_cases(), nf4_cases(), norm_cases(),
          head_norm_cases(), row_norm_cases(), activation_cases(), embedding_cases(),
          attention_cases(), loss_cases(), router_cases(), expert_cases(), grouped_linear_cases(),
          optimizer_cases(), muon_cases(), small_moment_cases()})
        add(family, false, 4e6);
    add(attention_cases(), true, 1.2e8);
    const auto add_gemms = [&](const std::vector<OpCase>& gemms) {
        for (const OpCase& op : gemms)
            cases.push_back({op, true, 0, {}});
    };
    if (!soaks()) {
        add_gemms(few_sm90_gemm_cases());
    } else {
        add_gemms(sm90_gemm_cases(DType::bf16));
        add_gemms(sm90_fp8_cases());
    }
    return cases;
}

// ---- faults -------------------------------------------------------------------------------------

struct PlantedFault {
    SiteName site;
    Fault fault;
    std::string name;
    std::vector<const Case*> cases;  ///< that reach it: the quickest, then the slowest first
    std::string noticed;             ///< how; empty if it was not
};

/// Runs ops that reach the site, as many as take about `seconds` without a fault.
std::string notice(const PlantedFault& fault, double seconds, Devices& devices,
                   emulator::Sites& sites) {
    sites.plant(fault.site, fault.fault);
    for (const Case* each : fault.cases) {
        if (each->seconds > seconds && each != fault.cases.front()) continue;
        seconds -= each->seconds;
        try {
            if (devices.run(*each) != each->result) return "other results: " + each->op.name;
        } catch (const Error& error) {
            return error.what();
        }
    }
    return {};
}

/// Plants faults in child processes, which may crash or never end, several at a time.
class Children {
public:
    /// Each fault gets as many cases as take about `seconds_each` without it. One that takes
    /// several times as long counts as one that hangs.
    Children(double seconds_each, Devices& devices, emulator::Sites& sites)
        : seconds_each_(seconds_each),
          time_limit_(10 + static_cast<std::time_t>(4 * seconds_each)),
          devices_(devices),
          sites_(sites) {}

    void start(PlantedFault& fault) {
        while (running_.size() >= std::max(1u, std::thread::hardware_concurrency()))
            wait_for_one();
        int ends[2];
        if (pipe(ends) != 0) fail_errno(errno, "pipe");
        const pid_t child = fork();
        if (child < 0) fail_errno(errno, "fork");
        if (child == 0) {
            limit_time();
            const std::string how = notice(fault, seconds_each_, devices_, sites_).substr(0, 2000);
            const auto written = write(ends[1], how.data(), how.size());
            _exit(written == std::ssize(how) ? 0 : 1);
        }
        close(ends[1]);
        running_[child] = {&fault, ends[0]};
    }
    void wait_for_all() {
        while (!running_.empty())
            wait_for_one();
    }

private:
    struct Child {
        PlantedFault* fault;
        int end;
    };
    /// Limits CPU time: other work on the machine does not count.
    void limit_time() const {
        itimerval limit{};
        limit.it_value.tv_sec = time_limit_;
        if (setitimer(ITIMER_PROF, &limit, nullptr) != 0) fail_errno(errno, "setitimer");
    }
    void wait_for_one() {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, 0);
        const auto child = running_.find(pid);
        if (child == running_.end()) fail_errno(errno, "waitpid");
        char how[2000];
        const ssize_t size = read(child->second.end, how, sizeof how);
        close(child->second.end);
        std::string& noticed = child->second.fault->noticed;
        noticed.assign(how, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        if (WIFSIGNALED(status)) {
            noticed = WTERMSIG(status) == SIGPROF ? text("it does not end in ", time_limit_, " s")
                                                  : text("it ends by signal ", WTERMSIG(status));
        }
        running_.erase(child);
    }

    double seconds_each_;
    std::time_t time_limit_;
    Devices& devices_;
    emulator::Sites& sites_;
    std::map<pid_t, Child> running_;
};

std::string name_of(Fault fault) {
    return fault == Fault::removed ? "removed" : "weakened";
}

/// Runs every case without a fault. Returns the faults at the sites that they reach.
std::vector<PlantedFault> faults(std::vector<Case>& cases, Devices& devices,
                                 emulator::Sites& sites) {
    std::map<SiteName, bool> all;
    std::map<SiteName, std::vector<const Case*>> reached_by;
    for (Case& each : cases) {
        sites.reached().clear();
        const std::clock_t begin = std::clock();
        each.result = devices.run(each);
        each.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
        for (const auto& [site, can_weaken] : sites.reached()) {
            all[site] = can_weaken;
            reached_by[site].push_back(&each);
        }
    }
    std::vector<PlantedFault> planted;
    for (const auto& [site, name] : names_of(all)) {
        std::vector<const Case*>& by = reached_by[site];
        std::sort(by.begin(), by.end(),
                  [](const Case* a, const Case* b) { return a->seconds > b->seconds; });
        std::rotate(by.begin(), by.end() - 1, by.end());
        for (const Fault fault : {Fault::removed, Fault::weakened}) {
            if (fault == Fault::removed || all[site])
                planted.push_back({site, fault, text(name, " ", name_of(fault)), by, {}});
        }
    }
    return planted;
}

/// The names of the faults that nothing is known to notice.
std::set<std::string> listed() {
    std::set<std::string> names;
    for (const std::string& line : lines(sources / "test/emulator/memory_order.txt")) {
        if (line.starts_with("fault: ")) names.insert(line.substr(7));
    }
    return names;
}

int check(const std::string& only) {
    emulator::Sites sites;
    Devices devices;
    std::vector<Case> cases = chosen_cases();
    sites.reached().clear();
    std::vector<PlantedFault> planted = faults(cases, devices, sites);
    int wrong = 0;
    const auto complain = [&](const std::string& what, const std::string& name) {
        print(what, ": ", name);
        ++wrong;
    };
    auto unreached = calls_in_sources();
    for (const PlantedFault& fault : planted)
        unreached.erase({fault.site.file, fault.site.line});
    for (const auto& [file, line] : unreached)
        complain("no op reaches", text(file, ":", line));

    std::erase_if(planted, [&](const PlantedFault& fault) {
        return fault.name.find(only) == std::string::npos;
    });
    // A share of the total time, so that a slow machine tries as many cases as a fast one.
    const double seconds_each =
        std::accumulate(cases.begin(), cases.end(), 0.0,
                        [](double sum, const Case& each) { return sum + each.seconds; }) /
        5;
    Children children(seconds_each, devices, sites);
    for (PlantedFault& fault : planted)
        children.start(fault);
    children.wait_for_all();
    std::set<std::string> known = listed();
    std::size_t noticed = 0;
    for (const PlantedFault& fault : planted) {
        const bool is_listed = known.erase(fault.name) > 0;
        if (!only.empty()) print(fault.name, ": ", fault.noticed.empty() ? "LIVES" : fault.noticed);
        if (!fault.noticed.empty()) ++noticed;
        if (fault.noticed.empty() && !is_listed) complain("nothing notices", fault.name);
        if (!fault.noticed.empty() && is_listed) complain("listed, but noticed", fault.name);
    }
    if (only.empty()) {
        for (const std::string& name : known)
            complain("listed, but not there", name);
    }
    print(soaks() ? "proof barriers that are removed from kernels: " : "", planted.size(),
          " faults, ", noticed, " noticed");
    return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gptrain

int main(int count, char** arguments) {
    try {
        return gptrain::check(count > 1 ? arguments[1] : "");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
