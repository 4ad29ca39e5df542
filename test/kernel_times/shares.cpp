#include "kernel_times/shares.h"

#include "kernel_times/attention.h"

namespace gptrain::test {
namespace {

constexpr std::size_t h100 = 1;  // among the machines
static_assert(machines[h100].profile == "h100-sxm");

/// FLOP/s of GEMMs that a careful plan would expect.
constexpr double modest_rate = 560e12;

double gemm_seconds(const StepTable& step) {
    return step.line("GEMMs of the blocks").seconds[h100] +
           step.line("GEMMs of the head").seconds[h100];
}

double gemm_flops(const StepTable& step, bool head) {
    double flops = 0;
    for (const auto& [op, count] : step.work().ops()) {
        if (op.kind == OpWork::Kind::gemm && is_of_head(op, step.work().plan()) == head)
            flops += count * op.flops;
    }
    return flops;
}

double memory_seconds(const StepTable& step) {
    double seconds = 0;
    for (const Line& line : step.lines())
        seconds += line.limits[h100] == "memory" ? line.seconds_apart[h100] : 0;
    return seconds;
}

/// What reads the gradients of all biases of linear layers once more.
double bias_bytes(const StepTable& step) {
    double bytes = 0;
    for (const auto& [op, count] : step.work().ops()) {
        if (op.name == "linear_weight_grad" && !is_of_head(op, step.work().plan()))
            bytes += count * 2 * static_cast<double>(op.rows * op.length);
    }
    return bytes;
}

/// The rate of all GEMMs with which a step has this MFU.
double rate_for(double mfu, const StepTable& step, const Gpu& gpu,
                std::vector<double> Line::*estimate) {
    const double wanted = step.size().tokens() *
                          flops_per_token(step.work().plan().model, step.size().length) /
                          (mfu * gpu.hardware.device.peak_flops.bf16);
    const double others = step.seconds(estimate, h100) - gemm_seconds(step);
    return (gemm_flops(step, false) + gemm_flops(step, true)) / (wanted - others);
}

std::string percent(double share) {
    return text(fixed(100 * share, 1), " %");
}

}  // namespace

Row share_titles() {
    Row titles = {"one H100"};
    for (const ModelSize& size : sizes)
        titles.emplace_back(size.name);
    return titles;
}

std::vector<Row> share_rows(const KernelTable& table, const std::vector<Gpu>& gpus,
                            const std::vector<StepTable>& steps) {
    const Gpu& gpu = gpus[h100];
    std::vector<Row> rows;
    const auto add = [&](const std::string& what, const auto& cell) {
        Row row = {what};
        for (const StepTable& step : steps)
            row.push_back(cell(step));
        rows.push_back(row);
    };
    const auto add_share = [&](const std::string& what, const auto& seconds) {
        add(what, [&](const StepTable& step) {
            return percent(seconds(step) / step.seconds(&Line::seconds_apart, h100));
        });
    };
    add_share("GEMMs", gemm_seconds);
    add_share("all that memory limits", memory_seconds);
    add_share("GELU", [](const StepTable& step) { return step.line("GELU").seconds_apart[h100]; });
    add_share("clearing gradients", [](const StepTable& step) {
        return step.line("clearing gradients").seconds_apart[h100];
    });
    add("saved by the attention kernels for sm_90a", [&](const StepTable& step) {
        const auto attention = [&](bool hopper) {
            return apart(attention_forward(table, gpu, step.size(), hopper)) +
                   apart(attention_backward(table, gpu, step.size(), hopper));
        };
        const double saved = attention(false) - attention(true);
        return percent(saved / (step.seconds(&Line::seconds_apart, h100) + saved));
    });
    add("bias gradients that read dy once more", [&](const StepTable& step) {
        return text(fixed(1e3 * bias_bytes(step) / gpu.bandwidth(), 1), " ms");
    });
    add("GEMMs of the blocks", [&](const StepTable& step) {
        return text(
            fixed(gemm_flops(step, false) / step.line("GEMMs of the blocks").seconds[h100] / 1e12,
                  0),
            " TFLOP/s");
    });
    add("step with GEMMs of 560 TFLOP/s, published attention", [&](const StepTable& step) {
        const double flops = gemm_flops(step, false) + gemm_flops(step, true);
        const double seconds =
            step.seconds(&Line::published, h100) - gemm_seconds(step) + flops / modest_rate;
        const double rate = step.size().tokens() / seconds;
        return text(fixed(1e3 * seconds, 0), " ms, ", fixed(rate / 1e3, 1), " k tokens/s, ",
                    percent(rate * flops_per_token(step.work().plan().model, step.size().length) /
                            gpu.hardware.device.peak_flops.bf16),
                    " MFU");
    });
    for (const auto& [what, estimate] :
         {std::pair{"48 % MFU need GEMMs of", &Line::seconds_apart},
          std::pair{"48 % MFU need GEMMs of, published attention", &Line::published}}) {
        add(what, [&, estimate = estimate](const StepTable& step) {
            return text(fixed(rate_for(0.48, step, gpu, estimate) / 1e12, 0), " TFLOP/s");
        });
    }
    return rows;
}

}  // namespace gptrain::test
