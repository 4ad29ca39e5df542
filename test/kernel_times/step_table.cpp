#include "kernel_times/step_table.h"

#include <algorithm>
#include <set>

#include "hardware/op_time.h"
#include "kernel_times/attention.h"
#include "kernel_times/traffic.h"
#include "spec/model_tensors.h"

namespace gptrain::test {

StepTable::StepTable(const KernelTable& table, const std::vector<Gpu>& gpus, const ModelSize& size)
    : table_(table), gpus_(gpus), size_(size), work_(size) {
    add_gemms("GEMMs of the blocks", false);
    add_gemms("GEMMs of the head", true);
    add_attention();
    add_known_kernels();
    add_others();
    add_gaps();
}

const Line& StepTable::line(std::string_view what) const {
    const auto found = std::find_if(lines_.begin(), lines_.end(),
                                    [=](const Line& each) { return each.what == what; });
    GPTRAIN_CHECK(found != lines_.end(), "no line ", what);
    return *found;
}

double StepTable::seconds(std::vector<double> Line::*estimate, std::size_t gpu) const {
    double all = 0;
    for (const Line& each : lines_)
        all += (each.*estimate)[gpu];
    return all;
}

Row StepTable::titles() const {
    Row titles = {text(size_.name)};
    for (const Gpu& gpu : gpus_)
        titles.emplace_back(gpu.machine.profile);
    return titles;
}

std::vector<Row> StepTable::rows() const {
    std::vector<Row> rows;
    for (const Line& line : lines_) {
        Row row = {line.what};
        for (std::size_t i = 0; i < gpus_.size(); ++i)
            row.push_back(text(fixed(line.seconds[i] * 1e3, 2), " ", line.limits[i]));
        rows.push_back(row);
    }
    sums(rows, &Line::seconds, "together");
    sums(rows, &Line::seconds_apart, "apart");
    sums(rows, &Line::published, "published attention");
    return rows;
}

template <class KernelsOn>
void StepTable::add(const std::string& what, const KernelsOn& kernels_on) {
    Line line = {what, {}, {}, {}, {}};
    for (const Gpu& gpu : gpus_) {
        const Kernels kernels = kernels_on(gpu);
        line.seconds.push_back(together(kernels));
        line.seconds_apart.push_back(apart(kernels));
        line.published.push_back(line.seconds_apart.back());
        line.limits.emplace_back(line.seconds.back() > 0 ? sum(kernels).largest() : "fused");
    }
    lines_.push_back(line);
}

void StepTable::add_traffic(const std::string& what, const std::string& file,
                            const std::string& kernel, double bytes) {
    add(what, [&](const Gpu& gpu) { return Kernels{table_.traffic(gpu, file, kernel, bytes)}; });
}

void StepTable::add_gemms(const std::string& what, bool head) {
    Line line = {what, {}, {}, {}, {}};
    for (const Gpu& gpu : gpus_) {
        double seconds = 0;
        for (const auto& [op, count] : work_.ops()) {
            if (op.kind != OpWork::Kind::gemm || is_of_head(op, work_.plan()) != head) continue;
            OpWork alone = op;
            alone.gelu_bytes = alone.gelu_gradient_bytes = 0;  // lines of their own
            seconds += count * op_seconds(gpu.hardware.device, alone);
        }
        line.seconds.push_back(seconds);
        line.limits.emplace_back("profile");
    }
    line.seconds_apart = line.published = line.seconds;
    lines_.push_back(line);
}

/// Seconds of all ops of a kind by the profile.
double StepTable::by_profile(const Gpu& gpu, OpWork::Kind kind) const {
    double seconds = 0;
    for (const auto& [op, count] : work_.ops())
        seconds += op.kind == kind ? count * op_seconds(gpu.hardware.device, op) : 0;
    return seconds;
}

void StepTable::add_attention() {
    const auto publish = [&](OpWork::Kind kind) {
        for (std::size_t i = 0; i < gpus_.size(); ++i)
            lines_.back().published[i] = by_profile(gpus_[i], kind);
    };
    add("attention, forward", [&](const Gpu& gpu) {
        return attention_forward(table_, gpu, size_, gpu.machine.hopper_kernels);
    });
    publish(OpWork::Kind::attention_forward);
    add("attention, backward", [&](const Gpu& gpu) {
        return attention_backward(table_, gpu, size_, gpu.machine.hopper_kernels);
    });
    publish(OpWork::Kind::attention_backward);
}

/// Which instance runs depends on the hidden size (cuda/norm/forward.cu, backward.cu).
void StepTable::add_known_kernels() {
    const std::string forward = size_.hidden == 768 ? "forward_kernel<Bf16, 32, 3, true, false>"
                                : size_.hidden == 1600
                                    ? "forward_kernel<Bf16, 128, 2, true, false>"
                                    : "forward_kernel<Bf16, 128, 4, true, false>";
    const std::string backward =
        size_.hidden == 768 ? "backward_kernel<Bf16, 3, false>" : "backward_kernel<Bf16, 2, false>";
    add_traffic("norms, forward", "norm/forward.cu", forward, work_.bytes("residual_norm_forward"));
    add_traffic("norms, backward", "norm/backward.cu", backward,
                work_.bytes("residual_norm_backward"));
    add_traffic("GELU", "ops/activation.cu", "forward_kernel<Bf16, 0, true, false>",
                work_.total(&OpWork::gelu_bytes));
    add("GELU, backward", [&](const Gpu& gpu) {
        const bool fused = gpu.hardware.device.fuses_gelu_gradient;
        return Kernels{
            {.memory = fused ? 0 : work_.total(&OpWork::gelu_gradient_bytes) / gpu.bandwidth()}};
    });
    add_traffic("AdamW", "ops/optimizer.cu", "update_chunks<Bf16>", work_.bytes("adamw"));
    add("cross-entropy", [&](const Gpu& gpu) {
        return Kernels{cross_entropy(table_, gpu, work_.bytes("cross_entropy"))};
    });
}

void StepTable::add_others() {
    std::set<std::string_view> known = {"residual_norm_forward", "residual_norm_backward"};
    const auto add_bytes = [&](const std::string& what, const auto& belongs) {
        double bytes = 0;
        for (const auto& [op, count] : work_.ops())
            bytes += belongs(op) ? op.bytes * count : 0;
        add(what, [&](const Gpu& gpu) { return Kernels{{.memory = bytes / gpu.bandwidth()}}; });
    };
    const auto add_op = [&](const std::string& what, std::string_view name) {
        add_bytes(what, [&](const OpWork& op) { return op.name == name; });
        known.insert(name);
    };
    known.insert("cross_entropy");
    add_op("clearing gradients", "clear");
    add_bytes("other ops", [&](const OpWork& op) {
        return op.kind == OpWork::Kind::other && !known.contains(op.name);
    });
}

void StepTable::add_gaps() {
    Line line = {"between kernels", {}, {}, {}, {}};
    for (const Gpu& gpu : gpus_) {
        double count = 0;
        for (const auto& [op, times] : work_.ops())
            count += op.kind == OpWork::Kind::gemm ? 0 : times;
        line.seconds.push_back(count * gpu.hardware.device.op_seconds);
        line.limits.emplace_back("profile");
    }
    line.seconds_apart = line.published = line.seconds;
    lines_.push_back(line);
}

void StepTable::sums(std::vector<Row>& rows, std::vector<double> Line::*seconds,
                     const std::string& how) const {
    Row sum = {text("**step**, ", how)};
    Row speed = {text("tokens/s, ", how)};
    Row share = {text("MFU, ", how)};
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
        const double all = this->seconds(seconds, i);
        const double rate = size_.tokens() / all;
        sum.push_back(fixed(all * 1e3, 1));
        speed.push_back(text(fixed(rate / 1e3, 1), " k"));
        share.push_back(text(fixed(100 * rate * flops_per_token(work_.plan()) /
                                       gpus_[i].hardware.device.peak_flops.bf16,
                                   1),
                             " %"));
    }
    rows.insert(rows.end(), {sum, speed, share});
}

}  // namespace gptrain::test
