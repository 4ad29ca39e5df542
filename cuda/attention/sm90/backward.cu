// Backward attention on sm_90a: the kernel, its launch and the ops it supports. Persistent blocks
// take units of work. One thread loads tiles, two warpgroups compute, and each of these has a warp
// that delivers its results.
#include "cuda/attention/sm90/attention.h"
#include "cuda/attention/sm90/deliver.cuh"
#include "cuda/attention/sm90/gradients.cuh"
#include "cuda/attention/sm90/load.cuh"
#include "cuda/attention/sm90/row_statistics.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda::sm90 {
namespace {

template <class Shape, Variant variant>
__global__ void __launch_bounds__(threads_of_block, 1)
    backward_kernel(const __grid_constant__ BackwardWork work) {
    auto& shared = shared_memory<BackwardShared<Shape>>();
    if (thread_index() == 0) {
        for (BufferBarriers& barriers : shared.keys)
            init(barriers, computing_groups);
        for (BufferBarriers& barriers : shared.queries)
            init(barriers, computing_groups * group_warps);
        fence_barriers();
    }
    block_barrier();
    const int group = warp_index() / group_warps;
    if (group == 0) {
        lower_registers<Shape::loader_registers>();
        const int warp = warp_index();
        if (thread_index() == 0) {
            load_tiles_in<Shape>(work, shared, key_origin(work.p, variant == Variant::dropout));
        } else if (warp == 1) {
            Deliverer<Shape, 0>(work, shared).run();
        } else if (warp == 2) {
            Deliverer<Shape, 1>(work, shared).run();
        }
    } else {
        raise_registers<Shape::compute_registers>();
        Gradients<Shape, variant>(work, shared, group - 1).run();
    }
}

// ---- host ---------------------------------------------------------------------------------------

static_assert(sizeof(KeyRange) == key_range_bytes);

/// Computes the kernel's inputs in scratch memory and allocates its sums there; `rows` is the size
/// of a tile of queries.
void prepare_scratch(BackwardWork& work, const BackwardPlan& plan, int rows,
                     const OpContext& context) {
    const AttentionParams& p = work.p;
    work.query_tiles = gptrain::narrow<int>(plan.query_tiles);
    work.padded_queries = gptrain::narrow<int>(plan.padded);
    const std::int64_t all_heads = std::int64_t{p.sequences} * p.heads;
    auto* statistics = context.scratch.take<RowStatistics>(plan.statistics(all_heads));
    compute_row_statistics(p, work.gradients.d_o, work.padded_queries, statistics, context.stream);
    work.statistics = statistics;
    work.ranges = nullptr;
    if (p.first_visible != nullptr) {
        auto* ranges = context.scratch.take<KeyRange>(p.sequences * plan.query_tiles);
        compute_ranges(p, rows, work.query_tiles, ranges, context.stream);
        work.ranges = ranges;
    }
    work.sums = context.scratch.take<float>(plan.dq_blocks() * dq_block_size);
    auto* counters = context.scratch.take<unsigned>(plan.counters());
    set_bytes(counters, 0, plan.counters() * static_cast<std::int64_t>(sizeof(unsigned)),
              context.stream);
    work.next_unit = counters;
    work.turns = counters + 1;
    work.slots = gptrain::narrow<int>(plan.slots);
    work.slot_blocks = gptrain::narrow<int>(plan.slot_blocks);
    work.section = gptrain::narrow<int>(plan.section);
    work.sections = gptrain::narrow<int>(plan.sections);
    work.lacking = gptrain::narrow<int>(plan.lacking);
}

template <class Shape>
void run_backward(const AttentionBackward& args, const OpContext& context) {
    BackwardWork work;
    work.p = attention_params(args.forward);
    work.gradients = attention_gradients(args, nullptr);
    work.dv_amax = pointer_or_null<float>(args.amax);
    work.dqk_amax = args.amax_of_dv ? nullptr : work.dv_amax;
    const AttentionParams& p = work.p;
    const int at_once = std::min(context.device.multiprocessors, max_blocks);
    const BackwardPlan plan(p.sequences, p.queries, p.heads, p.groups, p.head_dim, at_once);
    prepare_scratch(work, plan, Shape::rows, context);
    work.q = tensor_map(args.forward.q, Shape::rows);
    work.d_o = tensor_map(args.d_o, Shape::rows);
    work.k = tensor_map(args.forward.k, key_rows);
    work.v = tensor_map(args.forward.v, key_rows);
    work.dq = args.accumulate ? TensorMap{} : tensor_map(args.dq, mma_rows);
    work.dk = args.accumulate ? TensorMap{} : tensor_map(args.dk, mma_rows);
    work.dv = args.accumulate ? TensorMap{} : tensor_map(args.dv, mma_rows);
    const Variant variant = variant_of(p, work.dv_amax);
    const int origin = key_origin(p, variant == Variant::dropout);
    work.key_tiles = static_cast<int>(div_ceil(p.keys - origin, key_rows));
    GPTRAIN_CHECK(work.key_tiles < static_cast<int>(turns_of_owner), "too many tiles of keys");
    work.units = gptrain::narrow<int>(std::int64_t{p.sequences} * p.groups * work.key_tiles);
    static_assert(sizeof(BackwardShared<Shape>) <= shared_bytes_of_block);
    launch(
        context.stream,
        {.blocks = std::min(work.units, at_once),
         .threads = threads_of_block,
         .shared_bytes = sizeof(BackwardShared<Shape>)},
        kernel_of(variant, backward_kernel<Shape, Variant::plain>,
                  backward_kernel<Shape, Variant::dropout>, backward_kernel<Shape, Variant::amax>),
        work);
}

bool whole_rows(const Tensor& tensor) {
    return aligned_16<Bf16>(HeadTensor(tensor));
}

}  // namespace

bool covers_attention(const AttentionBackward& args) {
    const auto pairs = [](const Tensor& tensor) {
        return reinterpret_cast<std::uintptr_t>(tensor.data()) % 8 == 0 &&
               tensor.stride(0) % 2 == 0 && tensor.stride(1) % 2 == 0 && tensor.stride(2) % 2 == 0;
    };
    const auto covered = [&](const Tensor& tensor) {
        return args.accumulate ? pairs(tensor) : whole_rows(tensor);
    };
    // An H100 stops with an illegal instruction at a tile of keys that begins before the first key,
    // most likely at the bulk store of its gradients.
    const bool dropout = args.forward.dropout.probability > 0;
    const bool begins_with_keys = !dropout || args.forward.k_begin % dropout_draw == 0;
    return begins_with_keys && covers_attention(args.forward) && whole_rows(args.d_o) &&
           covered(args.dq) && covered(args.dk) && covered(args.dv);
}

void attention_backward(const AttentionBackward& args, const OpContext& context) {
    GPTRAIN_CHECK(covers_attention(args), "sm90::attention_backward does not support this op");
    args.forward.q.size(3) == 64 ? run_backward<BackwardShape<64>>(args, context)
                                 : run_backward<BackwardShape<128>>(args, context);
}

}  // namespace gptrain::cuda::sm90
