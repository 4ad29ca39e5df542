#include "calibrate/tuning.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/log.h"

namespace gptrain {
namespace {

/// The number of different random values; matrices repeat them.
constexpr std::int64_t normal_count = std::int64_t{1} << 18;

std::int64_t elements(const MatrixLayout& form) {
    return checked_mul(form.rows, form.row_stride);
}

std::int64_t bytes(const MatrixLayout& form) {
    const std::int64_t end = form.offset + checked_mul(elements(form), size_of(form.dtype));
    return round_up(end, Arena::alignment);
}

/// Shapes of the scales for blocks of both operands; without blocks of no elements.
struct BlockScales {
    Shape first;
    Shape second;
};
BlockScales block_scales(const LinearOp& op) {
    if (op.in_blocks == 0) return {{0}, {0}};
    // Weights alone have blocks of 128 x 128.
    const bool weight = op.kind != LinearOp::Kind::weight_grad;
    return {fp8_row_scales(op.first.rows, op.first.cols),
            weight ? fp8_block_scales(op.second.rows, op.second.cols)
                   : fp8_row_scales(op.second.rows, op.second.cols)};
}

std::int64_t bytes(const LinearOp& op) {
    const auto [first, second] = block_scales(op);
    std::int64_t sum = round_up((op.experts + 1) * size_of(DType::i32), Arena::alignment);
    for (const MatrixLayout* form :
         {&op.first, &op.second, &op.extra, &op.result, &op.gelu, &op.swiglu})
        sum += bytes(*form);
    for (const Shape* scales : {&first, &second})
        sum += round_up(4 * scales->elements(), Arena::alignment);
    return sum;
}

/// The first row of each expert, and the end: 3/4 and 5/4 of the mean in turn, so that tiles end
/// inside of an expert.
std::vector<std::int32_t> offsets_of(const LinearOp& op) {
    const std::int64_t rows = op.expected > 0 ? op.expected : op.first.rows;
    std::vector<std::int32_t> offsets;
    for (std::int64_t e = 0; e <= op.experts; ++e) {
        const std::int64_t quarters = e == op.experts ? 4 * e : 4 * e - e % 2;
        offsets.push_back(narrow<std::int32_t>(rows * quarters / (4 * op.experts)));
    }
    return offsets;
}

std::int64_t largest_bytes(const LinearOps& ops) {
    std::int64_t most = 0;
    for (const LinearOp& op : ops)
        most = std::max(most, bytes(op));
    return most;
}

/// Memory for one op at a time. Runs ops on it.
class Trials {
public:
    Trials(Backend& backend, const LinearOps& ops, const OpLimits& limits)
        : backend_(backend),
          arena_(backend, MemorySpace::device, "tuning",
                 round_up(backend.scratch_bytes(limits), Arena::alignment) + 4 * normal_count +
                     2 * Arena::alignment + largest_bytes(ops)) {
        backend.use_scratch(arena_.allocate(DType::u8, {backend.scratch_bytes(limits)}));
        normals_ = arena_.allocate(DType::f32, {normal_count});
        backend.run(InitNormal{
            .x = normals_, .shard = Shard::whole("tuning", {normal_count}), .seed = 1, .std = 1});
        amax_ = arena_.allocate(DType::f32, {1});
        backend.run(Fill{.x = amax_, .value = 0});
        backend.run(UpdateAmax{.x = normals_, .amax = amax_});
        scale_ = arena_.allocate(DType::f32, {1});
    }

    /// Runs each op once; calls `on_progress` after each.
    void run(const LinearOps& ops, const std::function<void()>& on_progress) {
        for (const LinearOp& op : ops) {
            run(op);
            on_progress();
        }
    }

private:
    void run(const LinearOp& op) {
        const ArenaFrame frame(arena_);
        if (op.experts > 0) return run_of_experts(op);
        const Tensor first = matrix(op.first);
        const Tensor second = matrix(op.second);
        const Tensor extra = matrix(op.extra);
        const Tensor result = matrix(op.result);
        const Tensor gelu = matrix(op.gelu);
        const Tensor swiglu = matrix(op.swiglu);
        const bool fp8 = op.first.is_fp8();
        const auto plain = [&](const Tensor& x) { return fp8 ? Tensor() : x; };
        const BlockScales shapes = block_scales(op);
        const bool blocks = op.in_blocks != 0;
        const Tensor first_scale = blocks ? scales(shapes.first) : scale_;
        const Tensor second_scale = blocks ? scales(shapes.second) : scale_;
        const auto rows = [&](const Tensor& x, const Tensor& scale) {
            return fp8 ? Fp8Matrix{.rowwise = x, .columnwise = {}, .scale = scale} : Fp8Matrix();
        };
        const auto columns = [&](const Tensor& x, const Tensor& scale) {
            return fp8 ? Fp8Matrix{.rowwise = {},
                                   .columnwise = x,
                                   .scale = scale,
                                   .column_scale = blocks ? scale : Tensor()}
                       : Fp8Matrix();
        };
        switch (op.kind) {
            case LinearOp::Kind::forward:
                return backend_.run(LinearForward{.x = plain(first),
                                                  .weight = plain(second),
                                                  .bias = extra,
                                                  .y = result,
                                                  .gelu = gelu,
                                                  .x8 = rows(first, first_scale),
                                                  .weight8 = rows(second, second_scale),
                                                  .accumulate = op.accumulate != 0,
                                                  .swiglu = swiglu});
            case LinearOp::Kind::input_grad:
                return backend_.run(
                    LinearInputGrad{.dy = plain(first),
                                    .weight = plain(second),
                                    .gelu_input = swiglu.empty() ? extra : Tensor(),
                                    .dx = result,
                                    .dy8 = rows(first, first_scale),
                                    .weight8 = columns(second, second_scale),
                                    .accumulate = op.accumulate != 0,
                                    .swiglu_input = swiglu.empty() ? Tensor() : extra,
                                    .du = swiglu});
            case LinearOp::Kind::weight_grad:
                return backend_.run(LinearWeightGrad{.x = plain(second),
                                                     .dy = plain(first),
                                                     .dweight = result,
                                                     .dbias = extra,
                                                     .x8 = columns(second, second_scale),
                                                     .dy8 = columns(first, first_scale),
                                                     .accumulate = op.accumulate != 0});
            case LinearOp::Kind::grouped_forward:
            case LinearOp::Kind::grouped_input_grad:
            case LinearOp::Kind::grouped_weight_grad: return;  // by run_of_experts
        }
    }

    void run_of_experts(const LinearOp& op) {
        const Tensor first = matrix(op.first);
        const Tensor second = matrix(op.second);
        const Tensor extra = matrix(op.extra);
        const Tensor result = matrix(op.result);
        const Tensor offsets = experts_offsets(op);
        const auto of_experts = [&](const Tensor& x) {
            const std::int64_t count = op.parts * op.experts;
            return x.view({op.parts, op.experts, x.size(0) / count, x.size(1)});
        };
        if (op.kind == LinearOp::Kind::grouped_forward) {
            backend_.run(GroupedForward{
                .x = first,
                .weight = of_experts(second),
                .offsets = offsets,
                .y = result,
                .bias = extra.empty() ? extra : extra.view({op.parts, op.experts, extra.size(1)}),
                .expected = op.expected});
        } else if (op.kind == LinearOp::Kind::grouped_input_grad) {
            backend_.run(GroupedInputGrad{.dy = first,
                                          .weight = of_experts(second),
                                          .offsets = offsets,
                                          .dx = result,
                                          .expected = op.expected});
        } else {
            backend_.run(GroupedWeightGrad{.x = second,
                                           .dy = first,
                                           .offsets = offsets,
                                           .dweight = of_experts(result),
                                           .accumulate = op.accumulate != 0,
                                           .expected = op.expected});
        }
    }

    Tensor experts_offsets(const LinearOp& op) {
        const Tensor offsets = arena_.allocate(DType::i32, {op.experts + 1});
        const std::vector<std::int32_t> values = offsets_of(op);
        backend_.upload(offsets, std::as_bytes(std::span(values)));
        return offsets;
    }

    /// Random values from N(0, 1), scaled if the dtype is FP8.
    Tensor matrix(const MatrixLayout& form) {
        if (form.rows == 0) return {};
        const Tensor memory = arena_.allocate(DType::u8, {bytes(form)});
        std::byte* data = memory.data() + form.offset;
        fill(Tensor(data, form.dtype, {elements(form)}));
        return Tensor(data, form.dtype, {form.rows, form.row_stride}).slice(1, 0, form.cols);
    }

    /// Scales for blocks that a real operand might have.
    Tensor scales(const Shape& shape) {
        Tensor values = arena_.allocate(DType::f32, shape);
        backend_.run(Fill{.x = values, .value = 0.01f});
        return values;
    }

    void fill(const Tensor& x) {
        for (std::int64_t begin = 0; begin < x.elements(); begin += normal_count) {
            const std::int64_t count = std::min(normal_count, x.elements() - begin);
            const Tensor part = x.slice(0, begin, count);
            const Tensor values = normals_.slice(0, 0, count);
            if (size_of(x.dtype()) > 1) {
                backend_.run(Cast{.to = part, .from = values});
            } else {
                backend_.run(ToFp8{.x = values,
                                   .amax = amax_,
                                   .out = {.rowwise = part, .columnwise = {}, .scale = scale_}});
            }
        }
    }

    Backend& backend_;
    Arena arena_;
    Tensor normals_;
    Tensor amax_;   ///< amax of the normals
    Tensor scale_;  ///< of FP8 matrices
};

// Ranks exchange raw bytes: they run one program on one kind of machine.
static_assert(std::is_trivially_copyable_v<LinearOp>);

std::string to_bytes(const LinearOps& ops) {
    const std::vector<LinearOp> list(ops.begin(), ops.end());
    return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(LinearOp)};
}

void add(LinearOps& ops, const std::string& bytes) {
    std::vector<LinearOp> list(bytes.size() / sizeof(LinearOp));
    std::memcpy(list.data(), bytes.data(), bytes.size());
    ops.insert(list.begin(), list.end());
}

void choose_on_all_ranks(Backend& backend, const LinearOps& own, const OpLimits& limits,
                         const MpiSession& ranks, const std::function<void()>& on_progress) {
    const std::vector<std::string> wanted = ranks.gather(to_bytes(own));
    std::string choices;
    ranks.run_on_first([&] {
        LinearOps all;
        for (const std::string& ops : wanted)
            add(all, ops);
        choices = try_linear_ops(backend, all, limits, on_progress);
    });
    choices = ranks.broadcast(choices);
    if (ranks.max(backend.set_choices(choices) ? 0 : 1) == 0) return;
    if (ranks.rank() == 0)
        warn(
            "some ranks have a different GPU or library from rank 0 and compute GEMMs differently: "
            "values that should be equal on all ranks may differ in the last bits");
}

void run_once(Backend& backend, const LinearOps& ops, const OpLimits& limits,
              const std::function<void()>& on_progress) {
    Trials trials(backend, ops, limits);
    trials.run(ops, on_progress);
    backend.synchronize();
}

}  // namespace

std::string try_linear_ops(Backend& backend, const LinearOps& ops, const OpLimits& limits,
                           const std::function<void()>& on_progress) {
    Trials trials(backend, ops, limits);
    return backend.tune([&] { trials.run(ops, on_progress); });
}

void prepare_linear_ops(Backend& backend, const LinearOps& own, const OpLimits& limits,
                        const MpiSession& ranks, const std::function<void()>& on_progress) {
    if (backend.can_tune()) choose_on_all_ranks(backend, own, limits, ranks, on_progress);
    if (backend.loads_code_late())
        ranks.run_on_all([&] { run_once(backend, own, limits, on_progress); });
}

}  // namespace gptrain
