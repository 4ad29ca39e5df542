// The kernel for grouped GEMMs on sm_90a and its launch. Its blocks work as those of gemm.cu: they
// have other units, and c has rows of one expert after those of another.
#include "cuda/gemm/sm90/grouped.h"

#include "base/error.h"
#include "cuda/gemm/sm90/grouped.cuh"
#include "cuda/gemm/sm90_plan.h"

namespace gptrain::cuda::sm90 {
namespace {

template <class T, GroupedKind kind>
class GroupedComputing {
public:
    __device__ GroupedComputing(const GroupedWork& work, GemmShared& shared, int group)
        : work_(work), shared_(shared), finisher_(work, shared, group), products_(shared, group) {}

    __device__ void run() {
        const int rank = cluster_rank();
        for (Ring<unit_slots> units;; units.advance()) {
            TakenUnit unit = {};
            if (lane_index() == 0) unit = read_unit(shared_, units);
            for (unsigned* word : {&unit.number, &unit.expert, &unit.begin, &unit.rows})
                *word = shuffle(*word, 0);
            if (static_cast<int>(unit.expert) >= work_.experts) break;
            const GroupedPlace place = place_of<kind>(work_, unit, rank);
            Sums c;
            if (kind == GroupedKind::weight_grad && place.steps == 0) {
                unrolled<tile_columns / 2>([&](int i) { c[i] = 0; });
            } else {
                products_.add(c, place.steps, place.last_rows);
            }
            if constexpr (kind == GroupedKind::weight_grad) {
                finisher_.store_sums(place, c);
            } else {
                finisher_.store_rows(place, c);
            }
        }
        if constexpr (kind != GroupedKind::weight_grad) finisher_.wait_for_stores();
    }

private:
    static constexpr Major a_major = kind == GroupedKind::weight_grad ? Major::mn : Major::k;
    static constexpr Major b_major = kind == GroupedKind::forward ? Major::k : Major::mn;

    const GroupedWork& work_;
    GemmShared& shared_;
    GroupedFinisher<T> finisher_;
    StepProducts<T, a_major, b_major> products_;
};

template <class T, GroupedKind kind>
__global__ void __launch_bounds__(threads_of_block, 1)
    grouped_kernel(const __grid_constant__ GroupedWork work) {
    auto& shared = shared_memory<GemmShared>();
    init_barriers(shared);
    const int group = warp_index() / group_warps;
    if (group == 0) {
        lower_registers<loader_registers>();
        const int warp = warp_index();
        if (warp == 0 && lane_index() == 0) {
            load_grouped_steps<kind>(work, shared);
        } else if (warp == 1 && lane_index() == 0 && cluster_rank() == 0) {
            take_grouped_units<kind>(work, shared);
        }
    } else {
        raise_registers<compute_registers>();
        GroupedComputing<T, kind>(work, shared, group - 1).run();
    }
    // The other block arrives at barriers of this one.
    cluster_barrier();
}

// ---- host ---------------------------------------------------------------------------------------

/// Rows of P parts, as a map has them.
Tensor in_parts(const Tensor& rows, std::int64_t parts) {
    return {rows.data(), rows.dtype(), {1, rows.size(0), parts, rows.size(1) / parts}};
}

/// Matrices [P, E, O, I], as a map has them.
Tensor in_matrices(const Tensor& weight) {
    return {weight.data(),
            weight.dtype(),
            {weight.size(0) * weight.size(1), weight.size(2), 1, weight.size(3)}};
}

template <class T, GroupedKind kind>
void run(const GroupedGemm& gemm, const OpContext& context) {
    constexpr bool weight_grad = kind == GroupedKind::weight_grad;
    constexpr bool forward = kind == GroupedKind::forward;
    constexpr int map_rows = 128;
    const std::int64_t parts = gemm.parts();
    const std::int64_t cols = forward ? gemm.outputs() : gemm.inputs();
    const std::int64_t summed = forward ? gemm.inputs() : gemm.outputs();
    GroupedWork work;
    work.a = padded_tensor_map(in_parts(gemm.a, forward ? 1 : parts),
                               weight_grad ? step_length : map_rows);
    work.b = padded_tensor_map(weight_grad ? in_parts(gemm.b, 1) : in_matrices(gemm.b),
                               forward ? map_rows : step_length);
    work.c = weight_grad ? TensorMap{}
                         : padded_tensor_map(in_parts(gemm.c, forward ? parts : 1), group_rows);
    work.offsets = gemm.offsets.as<std::int32_t>();
    work.experts = gptrain::narrow<int>(gemm.experts());
    work.parts = gptrain::narrow<int>(parts);
    work.rows = gptrain::narrow<int>(gemm.outputs());
    work.cols = gptrain::narrow<int>(cols);
    work.pairs = gptrain::narrow<int>(div_ceil(gemm.outputs(), tile_rows * cluster_blocks));
    work.columns = gptrain::narrow<int>(div_ceil(cols, tile_columns));
    work.steps = gptrain::narrow<int>(div_ceil(summed, step_length));
    context.scratch.reset();
    work.next_unit = context.scratch.take<unsigned>(1);
    set_bytes(work.next_unit, 0, sizeof(unsigned), context.stream);
    work.to = gemm.c.data();
    work.to_stride = weight_grad ? gemm.inputs() : gemm.c.size(1);
    work.bias = gemm.bias.empty() ? nullptr : gemm.bias.data();
    work.accumulate = gemm.accumulate;
    const std::int64_t clusters = std::min<std::int64_t>(
        most_grouped_units(gemm), div_ceil(context.device.multiprocessors, cluster_blocks));
    launch(context.stream,
           {.blocks = clusters * cluster_blocks,
            .threads = threads_of_block,
            .shared_bytes = sizeof(GemmShared),
            .cluster_blocks = cluster_blocks},
           grouped_kernel<T, kind>, work);
}

template <class T>
void run_as(const GroupedGemm& gemm, const OpContext& context) {
    switch (gemm.kind) {
        case GroupedKind::forward: return run<T, GroupedKind::forward>(gemm, context);
        case GroupedKind::input_grad: return run<T, GroupedKind::input_grad>(gemm, context);
        case GroupedKind::weight_grad: return run<T, GroupedKind::weight_grad>(gemm, context);
    }
}

}  // namespace

void multiply(const GroupedGemm& gemm, const OpContext& context) {
    GPTRAIN_CHECK(covers_grouped(gemm), "sm90::multiply does not support these GEMMs");
    gemm.a.dtype() == DType::bf16 ? run_as<Bf16>(gemm, context) : run_as<F16>(gemm, context);
}

}  // namespace gptrain::cuda::sm90
