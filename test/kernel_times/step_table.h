// The times of a step's kernels on each GPU, and their sum.
#pragma once

#include "kernel_times/bounds.h"
#include "kernel_times/step_work.h"

namespace gptrain::test {

/// A line of a table, with one cell for each GPU.
struct Line {
    std::string what;
    std::vector<double> seconds;        ///< all parts of the GPU at work together
    std::vector<double> seconds_apart;  ///< matrix instructions and others apart
    std::vector<double> published;      ///< attention as the profile has it
    std::vector<std::string> limits;
};

class StepTable {
public:
    StepTable(const KernelTable& table, const std::vector<Gpu>& gpus, const ModelSize& size);

    Row titles() const;
    std::vector<Row> rows() const;
    const std::vector<Line>& lines() const { return lines_; }
    const Line& line(std::string_view what) const;
    /// Of a whole step.
    double seconds(std::vector<double> Line::*estimate, std::size_t gpu) const;
    const ModelSize& size() const { return size_; }
    const StepWork& work() const { return work_; }

private:
    template <class KernelsOn>
    void add(const std::string& what, const KernelsOn& kernels_on);
    void add_traffic(const std::string& what, const std::string& file, const std::string& kernel,
                     double bytes);
    void add_gemms(const std::string& what, bool head);
    void add_attention();
    void add_known_kernels();
    /// What only its traffic prices.
    void add_others();
    void add_gaps();
    double by_profile(const Gpu& gpu, OpWork::Kind kind) const;
    void sums(std::vector<Row>& rows, std::vector<double> Line::*seconds,
              const std::string& how) const;

    const KernelTable& table_;
    const std::vector<Gpu>& gpus_;
    const ModelSize& size_;
    StepWork work_;
    std::vector<Line> lines_;
};

}  // namespace gptrain::test
