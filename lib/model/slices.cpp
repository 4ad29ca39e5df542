#include "model/slices.h"

namespace gptrain {
namespace {

/// Views [B S, W] as [B, S, W].
Tensor by_sequence(const ModelContext& context, const Tensor& x) {
    return x.view({context.sequences, div_exact(x.size(0), context.sequences), x.size(1)});
}

Shape whole_shape(const ModelContext& context, const Tensor& slice) {
    return {slice.size(0) * context.mesh.tp().size(), slice.size(1)};
}

}  // namespace

Pending gather_slices(const ModelContext& context, const Tensor& whole, const Tensor& slice) {
    constexpr int along_sequence = 1;
    return context.mesh.tp().all_gather(by_sequence(context, whole), by_sequence(context, slice),
                                        along_sequence);
}

Pending sum_to_slice(const ModelContext& context, const Tensor& slice, const Tensor& part) {
    constexpr int along_sequence = 1;
    return context.mesh.tp().reduce_scatter(by_sequence(context, slice), by_sequence(context, part),
                                            along_sequence);
}

Tensor gather_rows(const ModelContext& context, const Tensor& x) {
    if (!context.sequence_parallel) return x;
    const Tensor whole = context.temporary(whole_shape(context, x));
    gather_slices(context, whole, x).wait();
    return whole;
}

Tensor amax_of_all_rows(const ModelContext& context, const WithAmax& x) {
    return context.sequence_parallel ? Tensor() : x.amax;
}

WithAmax gather_rows(const ModelContext& context, const WithAmax& x) {
    return {gather_rows(context, x.values), amax_of_all_rows(context, x)};
}

Tensor allocate_whole(const ModelContext& context, const Tensor& x) {
    return context.sequence_parallel ? context.temporary(whole_shape(context, x)) : x;
}

Pending reduce_parts(const ModelContext& context, const Tensor& x, const Tensor& part) {
    if (context.sequence_parallel) return sum_to_slice(context, x, part);
    return context.mesh.tp().all_reduce(x, Reduce::sum);
}

}  // namespace gptrain
