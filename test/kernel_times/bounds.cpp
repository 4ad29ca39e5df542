#include "kernel_times/bounds.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gptrain::test {
namespace {

constexpr double warp_lanes = 32;
/// Of a warp that reads or writes 16 bytes with each lane.
constexpr double unit_bytes = 16 * warp_lanes;

double number(const std::string& cell) {
    const auto value = parse_double(cell);
    GPTRAIN_CHECK(value, "docs/kernel-times.md: no number: ", cell);
    return *value;
}

}  // namespace

double Bounds::together() const {
    return std::max({tensor, issue, fma, alu, mufu, shared, memory});
}

std::string_view Bounds::largest() const {
    const std::array<std::pair<double, std::string_view>, 7> all = {{{tensor, "tensor"},
                                                                     {issue, "issue"},
                                                                     {fma, "fma"},
                                                                     {alu, "alu"},
                                                                     {mufu, "mufu"},
                                                                     {shared, "shared"},
                                                                     {memory, "memory"}}};
    return std::max_element(all.begin(), all.end())->second;
}

double Bounds::apart() const {
    return std::max(together(), std::max(tensor, shared) + std::max({others, fma, alu, mufu}));
}

void Bounds::add_instructions(const Bounds& other) {
    issue += other.issue;
    others += other.others;
    fma += other.fma;
    alu += other.alu;
    mufu += other.mufu;
}

double together(const Kernels& kernels) {
    double seconds = 0;
    for (const Bounds& bounds : kernels)
        seconds += bounds.together();
    return seconds;
}

double apart(const Kernels& kernels) {
    double seconds = 0;
    for (const Bounds& bounds : kernels)
        seconds += bounds.apart();
    return seconds;
}

Bounds sum(const Kernels& kernels) {
    Bounds all;
    for (const Bounds& bounds : kernels) {
        all.add_instructions(bounds);
        all.tensor += bounds.tensor;
        all.shared += bounds.shared;
        all.memory += bounds.memory;
    }
    return all;
}

KernelTable::KernelTable(const DocPage& page)
    : costs_(page.rows(cost_titles)), work_(page.rows(work_titles)) {}

KernelTable::Costs KernelTable::costs(std::string_view architecture, const std::string& file,
                                      const std::string& kernel) const {
    for (const Row& row : costs_) {
        if (row[0] == architecture && row[1] == file && row[2] == "`" + kernel + "`")
            return {number(row[4]), number(row[5]), number(row[6]), number(row[7]), number(row[8])};
    }
    fail(ExitCode::bug, "docs/kernel-times.md lacks the costs of ", kernel, " in ", file, " on ",
         architecture);
}

KernelTable::Work KernelTable::work(const std::string& file, const std::string& head_size) const {
    for (const Row& row : work_) {
        if (row[0] == "`" + file + "`" && row[1] == head_size)
            return {number(row[2]), number(row[3]) * 1e9, number(row[4])};
    }
    fail(ExitCode::bug, "docs/kernel-times.md lacks the work of ", file, " on ", head_size);
}

Bounds KernelTable::attention(const Gpu& gpu, const std::string& file, const std::string& kernel,
                              const std::string& head_size, double heads) const {
    const Machine& machine = gpu.machine;
    const Work work = this->work(file, head_size);
    const Costs costs = this->costs(machine.architecture, file, kernel);
    const bool of_warpgroups = file.find("/sm90/") != std::string::npos;
    const double cycle = heads / gpu.cycles();
    const double lanes = work.units * warp_lanes * cycle;
    return {
        .tensor = work.flops * cycle / (of_warpgroups ? machine.tensor_flops : machine.warp_flops),
        .issue = work.units * costs.issue * cycle / machine.issued,
        .others = work.units * (costs.issue - 1 - costs.loads) * cycle / machine.issued,
        .fma = lanes * costs.fma / machine.fma_lanes,
        .alu = lanes * costs.alu / machine.alu_lanes,
        .mufu = lanes * costs.mufu / machine.mufu_lanes,
        .shared = work.wavefronts * cycle / machine.shared_wavefronts};
}

Bounds KernelTable::traffic(const Gpu& gpu, const std::string& file, const std::string& kernel,
                            double bytes) const {
    const Machine& machine = gpu.machine;
    const Costs costs = this->costs("sm_90a", file, kernel);
    const double units = bytes / unit_bytes / gpu.cycles();
    return {.issue = units * costs.issue / machine.issued,
            .others = units * costs.issue / machine.issued,
            .fma = units * warp_lanes * costs.fma / machine.fma_lanes,
            .alu = units * warp_lanes * costs.alu / machine.alu_lanes,
            .mufu = units * warp_lanes * costs.mufu / machine.mufu_lanes,
            .memory = bytes / gpu.bandwidth()};
}

}  // namespace gptrain::test
