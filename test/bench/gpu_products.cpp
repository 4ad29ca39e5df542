#include <string>
#include <vector>

#include "base/log.h"
#include "cuda/ops/attention.h"
#include "gpu_bench.h"
#include "gpu_device.h"

namespace gptrain::bench {
namespace {

constexpr DType bf16 = DType::bf16;

struct AttentionShape {
    std::int64_t sequences, heads, head_dim, seq_length;
    double forward_flops() const {
        return 2.0 * static_cast<double>(sequences * heads * seq_length * seq_length * head_dim);
    }
};
// Shapes of GPT-2 124M, GPT-2 1.5B and GPT-3 6.7B.
constexpr AttentionShape shapes[] = {{64, 12, 64, 1024}, {32, 25, 64, 1024}, {4, 32, 128, 2048}};

OpLimits limits_of(const AttentionShape& shape) {
    OpLimits limits;
    limits.compute = bf16;
    limits.sequences = shape.sequences;
    limits.seq_length = shape.seq_length;
    limits.hidden = shape.heads * shape.head_dim;
    limits.heads = shape.heads;
    limits.groups = shape.heads;
    limits.head_dim = shape.head_dim;
    return limits;
}

/// q, k and v as slices of the packed output of one GEMM, as in the model.
struct Packed {
    Tensor q, k, v;
    Packed(const Tensor& packed, const AttentionShape& s) {
        const std::int64_t width = s.heads * s.head_dim;
        const Shape heads = {s.sequences, s.seq_length, s.heads, s.head_dim};
        q = packed.slice(1, 0, width).view(heads);
        k = packed.slice(1, width, width).view(heads);
        v = packed.slice(1, 2 * width, width).view(heads);
    }
};

AttentionBackward make_call(Device& device, const AttentionShape& s) {
    const Shape packed = {s.sequences * s.seq_length, 3 * s.heads * s.head_dim};
    const Shape heads = {s.sequences, s.seq_length, s.heads, s.head_dim};
    const Packed in(device.random(bf16, packed), s);
    const Packed out(device.zeros(bf16, packed), s);
    AttentionBackward args;
    args.forward.q = in.q;
    args.forward.k = in.k;
    args.forward.v = in.v;
    args.forward.o = device.zeros(bf16, heads);
    args.forward.lse = device.zeros(DType::f32, {s.sequences, s.heads, s.seq_length});
    args.d_o = device.random(bf16, heads);
    args.dq = out.q;
    args.dk = out.k;
    args.dv = out.v;
    return args;
}

struct Kernels {
    std::string name;
    cuda::DeviceProperties device;
    bool sm90;
};

/// All kernels that run on the first GPU.
std::vector<Kernels> compiled_kernels() {
    const cuda::DeviceProperties device = cuda::open_device(0);
    std::vector<Kernels> kernels = {{"portable", device, false}};
    if (device.major == 9 && device.minor == 0) kernels.push_back({"sm_90a", device, true});
    return kernels;
}

Json measure_kernels(Device& device, const AttentionShape& shape, const Kernels& kernels,
                     const std::vector<AttentionBackward>& calls) {
    const std::int64_t bytes = cuda::attention_scratch_bytes(limits_of(shape));
    const Buffer memory = device.backend().allocate(bytes, MemorySpace::device);
    Scratch scratch(memory.data(), bytes);
    const cuda::OpContext context = {device.stream(), scratch, kernels.device, kernels.sm90};
    const auto time = [&](const auto& op) {
        return device.seconds([&](std::int64_t set) {
            scratch.reset();
            op(calls[static_cast<std::size_t>(set)]);
        });
    };
    const double forward =
        time([&](const AttentionBackward& call) { cuda::run(call.forward, context); });
    const double backward = time([&](const AttentionBackward& call) { cuda::run(call, context); });
    const std::string name =
        text("B", shape.sequences, " N", shape.heads, " D", shape.head_dim, " S", shape.seq_length);
    const double forward_rate = shape.forward_flops() / forward * 1e-12;
    const double backward_rate = 2.5 * shape.forward_flops() / backward * 1e-12;
    print(name, " gptrain ", kernels.name, ": forward ", fixed(forward * 1e3, 3), " ms ",
          fixed(forward_rate, 0), " TFLOP/s, backward ", fixed(backward * 1e3, 3), " ms ",
          fixed(backward_rate, 0), " TFLOP/s");
    return {{"shape", name},
            {"kernel", text("gptrain ", kernels.name)},
            {"forward_ms", forward * 1e3},
            {"forward_tflops", forward_rate},
            {"backward_ms", backward * 1e3},
            {"backward_tflops", backward_rate}};
}

}  // namespace

Json measure_product(double seconds) {
    constexpr std::int64_t n = 8192;
    OpLimits limits;
    limits.compute = bf16;
    limits.sequences = 1;
    limits.seq_length = n;
    limits.hidden = n;
    limits.heads = 1;
    limits.groups = 1;
    limits.head_dim = 64;
    limits.widest = n;
    Device device(limits);
    Backend& backend = device.backend();
    const LinearForward args = {.x = device.random(bf16, {n, n}),
                                .weight = device.random(bf16, {n, n}, 0.02f),
                                .bias = {},
                                .y = device.zeros(bf16, {n, n})};
    const auto product = [&](std::int64_t) { backend.run(args); };
    backend.set_choices(backend.tune([&] { product(0); }));
    const double one = device.seconds(product);
    const auto count = static_cast<std::int64_t>(seconds / one) + 1;
    cuda::Event start(cuda::Event::Purpose::time);
    cuda::Event end(cuda::Event::Purpose::time);
    start.record(device.stream());
    for (std::int64_t i = 0; i < count; ++i)
        product(i);
    end.record(device.stream());
    end.synchronize();
    const double each = end.milliseconds_since(start) * 1e-3 / static_cast<double>(count);
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n * n);
    return {{"bench", "product"},
            {"size", n},
            {"products", count},
            {"product_tflops", flops / each * 1e-12},
            {"product_tflops_short", flops / one * 1e-12}};
}

Json measure_attention() {
    Json rows = Json::array();
    for (const AttentionShape& shape : shapes) {
        Device device(limits_of(shape));
        std::vector<AttentionBackward> calls;
        for (std::int64_t i = 0; i < Device::sets; ++i)
            calls.push_back(make_call(device, shape));
        for (const Kernels& kernels : compiled_kernels())
            rows.push_back(measure_kernels(device, shape, kernels, calls));
    }
    return {{"bench", "attention"}, {"rows", rows}};
}

}  // namespace gptrain::bench
