// The GEMM kernel for sm_90a and its launch. Persistent clusters of two blocks take units of work:
// a pair of tiles of c, for a part of the summed dim. One warpgroup loads operands, two compute,
// each 64 of the 128 rows of a tile (docs/cuda.md, "GEMMs for sm_90a").
#include "cuda/gemm/sm90/gemm.h"

#include "base/error.h"
#include "cuda/gemm/sm90/finish.cuh"
#include "cuda/gemm/sm90/load.cuh"
#include "cuda/gemm/sm90/multiply.cuh"

namespace gptrain::cuda::sm90 {
namespace {

/// A computing warpgroup. Only weight gradients divide the summed dim.
template <class T, Major a_major, Major b_major, GemmResult result>
class ComputingGroup {
public:
    __device__ ComputingGroup(const GemmWork& work, GemmShared& shared, int group)
        : work_(work),
          shared_(shared),
          group_(group),
          finisher_(work, shared, group),
          products_(shared, group) {}

    __device__ void run() {
        const int rank = cluster_rank();
        for (Ring<unit_slots> units;; units.advance()) {
            int unit = 0;
            if (lane_index() == 0) unit = static_cast<int>(read_unit(shared_, units).number);
            unit = shuffle(unit, 0);
            if (unit >= work_.units()) break;
            const UnitPlace place = place_of(work_, unit, rank);
            Sums c;
            products_.add(c, place.last_step - place.first_step);
            if constexpr (a_major == Major::mn) {
                const PartTurn turn(work_, place, group_);
                if (place.part > 0) turn.add_earlier(c, place.part);
                if (place.part + 1 < work_.parts) {
                    turn.hand_on(c, place.part, group_);
                    continue;
                }
            }
            finisher_.store_tile(place, c);
        }
        if constexpr (result != GemmResult::sums) finisher_.wait_for_stores();
    }

private:
    const GemmWork& work_;
    GemmShared& shared_;
    int group_;
    Finisher<T, result> finisher_;
    StepProducts<T, a_major, b_major> products_;
};

template <class T, Major a_major, Major b_major, GemmResult result>
__global__ void __launch_bounds__(threads_of_block, 1)
    gemm_kernel(const __grid_constant__ GemmWork work) {
    auto& shared = shared_memory<GemmShared>();
    init_barriers(shared);
    const int group = warp_index() / group_warps;
    if (group == 0) {
        lower_registers<loader_registers>();
        const int warp = warp_index();
        if (warp == 0 && lane_index() == 0) {
            load_steps<a_major, b_major>(work, shared);
        } else if (warp == 1 && lane_index() == 0 && cluster_rank() == 0) {
            take_units(work, shared);
        }
    } else {
        raise_registers<compute_registers>();
        ComputingGroup<T, a_major, b_major, result>(work, shared, group - 1).run();
    }
    // The other block arrives at barriers of this one.
    cluster_barrier();
}

// ---- host ---------------------------------------------------------------------------------------

/// The matrix in rows of its contiguous dim.
MapMatrix by_contiguous_dim(const Matrix& matrix, bool rows) {
    if (rows) return {matrix.data, matrix.rows, matrix.cols, matrix.row_stride};
    return {matrix.data, matrix.cols, matrix.rows, matrix.col_stride};
}

/// The sums and the counters, which are 0 at first.
void take_scratch(GemmWork& work, const UnitPlan& plan, const OpContext& context) {
    context.scratch.reset();
    auto* counters = context.scratch.take<unsigned>(plan.counters());
    set_bytes(counters, 0, plan.counters() * static_cast<std::int64_t>(sizeof(unsigned)),
              context.stream);
    work.next_unit = counters;
    work.turns = counters + 1;
    work.sums = plan.parts > 1 ? context.scratch.take<float>(plan.sums()) : nullptr;
}

template <class T, Major a_major, Major b_major, GemmResult result>
void run(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    constexpr int map_rows = 128;
    const UnitPlan plan(gemm, a_major == Major::mn ? parts : 1);
    const bool maps = result != GemmResult::sums;
    GemmWork work;
    work.a = matrix_map(by_contiguous_dim(gemm.a, a_major == Major::k),
                        a_major == Major::k ? map_rows : step_length);
    work.b = matrix_map(by_contiguous_dim(gemm.b, b_major == Major::mn),
                        b_major == Major::k ? map_rows : step_length);
    work.c = maps ? matrix_map(by_contiguous_dim(gemm.c, true), group_rows) : TensorMap{};
    work.gelu = result == GemmResult::gelu
                    ? matrix_map(by_contiguous_dim(gemm.gelu, true), group_rows)
                    : TensorMap{};
    work.rows = gptrain::narrow<int>(gemm.c.rows);
    work.cols = gptrain::narrow<int>(gemm.c.cols);
    work.pairs = gptrain::narrow<int>(plan.pairs);
    work.columns = gptrain::narrow<int>(plan.columns);
    work.steps = gptrain::narrow<int>(plan.steps);
    work.parts = gptrain::narrow<int>(plan.parts);
    take_scratch(work, plan, context);
    work.to = gemm.c.data;
    work.to_stride = gemm.c.row_stride;
    work.bias = gemm.bias;
    work.gelu_input = gemm.gelu_input.data;
    work.gelu_stride = gemm.gelu_input.row_stride;
    work.accumulate = gemm.accumulate;
    // A cluster whose multiprocessors are held by others starts late and finds less to do.
    const std::int64_t clusters = std::min<std::int64_t>(
        plan.units(), div_ceil(context.device.multiprocessors, cluster_blocks));
    launch(context.stream,
           {.blocks = clusters * cluster_blocks,
            .threads = threads_of_block,
            .shared_bytes = sizeof(GemmShared),
            .cluster_blocks = cluster_blocks},
           gemm_kernel<T, a_major, b_major, result>, work);
}

template <class T>
void run_as(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    using enum GemmResult;
    const bool wide = gemm.c.dtype == DType::f32;
    switch (layout_of(gemm)) {
        case GemmLayout::k_k:
            if (gemm.gelu.data != nullptr)
                return run<T, Major::k, Major::k, GemmResult::gelu>(gemm, parts, context);
            return wide ? run<T, Major::k, Major::k, sums>(gemm, parts, context)
                        : run<T, Major::k, Major::k, rounded>(gemm, parts, context);
        case GemmLayout::k_mn:
            if (gemm.gelu_input.data != nullptr)
                return run<T, Major::k, Major::mn, gelu_slope>(gemm, parts, context);
            return run<T, Major::k, Major::mn, rounded>(gemm, parts, context);
        case GemmLayout::mn_mn: return run<T, Major::mn, Major::mn, sums>(gemm, parts, context);
    }
}

}  // namespace

void multiply(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    GPTRAIN_CHECK(covers_gemm(gemm) && gemm.a_sums == nullptr && parts > 0,
                  "sm90::multiply does not support this GEMM");
    gemm.a.dtype == DType::bf16 ? run_as<Bf16>(gemm, parts, context)
                                : run_as<F16>(gemm, parts, context);
}

}  // namespace gptrain::cuda::sm90
