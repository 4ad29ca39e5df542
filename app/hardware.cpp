#include "hardware.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <omp.h>

#include "base/cores.h"
#include "base/join.h"
#include "base/log.h"
#include "engine/memory_limits.h"
#include "hardware/load_profile.h"

namespace gptrain {
namespace {

constexpr const char* cpu_profile = "cpu";
constexpr double used_memory = 0.9;  // of what is available now; the rest is for other programs

}  // namespace

std::int64_t own_cores() {
    const std::string allowed = allowed_cores();
    return std::count(allowed.begin(), allowed.end(), '1');
}

HardwareProfile this_cpu(std::int64_t cores) {
    HardwareProfile profile = load_profile(cpu_profile);
    double memory = profile.node.host_memory;
    for (const MemoryLimit& limit : host_memory_limits())
        memory = std::min(memory, used_memory * static_cast<double>(limit.available));
    profile.node.devices = cores;
    profile.node.host_memory = memory;
    profile.node.network.reset();
    profile.device.memory = memory / static_cast<double>(cores);
    if (std::getenv("OMP_NUM_THREADS") != nullptr) profile.threads = omp_get_max_threads();
    return profile;
}

bool means_this_cpu(const std::string& word) {
    return profile_meant(word) == cpu_profile;
}

HardwareProfile find_hardware(const std::string& word, std::int64_t cores) {
    return means_this_cpu(word) ? this_cpu(cores) : load_profile(word);
}

void print_notes(const std::string& word, const HardwareProfile& profile) {
    const std::string_view meant = profile_meant(word);
    if (!meant.empty() && meant != word)
        print("--hardware ", word, " is ", meant, "; the others: ", profiles_by_kind(meant));
    if (word.empty() || means_this_cpu(word)) {
        print("times are rough: the profile cpu is a guess, here with the ",
              counted(profile.node.devices, "core"),
              " of this machine; `gptrain plan --calibrate FILE` measures it");
    }
    if (profile.assumed.empty()) return;
    print(word, " leaves these out, and cautious values are assumed: ", joined(profile.assumed));
}

HardwareProfile read_hardware(const std::string& word, std::int64_t cores) {
    HardwareProfile profile = find_hardware(word, cores);
    print_notes(word, profile);
    return profile;
}

}  // namespace gptrain
