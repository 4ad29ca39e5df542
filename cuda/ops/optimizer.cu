#include "cuda/ops/optimizer.h"

#include <algorithm>

#include "cuda/device/reduce.cuh"
#include "cuda/ops/adamw_update.cuh"
#include "cuda/ops/ordered_sum.h"
#include "cuda/ops/scratch_sizes.h"
#include "cuda/ops/small_moments.h"
#include "cuda/ops/step.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
/// Elements in an fp32 vector.
constexpr int width = 4;
using Floats = Vec<float, width>;

/// Tensors per launch. The table is a kernel argument, which is limited to 4 KiB.
constexpr int max_tensors = 56;

// ---- tables of tensors --------------------------------------------------------------------------

/// Elements that a block handles at a time.
constexpr std::int64_t tensor_chunk = 16384;

struct TensorEntry {
    float* data;
    std::int64_t count;
    std::int64_t first_chunk;
};

struct TensorTable {
    TensorEntry entries[max_tensors];
    int count = 0;
    std::int64_t chunks = 0;
};

/// Calls f(data, count, index) for this block's chunks, `index` being that of the entry.
template <class F>
__device__ inline void for_each_chunk(const TensorTable& table, const F& f) {
    for (std::int64_t chunk = block_index().x; chunk < table.chunks; chunk += grid_blocks().x) {
        const int index = find_entry(table.entries, table.count, chunk);
        const TensorEntry& entry = table.entries[index];
        const std::int64_t begin = (chunk - entry.first_chunk) * tensor_chunk;
        const std::int64_t rest = entry.count - begin;
        f(entry.data + begin, rest < tensor_chunk ? rest : tensor_chunk, index);
    }
}

/// Calls launch(table, blocks, first) for tables with as many tensors as fit in one; `first` is the
/// index of a table's first tensor. Empty tensors have entries without chunks.
void for_each_table(std::span<const Tensor> tensors, const auto& launch) {
    for (std::size_t first = 0; first < tensors.size(); first += max_tensors) {
        TensorTable table;
        for (const Tensor& tensor :
             tensors.subspan(first, std::min<std::size_t>(max_tensors, tensors.size() - first))) {
            table.entries[table.count++] = {tensor.as<float>(), tensor.elements(), table.chunks};
            table.chunks += div_ceil(tensor.elements(), tensor_chunk);
        }
        if (table.chunks > 0)
            launch(table, std::min(table.chunks, table_blocks), static_cast<std::int64_t>(first));
    }
}

// ---- clearing -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(block_size) clear_chunks(TensorTable table) {
    for_each_chunk(table, [](float* data, std::int64_t count, int) {
        const bool aligned = reinterpret_cast<std::uintptr_t>(data) % sizeof(Floats) == 0;
        const std::int64_t vectors = aligned ? count / width : 0;
        for (std::int64_t i = thread_index(); i < vectors; i += block_size)
            store(reinterpret_cast<Floats*>(data) + i, Floats{});
        for (std::int64_t i = vectors * width + thread_index(); i < count; i += block_size)
            data[i] = 0;
    });
}

// ---- sum of squares -----------------------------------------------------------------------------

__device__ inline double square(float x) {
    return static_cast<double>(x) * static_cast<double>(x);
}

/// This thread's part of a chunk.
__device__ inline double sum_squares(const float* data, std::int64_t count) {
    double sum = 0;
    const bool aligned = reinterpret_cast<std::uintptr_t>(data) % sizeof(Floats) == 0;
    const std::int64_t vectors = aligned ? count / width : 0;
    for (std::int64_t i = thread_index(); i < vectors; i += block_size) {
        const Floats x = load_once(reinterpret_cast<const Floats*>(data) + i);
        sum = sum + ((square(x[0]) + square(x[1])) + (square(x[2]) + square(x[3])));
    }
    for (std::int64_t i = vectors * width + thread_index(); i < count; i += block_size)
        sum = sum + square(data[i]);
    return sum;
}

struct WarpSums {
    double sums[block_size / warp_threads];
};
struct WarpMaxima {
    float maxima[block_size / warp_threads];
};

__global__ void __launch_bounds__(block_size) sum_chunks(TensorTable table, double* parts) {
    double sum = 0;
    for_each_chunk(table, [&](const float* data, std::int64_t count, int) {
        sum = sum + sum_squares(data, count);
    });
    sum = block_sum(sum, shared_memory<WarpSums>().sums);
    if (thread_index() == 0) parts[block_index().x] = sum;
}

// ---- non-finite values --------------------------------------------------------------------------

/// Marks "no entry"; larger than any index of a table.
constexpr float no_entry = 1024;
static_assert(max_tensors < no_entry, "indices of a table");

/// parts[b] = the first entry in which block b finds a non-finite value.
__global__ void __launch_bounds__(block_size)
    find_non_finite_entry(TensorTable table, const StepState* state, double* parts) {
    if (state->skip != Skip::not_finite) return;
    float first = no_entry;
    for_each_chunk(table, [&](const float* data, std::int64_t count, int index) {
        // In fp64 the squares of finite floats do not overflow.
        const double sum = sum_squares(data, count);
        if (!is_finite(sum) && first == no_entry) first = static_cast<float>(index);
    });
    first = -block_maximum(-first, shared_memory<WarpMaxima>().maxima);
    if (thread_index() == 0) parts[block_index().x] = first;
}

/// The first of an op's launches that finds something wins.
__global__ void record_first(StepState* state, const double* parts, std::int64_t blocks,
                             std::int64_t first_tensor) {
    if (state->skip != Skip::not_finite || state->faulty_tensor >= 0) return;
    double first = no_entry;
    for (std::int64_t block = 0; block < blocks; ++block)
        first = parts[block] < first ? parts[block] : first;
    if (first < no_entry) state->faulty_tensor = first_tensor + static_cast<std::int64_t>(first);
}

// ---- AdamW --------------------------------------------------------------------------------------

__global__ void prepare_update(const StepState* state, AdamWConstants constants,
                               AdamWUpdate* update) {
    const auto updates = static_cast<double>(state->updates);
    update->grad_factor = static_cast<float>(state->grad_factor);
    update->beta1 = static_cast<float>(constants.beta1);
    update->one_minus_beta1 = static_cast<float>(1 - constants.beta1);
    update->beta2 = static_cast<float>(constants.beta2);
    update->one_minus_beta2 = static_cast<float>(1 - constants.beta2);
    update->rate = static_cast<float>(state->learning_rate / (1 - power(constants.beta1, updates)));
    update->root_correction = static_cast<float>(square_root(1 - power(constants.beta2, updates)));
    update->eps = static_cast<float>(constants.eps);
    update->decay = static_cast<float>(1 - state->learning_rate * constants.weight_decay);
    update->skip = state->skip != Skip::none ? 1 : 0;
    update->step = static_cast<std::uint32_t>(state->step);
}

template <class T>
struct UpdateEntry {
    float* main_param;
    const float* main_grad;
    float* exp_avg;
    float* exp_avg_sq;
    T* weight;  ///< may be null
    std::int64_t count;
    std::int64_t first_chunk;
    bool decay;
    bool aligned;
};

template <class T>
struct UpdateTable {
    UpdateEntry<T> entries[max_tensors];
    int count = 0;
    std::int64_t chunks = 0;
};

template <class T>
__device__ inline void update_vector(const UpdateEntry<T>& entry, std::int64_t at,
                                     const AdamWUpdate& update) {
    auto* params = reinterpret_cast<Floats*>(entry.main_param + at);
    Floats param = load_once(params);
    if (update.skip == 0) {
        auto* averages = reinterpret_cast<Floats*>(entry.exp_avg + at);
        auto* squares = reinterpret_cast<Floats*>(entry.exp_avg_sq + at);
        const Floats grad = load_once(reinterpret_cast<const Floats*>(entry.main_grad + at));
        Floats m = load_once(averages);
        Floats v = load_once(squares);
        const float decay = entry.decay ? update.decay : 1.0f;
        for (int i = 0; i < width; ++i)
            param[i] = update_element(update, decay, grad[i], param[i], m[i], v[i]);
        store_once(averages, m);
        store_once(squares, v);
        store_once(params, param);
    }
    if (entry.weight == nullptr) return;
    Vec<T, width> weight;
    for (int i = 0; i < width; ++i)
        weight[i] = narrow<T>(param[i]);
    store(reinterpret_cast<Vec<T, width>*>(entry.weight + at), weight);
}

template <class T>
__device__ inline void update_one(const UpdateEntry<T>& entry, std::int64_t i,
                                  const AdamWUpdate& update) {
    if (update.skip == 0) {
        entry.main_param[i] =
            update_element(update, entry.decay ? update.decay : 1.0f, entry.main_grad[i],
                           entry.main_param[i], entry.exp_avg[i], entry.exp_avg_sq[i]);
    }
    if (entry.weight != nullptr) entry.weight[i] = narrow<T>(entry.main_param[i]);
}

template <class T>
__global__ void __launch_bounds__(block_size)
    update_chunks(UpdateTable<T> table, const AdamWUpdate* stored) {
    const std::int64_t chunk = block_index().x;
    const UpdateEntry<T>& entry = table.entries[find_entry(table.entries, table.count, chunk)];
    const AdamWUpdate update = *stored;
    const std::int64_t begin = (chunk - entry.first_chunk) * update_chunk;
    const std::int64_t end =
        begin + update_chunk < entry.count ? begin + update_chunk : entry.count;
    std::int64_t rest = begin;
    if (entry.aligned) {
        rest = begin + (end - begin) / width * width;
        for (std::int64_t at = begin + thread_index() * width; at < rest; at += block_size * width)
            update_vector(entry, at, update);
    }
    for (std::int64_t i = rest + thread_index(); i < end; i += block_size)
        update_one(entry, i, update);
}

template <class T>
UpdateEntry<T> entry_for(const AdamWPiece& piece, std::int64_t first_chunk) {
    UpdateEntry<T> entry = {.main_param = piece.main_param.as<float>(),
                            .main_grad = piece.main_grad.as<float>(),
                            .exp_avg = piece.exp_avg.as<float>(),
                            .exp_avg_sq = piece.exp_avg_sq.as<float>(),
                            .weight = pointer_or_null<T>(piece.weight),
                            .count = piece.main_param.elements(),
                            .first_chunk = first_chunk,
                            .decay = piece.decay,
                            .aligned = false};
    entry.aligned = is_aligned(entry.main_param, sizeof(Floats)) &&
                    is_aligned(entry.main_grad, sizeof(Floats)) &&
                    is_aligned(entry.exp_avg, sizeof(Floats)) &&
                    is_aligned(entry.exp_avg_sq, sizeof(Floats)) &&
                    is_aligned(entry.weight, sizeof(Vec<T, width>));
    return entry;
}

/// Updates all pieces, as many per launch as fit in the table.
template <class T>
void update_all(std::span<const AdamWPiece> pieces, const AdamWUpdate* update,
                const OpContext& context) {
    UpdateTable<T> table;
    const auto flush = [&] {
        launch(context.stream, {.blocks = table.chunks, .threads = block_size}, update_chunks<T>,
               table, update);
        table.count = 0;
        table.chunks = 0;
    };
    for (const AdamWPiece& piece : pieces) {
        if (piece.main_param.elements() == 0 || is_small(piece)) continue;
        table.entries[table.count++] = entry_for<T>(piece, table.chunks);
        table.chunks += div_ceil(piece.main_param.elements(), update_chunk);
        if (table.count == max_tensors) flush();
    }
    if (table.count > 0) flush();
}

}  // namespace

void run(const Clear& args, const OpContext& context) {
    for_each_table(args.values, [&](const TensorTable& table, std::int64_t blocks, std::int64_t) {
        launch(context.stream, {.blocks = blocks, .threads = block_size}, clear_chunks, table);
    });
}

void run(const SquareSum& args, const OpContext& context) {
    auto* parts = context.scratch.take<double>(table_blocks);
    for_each_table(args.addends, [&](const TensorTable& table, std::int64_t blocks, std::int64_t) {
        launch(context.stream,
               {.blocks = blocks, .threads = block_size, .shared_bytes = sizeof(WarpSums)},
               sum_chunks, table, parts);
        add_in_order(parts, blocks, args.total.as<double>(), context.stream);
    });
}

void run(const FindNotFinite& args, const OpContext& context) {
    auto* parts = context.scratch.take<double>(table_blocks);
    StepState* state = step_state(args.step);
    for_each_table(
        args.values, [&](const TensorTable& table, std::int64_t blocks, std::int64_t first) {
            launch(context.stream,
                   {.blocks = blocks, .threads = block_size, .shared_bytes = sizeof(WarpMaxima)},
                   find_non_finite_entry, table, state, parts);
            launch(context.stream, {.blocks = 1, .threads = 1}, record_first, state, parts, blocks,
                   first);
        });
}

void run(const AdamW& args, const OpContext& context) {
    auto* update = context.scratch.take<AdamWUpdate>(1);
    launch(context.stream, {.blocks = 1, .threads = 1}, prepare_update, step_state(args.step),
           args.constants, update);
    if (args.pieces.empty()) return;
    const Tensor& weight = args.pieces.front().weight;
    with_compute_type(weight.empty() ? DType::f32 : weight.dtype(),
                      [&](auto type) { update_all<decltype(type)>(args.pieces, update, context); });
    update_small_pieces(args, update, context);
}

}  // namespace gptrain::cuda
