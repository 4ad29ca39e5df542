// Lower bounds of the time of a kernel, one for each part of a GPU that it uses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernel_times/machines.h"
#include "support/doc_table.h"

namespace gptrain::test {

/// Seconds for which each part is busy.
struct Bounds {
    double tensor = 0;  ///< tensor cores
    double issue = 0;   ///< issue slots
    double others = 0;  ///< those of them that neither multiply matrices nor load them
    double fma = 0;
    double alu = 0;
    double mufu = 0;    ///< special functions
    double shared = 0;  ///< shared memory
    double memory = 0;  ///< device memory

    /// The largest: the time if all parts work at the same time.
    double together() const;
    std::string_view largest() const;
    /// The time if a multiprocessor never runs matrix instructions, with their loads, and others at
    /// the same time.
    double apart() const;
    /// As if its threads also ran the instructions of the other kernel.
    void add_instructions(const Bounds& other);
};

/// Kernels that run one after the other.
using Kernels = std::vector<Bounds>;

double together(const Kernels& kernels);
double apart(const Kernels& kernels);
/// For how long they keep each part busy in all.
Bounds sum(const Kernels& kernels);

/// The kernels of docs/kernel-times.md: their costs by machine code, and their work on one head by
/// the emulator.
class KernelTable {
public:
    explicit KernelTable(const DocPage& page);

    /// Attention of `heads` heads with `head_size`, such as "64 x 1024".
    Bounds attention(const Gpu& gpu, const std::string& file, const std::string& kernel,
                     const std::string& head_size, double heads) const;
    /// A kernel that moves `bytes` once.
    Bounds traffic(const Gpu& gpu, const std::string& file, const std::string& kernel,
                   double bytes) const;

private:
    struct Costs {
        double issue, loads, fma, alu, mufu;  ///< instructions of a warp, for each unit of work
    };
    struct Work {
        double units, flops, wavefronts;
    };
    Costs costs(std::string_view architecture, const std::string& file,
                const std::string& kernel) const;
    Work work(const std::string& file, const std::string& head_size) const;

    std::vector<Row> costs_;
    std::vector<Row> work_;
};

const Row cost_titles = {"architecture", "file", "kernel", "units", "issue",
                         "loads",        "fma",  "alu",    "mufu"};
const Row work_titles = {"kernel", "size",       "matrix instructions",
                         "GFLOP",  "wavefronts", "conflicts"};

}  // namespace gptrain::test
