#include "kernel_times/attention.h"

#include <algorithm>

namespace gptrain::test {

Kernels attention_forward(const KernelTable& table, const Gpu& gpu, const ModelSize& size,
                          bool hopper) {
    const std::string file = hopper ? "attention/sm90/forward.cu" : "attention/forward.cu";
    const std::string kernel =
        hopper ? text("forward_kernel<ForwardShape<", size.head_dim(), ">, false>")
               : text("forward_kernel<Bf16, ForwardShape<", size.head_dim(), ", false>>");
    return {table.attention(gpu, file, kernel, size.head_size(), size.all_heads())};
}

Kernels attention_backward(const KernelTable& table, const Gpu& gpu, const ModelSize& size,
                           bool hopper) {
    const auto part = [&](const std::string& file, const std::string& kernel) {
        return table.attention(gpu, file, kernel, size.head_size(), size.all_heads());
    };
    const double row_bytes = 2 * 2 * size.tokens() * static_cast<double>(size.hidden * size.layers);
    const Bounds rows =
        table.traffic(gpu, "attention/delta.cu", "delta_kernel<Bf16, 8>", row_bytes);
    const std::string dim = text(size.head_dim());
    if (hopper) {
        return {rows, part("attention/sm90/backward.cu",
                           "backward_kernel<BackwardShape<" + dim + ">, false>")};
    }
    return {rows,
            part("attention/backward_queries.cu",
                 "backward_queries_kernel<Bf16, QueriesShape<" + dim + ", false>>"),
            part("attention/backward_keys.cu",
                 "backward_keys_kernel<Bf16, KeysShape<" + dim + ", false>>")};
}

namespace {

constexpr double tera = 1e12;
constexpr std::size_t rated_sizes[] = {0, 2};

/// In FLOP/s of the pairs that the mask leaves.
struct AttentionRates {
    double together;
    double apart;
    double profile;
    double seconds;  ///< by the estimate `together`
    Bounds busy;
};

AttentionRates rates_of(const KernelTable& table, const Gpu& gpu, const ModelSize& size,
                        bool hopper, bool backward) {
    const auto length = static_cast<double>(size.length);
    const double pairs = length * (length + 1) / 2 * size.all_heads();
    const double flops = (backward ? 10 : 4) * static_cast<double>(size.head_dim()) * pairs;
    const Kernels kernels = backward ? attention_backward(table, gpu, size, hopper)
                                     : attention_forward(table, gpu, size, hopper);
    const DeviceProfile& device = gpu.hardware.device;
    const auto rate =
        std::find_if(device.attention.begin(), device.attention.end(),
                     [&](const AttentionRate& each) { return each.head_dim == size.head_dim(); });
    GPTRAIN_CHECK(rate != device.attention.end(), gpu.machine.profile, ": no rate for heads of ",
                  size.head_dim());
    const double share = length / (length + device.attention_half_length);
    return {flops / together(kernels), flops / apart(kernels),
            share * (backward ? rate->backward : rate->forward), together(kernels), sum(kernels)};
}

}  // namespace

std::vector<Row> rate_rows(const KernelTable& table, const std::vector<Gpu>& gpus) {
    std::vector<Row> rows;
    const auto add = [&](const Gpu& gpu, const ModelSize& size, bool hopper, bool backward) {
        const AttentionRates rates = rates_of(table, gpu, size, hopper, backward);
        const auto share = [&](double seconds) {
            return text(fixed(100 * seconds / rates.seconds, 0), " %");
        };
        rows.push_back({text(gpu.machine.profile), hopper ? "sm_90a" : "portable", size.head_size(),
                        backward ? "backward" : "forward", fixed(rates.together / tera, 0),
                        text(rates.busy.largest()), share(rates.busy.tensor),
                        share(rates.busy.shared), share(rates.busy.mufu),
                        fixed(rates.apart / tera, 0), fixed(rates.profile / tera, 0)});
    };
    for (const Gpu& gpu : gpus) {
        for (const std::size_t size : rated_sizes) {
            for (const bool hopper : {false, true}) {
                if (hopper && !gpu.machine.hopper_kernels) continue;
                for (const bool backward : {false, true})
                    add(gpu, sizes[size], hopper, backward);
            }
        }
    }
    return rows;
}

bool check_profiles(const KernelTable& table, const std::vector<Gpu>& gpus) {
    bool kept = true;
    for (const Gpu& gpu : gpus) {
        for (const std::size_t size : rated_sizes) {
            for (const bool backward : {false, true}) {
                const AttentionRates rates =
                    rates_of(table, gpu, sizes[size], gpu.machine.hopper_kernels, backward);
                if (rates.profile <= 1.02 * rates.apart) continue;
                kept = false;
                print("configs/hardware/", gpu.machine.profile, ".yaml: attention, ",
                      sizes[size].head_size(),
                      backward ? ", backward: " : ", forward: ", fixed(rates.profile / tera, 1),
                      " TFLOP/s; the kernels reach ", fixed(rates.apart / tera, 1));
            }
        }
    }
    return kept;
}

}  // namespace gptrain::test
