#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "gpu_bench.h"
#include "gpu_device.h"

namespace gptrain::bench {
namespace {

constexpr DType bf16 = DType::bf16;
constexpr DType fp32 = DType::f32;
constexpr std::int64_t vocab = 50257;
constexpr std::int64_t seq_length = 1024;

/// Calls one op on the tensors of one set.
using Call = std::function<void()>;

/// Measures ops and collects one row for each.
class Table {
public:
    explicit Table(Device& device) : device_(device) {}

    /// `make` returns a call with new tensors each time. `bytes` counts each input as read once and
    /// each output as written once.
    void add(const std::string& name, std::int64_t bytes, const std::function<Call()>& make) {
        std::vector<Call> calls;
        for (std::int64_t i = 0; i < Device::sets; ++i)
            calls.push_back(make());
        const double seconds =
            device_.seconds([&](std::int64_t set) { calls[static_cast<std::size_t>(set)](); });
        device_.free_all();
        const double rate = static_cast<double>(bytes) / seconds * 1e-9;
        if (rows_.empty()) copy_rate_ = rate;
        print(name, ": ", fixed(seconds * 1e6, 1), " us, ", fixed(rate, 0), " GB/s, ",
              fixed(100 * rate / copy_rate_, 1), " % of a copy");
        rows_.push_back({{"kernel", name},
                         {"bytes", bytes},
                         {"us", seconds * 1e6},
                         {"gb_per_s", rate},
                         {"of_copy", rate / copy_rate_}});
    }
    Json rows() const { return rows_; }

private:
    Device& device_;
    double copy_rate_ = 0;
    Json rows_ = Json::array();
};

// The number of tokens of a bf16 tensor [tokens, H] of a quarter of a gigabyte.
std::int64_t tokens_of(std::int64_t hidden) {
    return (std::int64_t{1} << 27) / hidden / seq_length * seq_length;
}

void add_copies(Table& table, Device& device) {
    Backend& backend = device.backend();
    constexpr std::int64_t count = std::int64_t{1} << 27;
    table.add("copy", 2 * 4 * count, [&]() -> Call {
        const Tensor from = device.random(fp32, {count});
        const Tensor to = device.zeros(fp32, {count});
        return [=, &backend] { backend.copy(to, from); };
    });
    table.add("fill", 4 * count, [&]() -> Call {
        const Tensor x = device.zeros(fp32, {count});
        return [=, &backend] { backend.run(Fill{.x = x, .value = 0}); };
    });
    table.add("cast fp32 to bf16", 6 * count, [&]() -> Call {
        const Tensor from = device.random(fp32, {count});
        const Tensor to = device.zeros(bf16, {count});
        return [=, &backend] { backend.run(Cast{.to = to, .from = from}); };
    });
    table.add("init_normal", 4 * count, [&]() -> Call {
        const Tensor x = device.zeros(fp32, {count});
        return [=, &backend] {
            backend.run(
                InitNormal{.x = x, .shard = Shard::whole("x", {count}), .seed = 1, .std = 1});
        };
    });
}

/// For ops that also find the largest absolute value of their results, as FP8 GEMMs need it.
Tensor amax_if(bool measured, Device& device) {
    return measured ? device.zeros(fp32, {1}) : Tensor();
}
std::string name_of_op(const std::string& name, bool measured) {
    return measured ? name + ", amax" : name;
}

void add_norms(Table& table, Device& device, std::int64_t hidden, bool measured) {
    Backend& backend = device.backend();
    const std::int64_t tokens = tokens_of(hidden);
    const Shape shape = {tokens, hidden};
    const auto norm = [&, hidden] {
        Norm result;
        result.weight = device.random(bf16, {hidden});
        result.bias = device.random(bf16, {hidden});
        return result;
    };
    const std::string size = name_of_op(text(" H", hidden), measured);
    table.add("residual_norm_forward" + size, 4 * 2 * shape.elements(), [&]() -> Call {
        ResidualNormForward args;
        args.r = device.random(bf16, shape);
        args.y = device.random(bf16, shape);
        args.r_out = device.zeros(bf16, shape);
        args.norm = norm();
        args.n = device.zeros(bf16, shape);
        args.mean = device.zeros(fp32, {tokens});
        args.rstd = device.zeros(fp32, {tokens});
        args.seq_length = seq_length;
        args.amax = amax_if(measured, device);
        return [=, &backend] { backend.run(args); };
    });
    table.add("residual_norm_backward" + size, 4 * 2 * shape.elements(), [&]() -> Call {
        ResidualNormBackward args;
        args.dn = device.random(bf16, shape);
        args.r = device.random(bf16, shape);
        args.norm = norm();
        args.mean = device.zeros(fp32, {tokens});
        args.rstd = device.random(fp32, {tokens});
        args.dr = device.random(bf16, shape);
        args.dweight = device.zeros(fp32, {hidden});
        args.dbias = device.zeros(fp32, {hidden});
        args.seq_length = seq_length;
        args.amax = amax_if(measured, device);
        return [=, &backend] { backend.run(args); };
    });
}

void add_activations(Table& table, Device& device, bool measured) {
    Backend& backend = device.backend();
    constexpr std::int64_t ffn = 6400;
    const std::int64_t tokens = tokens_of(ffn);
    for (const auto activation : {Activation::gelu, Activation::swiglu}) {
        const Shape u_shape = {tokens, input_width(activation, ffn)};
        const Shape y_shape = {tokens, ffn};
        const std::string name = gated(activation) ? "swiglu" : "gelu";
        table.add(name_of_op(name + " forward", measured),
                  2 * (u_shape.elements() + y_shape.elements()), [&]() -> Call {
                      const ActivationForward args = {activation, device.random(bf16, u_shape),
                                                      device.zeros(bf16, y_shape),
                                                      amax_if(measured, device)};
                      return [=, &backend] { backend.run(args); };
                  });
        table.add(name_of_op(name + " backward", measured),
                  2 * (2 * u_shape.elements() + y_shape.elements()), [&]() -> Call {
                      const ActivationBackward args = {
                          activation, device.random(bf16, u_shape), device.random(bf16, y_shape),
                          device.zeros(bf16, u_shape), amax_if(measured, device)};
                      return [=, &backend] { backend.run(args); };
                  });
    }
}

/// GPT-2's vocabulary, learned positions and RoPE, at the width of its largest model.
void add_embeddings(Table& table, Device& device) {
    Backend& backend = device.backend();
    constexpr std::int64_t hidden = 1600;
    const std::int64_t tokens = tokens_of(hidden);
    const Shape shape = {tokens, hidden};
    const auto ids = [&] {
        return device.numbers(
            {tokens}, [](std::int64_t i) { return static_cast<std::int32_t>(i * 7919 % vocab); });
    };
    const auto positions = [&] {
        return device.numbers(
            {tokens}, [](std::int64_t i) { return static_cast<std::int32_t>(i % seq_length); });
    };
    table.add("embedding_forward", 2 * 2 * shape.elements(), [&]() -> Call {
        const EmbeddingForward args = {ids(), device.random(bf16, {vocab, hidden}), 0,
                                       device.zeros(bf16, shape)};
        return [=, &backend] { backend.run(args); };
    });
    const std::int64_t rows = std::min(tokens, vocab);
    table.add("embedding_backward", 2 * shape.elements() + 8 * rows * hidden, [&]() -> Call {
        const EmbeddingBackward args = {ids(), device.random(bf16, shape),
                                        device.zeros(fp32, {vocab, hidden}), 0};
        return [=, &backend] { backend.run(args); };
    });
    table.add("position_forward", 2 * 2 * shape.elements(), [&]() -> Call {
        PositionForward args;
        args.x = device.random(bf16, shape);
        args.positions = positions();
        args.weight = device.random(bf16, {seq_length, hidden});
        args.seq_length = seq_length;
        return [=, &backend] { backend.run(args); };
    });
    table.add("position_backward", 2 * shape.elements(), [&]() -> Call {
        PositionBackward args;
        args.dx = device.random(bf16, shape);
        args.positions = positions();
        args.dweight = device.zeros(fp32, {seq_length, hidden});
        args.seq_length = seq_length;
        return [=, &backend] { backend.run(args); };
    });
    constexpr std::int64_t head_dim = 64;
    const Shape heads = {tokens / seq_length, seq_length, hidden / head_dim, head_dim};
    table.add("rope", 2 * 2 * heads.elements(), [&]() -> Call {
        const Rope args = {device.random(bf16, heads),
                           positions().view({tokens / seq_length, seq_length})};
        return [=, &backend] { backend.run(args); };
    });
}

void add_loss(Table& table, Device& device) {
    Backend& backend = device.backend();
    constexpr std::int64_t rows = 8192;
    constexpr std::int64_t row_stride = 50304;
    table.add("cross_entropy", 2 * 2 * rows * vocab, [&]() -> Call {
        CrossEntropy args;
        args.logits = device.random(bf16, {rows, row_stride}).slice(1, 0, vocab);
        args.targets = device.numbers(
            {rows}, [](std::int64_t i) { return static_cast<std::int32_t>(i * 7919 % vocab); });
        args.weights = device.random(fp32, {rows});
        args.step = device.step_state();
        args.sink.sum = args.step.loss_sum();
        return [=, &backend] { backend.run(args); };
    });
}

void add_optimizer(Table& table, Device& device) {
    Backend& backend = device.backend();
    constexpr std::int64_t count = std::int64_t{1} << 26;
    const Shape shape = {count};
    table.add("square_sum", 4 * 2 * count, [&]() -> Call {
        const Tensor x = device.random(fp32, {2 * count});
        const Tensor total = device.zeros(DType::f64, {1});
        return
            [=, &backend] { backend.run(SquareSum{.addends = std::span(&x, 1), .total = total}); };
    });
    table.add("adamw", 30 * count, [&]() -> Call {
        const AdamWPiece piece = {device.random(fp32, shape), device.random(fp32, shape),
                                  device.random(fp32, shape), device.zeros(fp32, shape),
                                  device.zeros(bf16, shape),  true};
        const StepRef step = device.step_state();
        return [=, &backend] {
            backend.run(AdamW{.pieces = std::span(&piece, 1), .constants = {}, .step = step});
        };
    });
}

void add_linear_parts(Table& table, Device& device) {
    Backend& backend = device.backend();
    constexpr std::int64_t width = 6400;
    const std::int64_t tokens = tokens_of(width);
    const Shape shape = {tokens, width};
    table.add("bias_grad", 2 * shape.elements(), [&]() -> Call {
        const Tensor dy = device.random(bf16, shape);
        const Tensor dbias = device.zeros(fp32, {width});
        return [=, &backend] { backend.run(BiasGrad{.dy = dy, .dbias = dbias}); };
    });
    table.add("amax", 2 * shape.elements(), [&]() -> Call {
        const Tensor x = device.random(bf16, shape);
        const Tensor amax = device.zeros(fp32, {1});
        return [=, &backend] { backend.run(UpdateAmax{.x = x, .amax = amax}); };
    });
    const auto to_fp8 = [&](bool sum) -> Call {
        ToFp8 args;
        args.x = device.random(bf16, shape);
        args.amax = device.random(fp32, {1});
        args.out = {device.zeros(DType::f8e5m2, shape),
                    device.zeros(DType::f8e5m2, {width, tokens}), device.zeros(fp32, {1})};
        if (sum) args.row_sum = device.zeros(fp32, {width});
        return [=, &backend] { backend.run(args); };
    };
    table.add("to_fp8, both ways", 4 * shape.elements(), [&] { return to_fp8(false); });
    table.add("to_fp8, both ways and sum", 4 * shape.elements(), [&] { return to_fp8(true); });
    table.add("transpose_fp8", 2 * shape.elements(), [&]() -> Call {
        const TransposeFp8 args = {.rowwise = device.zeros(DType::f8e4m3, shape),
                                   .columnwise = device.zeros(DType::f8e4m3, {width, tokens})};
        return [=, &backend] { backend.run(args); };
    });
}

OpLimits limits() {
    OpLimits limits;
    limits.compute = bf16;
    limits.sequences = tokens_of(768) / seq_length;
    limits.seq_length = seq_length;
    limits.hidden = 4096;
    limits.heads = 32;
    limits.groups = 32;
    limits.head_dim = 128;
    limits.widest = 4 * 4096;
    limits.vocab = vocab;
    limits.head_rows = 8192;
    return limits;
}

}  // namespace

Json measure_kernels() {
    Device device(limits());
    Table table(device);
    add_copies(table, device);
    for (const bool measured : {false, true}) {
        for (const std::int64_t hidden : {768, 1600, 4096})
            add_norms(table, device, hidden, measured);
        add_activations(table, device, measured);
    }
    add_embeddings(table, device);
    add_loss(table, device);
    add_optimizer(table, device);
    add_linear_parts(table, device);
    return {{"bench", "kernels"}, {"rows", table.rows()}};
}

}  // namespace gptrain::bench
