// GEMMs of a block of GPT-2 124M: while kernels of messages hold multiprocessors, with more
// workspace, and with the residual added.
#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cuda/cuda_backend.h"
#include "cuda/gemm/lt_gemm.h"
#include "gpu_bench.h"
#include "gpu_device.h"
#include "spin.h"

namespace gptrain::bench {
namespace {

constexpr DType bf16 = DType::bf16;
constexpr std::int64_t sequences = 64;
constexpr std::int64_t seq_length = 1024;
constexpr std::int64_t tokens = sequences * seq_length;
constexpr std::int64_t hidden = 768;
constexpr std::int64_t mib = std::int64_t{1} << 20;

struct Layer {
    std::string_view name;
    std::int64_t in, out;
};
constexpr Layer layers[] = {{"qkv", hidden, 3 * hidden},
                            {"proj", hidden, hidden},
                            {"fc", hidden, 4 * hidden},
                            {"mlp.proj", 4 * hidden, hidden}};

OpLimits limits() {
    OpLimits limits;
    limits.compute = bf16;
    limits.sequences = sequences;
    limits.seq_length = seq_length;
    limits.hidden = hidden;
    limits.heads = 12;
    limits.groups = limits.heads;
    limits.head_dim = hidden / limits.heads;
    limits.widest = 4 * hidden;
    return limits;
}

struct NamedOp {
    std::string name;
    std::function<void()> run;
};

/// Forward, input gradient and weight gradient of each layer.
std::vector<NamedOp> block_gemms(Device& device) {
    std::vector<NamedOp> ops;
    Backend& backend = device.backend();
    for (const Layer& layer : layers) {
        const Tensor x = device.random(bf16, {tokens, layer.in});
        const Tensor dy = device.random(bf16, {tokens, layer.out});
        const Tensor weight = device.random(bf16, {layer.out, layer.in}, 0.02f);
        const LinearForward forward = {
            .x = x, .weight = weight, .bias = {}, .y = device.zeros(bf16, {tokens, layer.out})};
        const LinearInputGrad input = {.dy = dy,
                                       .weight = weight,
                                       .gelu_input = {},
                                       .dx = device.zeros(bf16, {tokens, layer.in})};
        const LinearWeightGrad gradient = {
            .x = x,
            .dy = dy,
            .dweight = device.zeros(DType::f32, {layer.out, layer.in}),
            .dbias = {},
            .accumulate = false};
        ops.push_back(
            {text(layer.name, ".forward"), [&backend, forward] { backend.run(forward); }});
        ops.push_back({text(layer.name, ".dx"), [&backend, input] { backend.run(input); }});
        ops.push_back({text(layer.name, ".dw"), [&backend, gradient] { backend.run(gradient); }});
    }
    return ops;
}

/// Calls of the library on a device, each with the largest workspace.
class LtCalls {
public:
    LtCalls(Device& device, std::int64_t workspace_bytes)
        : device_(device),
          bytes_(workspace_bytes),
          workspace_(device.backend().allocate(workspace_bytes, MemorySpace::device)) {}

    /// False if the library declines it.
    bool run(const cuda::LtGemm& lt, const cuda::Gemm& gemm, const cuda::Algorithm& algorithm) {
        const cublasStatus_t status =
            lt.run(gemm, algorithm, device_.stream(), workspace_.data(), bytes_);
        if (cuda::is_declined(status)) return false;
        library_.check(status, "cublasLtMatmul");
        return true;
    }

    /// Infinity if the library declines it.
    double milliseconds(const cuda::LtGemm& lt, const cuda::Gemm& gemm,
                        const cuda::Algorithm& algorithm) {
        constexpr int runs = 8;
        // The first run loads code.
        if (!run(lt, gemm, algorithm)) return std::numeric_limits<double>::infinity();
        start_.record(device_.stream());
        for (int i = 0; i < runs; ++i)
            run(lt, gemm, algorithm);
        end_.record(device_.stream());
        end_.synchronize();
        return end_.milliseconds_since(start_) / runs;
    }

    struct Fastest {
        cuda::Algorithm algorithm;
        double milliseconds = std::numeric_limits<double>::infinity();
    };
    /// Of the library's first 16 with this workspace, as tuning chooses; infinity if it runs none.
    Fastest fastest(const cuda::LtGemm& lt, const cuda::Gemm& gemm, std::int64_t workspace_bytes) {
        constexpr int candidates = 16;
        Fastest best{};
        for (const cuda::Algorithm& algorithm : lt.candidates(candidates, workspace_bytes)) {
            const double time = milliseconds(lt, gemm, algorithm);
            if (time < best.milliseconds) best = {algorithm, time};
        }
        return best;
    }

    const cuda::LtLibrary& opened() const { return library_; }

private:
    Device& device_;
    std::int64_t bytes_;
    Buffer workspace_;
    cuda::LtLibrary library_;
    cuda::Event start_{cuda::Event::Purpose::time};
    cuda::Event end_{cuda::Event::Purpose::time};
};

/// Milliseconds of each weight gradient with the workspace that runs have, and with more.
Json with_workspaces(Device& device, LtCalls& calls) {
    Json rows = Json::array();
    for (const Layer& layer : layers) {
        const cuda::Gemm gemm = {.a = Matrix(device.random(bf16, {tokens, layer.out})).transposed(),
                                 .b = Matrix(device.random(bf16, {tokens, layer.in})),
                                 .c = Matrix(device.zeros(DType::f32, {layer.out, layer.in}))};
        const cuda::LtGemm lt(calls.opened(), gemm);
        Json row = {{"gemm", text(layer.name, ".dw")}};
        for (const std::int64_t size : {32, 64, 128})
            row[text("ms_", size, "_mib")] = calls.fastest(lt, gemm, size * mib).milliseconds;
        print(to_line(row));
        rows.push_back(row);
        device.free_all();
    }
    return rows;
}

std::vector<float> values_of(Device& device, const Tensor& x) {
    const Buffer memory = device.backend().allocate(x.bytes(), MemorySpace::host);
    const Tensor host(memory.data(), x.dtype(), x.shape());
    device.backend().copy(host, x);
    device.backend().synchronize();
    const auto* values = reinterpret_cast<const Bf16*>(host.data());
    std::vector<float> result;
    std::transform(values, values + x.elements(), std::back_inserter(result),
                   [](Bf16 value) { return to_float(value); });
    return result;
}

/// The share of sums that are round(product + residual).
double equal_share(const std::vector<float>& products, const std::vector<float>& residuals,
                   const std::vector<float>& sums) {
    std::int64_t equal = 0;
    for (std::size_t i = 0; i < sums.size(); ++i)
        equal += to_float(from_float<Bf16>(products[i] + residuals[i])) == sums[i] ? 1 : 0;
    return static_cast<double>(equal) / static_cast<double>(sums.size());
}

/// Milliseconds of y = x w^T (+ bias) and of y += x w^T (+ bias), and the share of elements in
/// which the latter has the bits of the residual added to the former, rounded first; null where the
/// library declines it.
Json with_residual(Device& device, LtCalls& calls, const Layer& layer, bool has_bias) {
    const Tensor y = device.zeros(bf16, {tokens, layer.out});
    const Tensor residual = device.random(bf16, {tokens, layer.out});
    const Tensor sum = device.zeros(bf16, {tokens, layer.out});
    const Tensor bias = device.random(bf16, {layer.out});
    cuda::Gemm plain = {.a = Matrix(device.random(bf16, {tokens, layer.in})),
                        .b = Matrix(device.random(bf16, {layer.out, layer.in}, 0.02f)).transposed(),
                        .c = Matrix(y)};
    if (has_bias) plain.bias = bias.data();
    cuda::Gemm adding = plain;
    adding.c = Matrix(sum);
    adding.accumulate = true;
    const cuda::LtGemm lt(calls.opened(), plain);
    const auto best = calls.fastest(lt, plain, 32 * mib);
    const double added = calls.fastest(lt, adding, 32 * mib).milliseconds;
    device.backend().copy(sum, residual);
    const bool runs = calls.run(lt, plain, best.algorithm) && calls.run(lt, adding, best.algorithm);
    const double share =
        equal_share(values_of(device, y), values_of(device, residual), values_of(device, sum));
    device.free_all();
    Json row = {{"gemm", text(layer.name, ".forward")},
                {"bias", has_bias},
                {"ms", best.milliseconds},
                {"ms_added", added},
                {"same_bits", runs ? Json(share) : Json()}};
    print(to_line(row));
    return row;
}

}  // namespace

Json measure_contention(const std::vector<int>& held) {
    Device device(limits());
    // For GPTRAIN_GEMM_SMS: the blocks that spin stand for messages.
    cuda::set_messages_in_flight(device.backend(), [] { return true; });
    const std::vector<NamedOp> ops = block_gemms(device);
    device.backend().set_choices(device.backend().tune([&] {
        for (const NamedOp& op : ops)
            op.run();
    }));
    Json rows = Json::array();
    for (const int blocks : held) {
        const Spinner spinner(blocks);
        Json by_gemm = Json::object();
        double sum = 0;
        for (const NamedOp& op : ops) {
            const double milliseconds = 1e3 * device.seconds([&](std::int64_t) { op.run(); });
            by_gemm[op.name] = milliseconds;
            sum += milliseconds;
        }
        print(blocks, " multiprocessors held: ", fixed(sum, 3), " ms");
        rows.push_back({{"held", blocks}, {"ms", sum}, {"ms_by_gemm", by_gemm}});
    }
    return {{"bench", "contention"},
            {"multiprocessors", cuda::open_device(0).multiprocessors},
            {"rows", rows}};
}

Json measure_gemms() {
    Device device(limits());
    LtCalls calls(device, 128 * mib);
    Json residuals = Json::array();
    for (const Layer& layer : {layers[1], layers[3]}) {
        for (const bool bias : {false, true})
            residuals.push_back(with_residual(device, calls, layer, bias));
    }
    return {{"bench", "gemms"},
            {"workspaces", with_workspaces(device, calls)},
            {"residuals", residuals}};
}

}  // namespace gptrain::bench
