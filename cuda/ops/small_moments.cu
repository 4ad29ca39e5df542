#include "cuda/ops/small_moments.h"

#include "base/dynamic8.h"
#include "base/stochastic_rounding.h"
#include "cuda/device/reduce.cuh"
#include "cuda/device/unrolled.cuh"
#include "tensor/dtype_switch.h"
#include "tensor/shard_runs.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
constexpr int warps = block_size / warp_threads;
/// Elements that a thread loads at a time.
constexpr int width = 4;

/// Tensors per launch: the table is a kernel argument, which is limited to 4 KiB.
constexpr int max_tensors = 28;

template <class Main, class Weight, class Moment>
struct SmallEntry {
    Main* main_param;
    const float* main_grad;
    Moment* exp_avg;
    Moment* exp_avg_sq;
    float* exp_avg_scales;
    float* exp_avg_sq_scales;
    Weight* weight;  ///< may be null
    std::int64_t count;
    std::int64_t first_chunk;
    std::int64_t flat_begin;
    ShardRuns runs;
    PhiloxKey key;
    bool decay;
    bool aligned;
};

template <class Entry>
struct SmallTable {
    /// With signs and without.
    DynamicMap maps[2] = {dynamic_map(true), dynamic_map(false)};
    Entry entries[max_tensors];
    int count = 0;
    std::int64_t chunks = 0;
};

/// The maps where threads read different entries.
struct SharedMaps {
    float values[2][256];  ///< of codes
    DynamicDecade decades[2][DynamicMap::count];
};

/// Four elements from `at` on; 0 behind the end.
template <class T>
__device__ inline void load_four(const T* from, std::int64_t at, std::int64_t count, bool aligned,
                                 T (&to)[width]) {
    if (aligned && at + width <= count) {
        const auto loaded = load_once(reinterpret_cast<const Vec<T, width>*>(from + at));
        for (int i = 0; i < width; ++i)
            to[i] = loaded[i];
        return;
    }
    for (int i = 0; i < width; ++i)
        to[i] = at + i < count ? from[at + i] : T{};
}

template <class T>
__device__ inline void store_four(T* to, std::int64_t at, std::int64_t count, bool aligned,
                                  const T (&from)[width]) {
    if (aligned && at + width <= count) {
        Vec<T, width> stored;
        for (int i = 0; i < width; ++i)
            stored[i] = from[i];
        store_once(reinterpret_cast<Vec<T, width>*>(to + at), stored);
        return;
    }
    for (int i = 0; i < width; ++i)
        if (at + i < count) to[at + i] = from[i];
}

__device__ inline PhiloxBlock draw_block(std::int64_t element, const PhiloxKey& key,
                                         std::uint32_t step, RoundedUse use) {
    const auto block = static_cast<std::uint64_t>(element / width);
    return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), step,
                   static_cast<std::uint32_t>(use)},
                  key);
}

/// The random words of four elements from `at` on.
template <class Entry>
__device__ inline void draw_four(const Entry& entry, std::int64_t at, std::uint32_t step,
                                 RoundedUse use, std::uint32_t (&words)[width]) {
    const std::int64_t flat = entry.flat_begin + at;
    const ShardRuns& runs = entry.runs;
    const std::int64_t first = runs.index(flat);
    const bool in_a_row = flat + width <= runs.length || flat % runs.length + width <= runs.length;
    if (in_a_row && first % width == 0) {
        const PhiloxBlock block = draw_block(first, entry.key, step, use);
        for (int i = 0; i < width; ++i)
            words[i] = block[i];
        return;
    }
    for (int i = 0; i < width; ++i) {
        const std::int64_t element = runs.index(flat + i);
        const PhiloxBlock block = draw_block(element, entry.key, step, use);
        const auto word = static_cast<int>(element % width);
        words[i] = word == 0 ? block[0] : word == 1 ? block[1] : word == 2 ? block[2] : block[3];
    }
}

/// The code of x, whose magnitude is at most 1.
template <bool with_sign>
__device__ inline std::uint8_t code_of(float x, const DynamicMap& map,
                                       const DynamicDecade* decades) {
    const float a = absolute(x);
    int found = 0;
    for (int d = 1; d < DynamicMap::count; ++d)
        found += a > map.decades[d].lower ? 1 : 0;
    const DynamicDecade& decade = decades[found];
    int part = static_cast<int>(fma(a, decade.factor, decade.offset));
    part = part < 0 ? 0 : part > decade.last ? decade.last : part;
    int index = a > 0 ? decade.first + part : 0;
    if (a > map.one_above && (!with_sign || x > 0)) index = map.one;
    if (!with_sign) return static_cast<std::uint8_t>(index);
    return static_cast<std::uint8_t>(DynamicMap::zero_with_sign + (x < 0 ? -index : index));
}

template <class Entry>
class SmallUpdate {
    using Main = std::remove_reference_t<decltype(*Entry::main_param)>;
    using Moment = std::remove_reference_t<decltype(*Entry::exp_avg)>;
    using Weight = std::remove_reference_t<decltype(*Entry::weight)>;

public:
    static constexpr bool coded = std::is_same_v<Moment, std::uint8_t>;
    static constexpr int parts = coded ? 2 : 1;
    __device__ SmallUpdate(const SmallTable<Entry>& table, const Entry& entry,
                           const AdamWUpdate& update)
        : table_(table), entry_(entry), update_(update) {}

    /// Elements that a warp updates at a time: a block of codes.
    static constexpr int unit = warp_threads * width * parts;
    static_assert(!coded || unit == moment_block);
    static_assert(update_chunk % unit == 0);

    /// The elements [begin, begin + unit) that there are. The whole warp calls it.
    __device__ void run(std::int64_t begin) const {
        float params[parts][width];
        unrolled<parts>([&](int part) { load_params(place(begin, part), params[part]); });
        if (update_.skip == 0) {
            Moments moments;
            unrolled<parts>([&](int part) { load_moments(begin, part, moments); });
            unrolled<parts>(
                [&](int part) { update_part(place(begin, part), moments, part, params[part]); });
            store_moments(begin, moments);
        }
        unrolled<parts>([&](int part) { store_weights(place(begin, part), params[part]); });
    }

private:
    /// In a thread's registers.
    struct Moments {
        float averages[parts][width];
        float squares[parts][width];
    };
    struct Scales {
        float average;
        float square;
    };

    __device__ static std::int64_t place(std::int64_t begin, int part) {
        return begin + (part * warp_threads + lane_index()) * width;
    }

    __device__ void load_params(std::int64_t at, float (&params)[width]) const {
        Main stored[width];
        load_four(entry_.main_param, at, entry_.count, entry_.aligned, stored);
        for (int i = 0; i < width; ++i)
            params[i] = widen(stored[i]);
    }

    __device__ void load_moments(std::int64_t begin, int part, Moments& moments) const {
        Moment averages[width];
        Moment squares[width];
        load_four(entry_.exp_avg, place(begin, part), entry_.count, entry_.aligned, averages);
        load_four(entry_.exp_avg_sq, place(begin, part), entry_.count, entry_.aligned, squares);
        for (int i = 0; i < width; ++i) {
            if constexpr (coded) {
                const SharedMaps& maps = shared_memory<SharedMaps>();
                const std::int64_t block = begin / moment_block;
                moments.averages[part][i] =
                    maps.values[0][averages[i]] * entry_.exp_avg_scales[block];
                moments.squares[part][i] =
                    maps.values[1][squares[i]] * entry_.exp_avg_sq_scales[block];
            } else {
                moments.averages[part][i] = widen(averages[i]);
                moments.squares[part][i] = widen(squares[i]);
            }
        }
    }

    /// Updates four elements, and stores main parameters and weights.
    __device__ void update_part(std::int64_t at, Moments& moments, int part,
                                float (&params)[width]) const {
        float grads[width];
        load_four(entry_.main_grad, at, entry_.count, entry_.aligned, grads);
        const float decay = entry_.decay ? update_.decay : 1.0f;
        for (int i = 0; i < width; ++i) {
            params[i] = update_element(update_, decay, grads[i], params[i],
                                       moments.averages[part][i], moments.squares[part][i]);
            // Behind the end an update may leave anything.
            if (at + i < entry_.count) continue;
            moments.averages[part][i] = 0;
            moments.squares[part][i] = 0;
        }
        if constexpr (std::is_same_v<Main, Bf16>) {
            std::uint32_t words[width];
            draw_four(entry_, at, update_.step, RoundedUse::weights, words);
            Bf16 rounded[width];
            for (int i = 0; i < width; ++i)
                rounded[i] = to_bf16_stochastic(params[i], words[i] & 0xffffu);
            store_four(entry_.main_param, at, entry_.count, entry_.aligned, rounded);
        } else {
            store_four(entry_.main_param, at, entry_.count, entry_.aligned, params);
        }
    }

    __device__ void store_moments(std::int64_t begin, const Moments& moments) const {
        Scales scales = {1, 1};
        if constexpr (coded) {
            scales = {largest(moments.averages), largest(moments.squares)};
            warp_barrier();  // all lanes have read the old ones
            if (lane_index() == 0) {
                entry_.exp_avg_scales[begin / moment_block] = scales.average;
                entry_.exp_avg_sq_scales[begin / moment_block] = scales.square;
            }
            // A block of zeros has no scale to divide by.
            scales.average = scales.average > 0 ? scales.average : 1.0f;
            scales.square = scales.square > 0 ? scales.square : 1.0f;
        }
        unrolled<parts>([&](int part) {
            const std::int64_t at = place(begin, part);
            Moment averages[width];
            Moment squares[width];
            store_as(at, moments, part, scales, averages, squares);
            store_four(entry_.exp_avg, at, entry_.count, entry_.aligned, averages);
            store_four(entry_.exp_avg_sq, at, entry_.count, entry_.aligned, squares);
        });
    }

    /// The largest magnitude of a warp's block.
    __device__ static float largest(const float (&x)[parts][width]) {
        float most = 0;
        unrolled<parts * width>(
            [&](int i) { most = maximum(most, absolute(x[i / width][i % width])); });
        return warp_maximum(most);
    }

    __device__ void store_as(std::int64_t at, const Moments& moments, int part,
                             const Scales& scales, Moment (&averages)[width],
                             Moment (&squares)[width]) const {
        std::uint32_t words[width] = {};
        if constexpr (std::is_same_v<Moment, Bf16>)
            draw_four(entry_, at, update_.step, RoundedUse::moments, words);
        for (int i = 0; i < width; ++i) {
            const float average = moments.averages[part][i];
            const float square = moments.squares[part][i];
            if constexpr (coded) {
                const SharedMaps& maps = shared_memory<SharedMaps>();
                averages[i] =
                    code_of<true>(average / scales.average, table_.maps[0], maps.decades[0]);
                squares[i] =
                    code_of<false>(square / scales.square, table_.maps[1], maps.decades[1]);
            } else if constexpr (std::is_same_v<Moment, Bf16>) {
                averages[i] = to_bf16_stochastic(average, words[i] & 0xffffu);
                squares[i] = to_bf16_stochastic(square, words[i] >> 16);
            } else {
                averages[i] = average;
                squares[i] = square;
            }
        }
    }

    __device__ void store_weights(std::int64_t at, const float (&params)[width]) const {
        if (entry_.weight == nullptr) return;
        Weight weights[width];
        for (int i = 0; i < width; ++i)
            weights[i] = narrow<Weight>(params[i]);
        store_four(entry_.weight, at, entry_.count, entry_.aligned, weights);
    }

    const SmallTable<Entry>& table_;
    const Entry& entry_;
    const AdamWUpdate& update_;
};

template <class Entry>
__global__ void __launch_bounds__(block_size)
    update_small_chunks(SmallTable<Entry> table, const AdamWUpdate* stored) {
    using Small = SmallUpdate<Entry>;
    if constexpr (Small::coded) {
        SharedMaps& maps = shared_memory<SharedMaps>();
        const int code = thread_index();
        const int index = code - DynamicMap::zero_with_sign;
        maps.values[0][code] =
            index < 0 ? -table.maps[0].value(-index) : table.maps[0].value(index);
        maps.values[1][code] = table.maps[1].value(code);
        if (code < 2 * DynamicMap::count) {
            const int map = code / DynamicMap::count;
            maps.decades[map][code % DynamicMap::count] =
                table.maps[map].decades[code % DynamicMap::count];
        }
        block_barrier();
    }
    const std::int64_t chunk = block_index().x;
    const Entry& entry = table.entries[find_entry(table.entries, table.count, chunk)];
    const AdamWUpdate update = *stored;
    const std::int64_t begin = (chunk - entry.first_chunk) * update_chunk;
    const std::int64_t end =
        begin + update_chunk < entry.count ? begin + update_chunk : entry.count;
    const Small small(table, entry, update);
    for (std::int64_t at = begin + warp_index() * Small::unit; at < end; at += warps * Small::unit)
        small.run(at);
}

template <class Main, class Weight, class Moment>
SmallEntry<Main, Weight, Moment> small_entry(const AdamWPiece& piece, std::uint64_t seed,
                                             std::int64_t first_chunk) {
    SmallEntry<Main, Weight, Moment> entry = {
        .main_param = piece.main_param.as<Main>(),
        .main_grad = piece.main_grad.as<float>(),
        .exp_avg = piece.exp_avg.as<Moment>(),
        .exp_avg_sq = piece.exp_avg_sq.as<Moment>(),
        .exp_avg_scales = pointer_or_null<float>(piece.exp_avg_scales),
        .exp_avg_sq_scales = pointer_or_null<float>(piece.exp_avg_sq_scales),
        .weight = pointer_or_null<Weight>(piece.weight),
        .count = piece.main_param.elements(),
        .first_chunk = first_chunk,
        .flat_begin = piece.shard.flat_begin,
        .runs = runs_of(piece.shard),
        .key = rounding_key(seed, piece.shard.name),
        .decay = piece.decay,
        .aligned = false};
    entry.aligned = is_aligned(entry.main_param, sizeof(Vec<Main, width>)) &&
                    is_aligned(entry.main_grad, sizeof(Vec<float, width>)) &&
                    is_aligned(entry.exp_avg, sizeof(Vec<Moment, width>)) &&
                    is_aligned(entry.exp_avg_sq, sizeof(Vec<Moment, width>)) &&
                    is_aligned(entry.weight, sizeof(Vec<Weight, width>));
    return entry;
}

/// Updates the pieces whose moments are of that type, as many per launch as fit in the table.
template <class Main, class Weight, class Moment>
void update_with(const AdamW& args, const AdamWUpdate* update, const OpContext& context) {
    using Entry = SmallEntry<Main, Weight, Moment>;
    static_assert(sizeof(SmallTable<Entry>) + sizeof(update) <= 4096);
    constexpr bool coded = std::is_same_v<Moment, std::uint8_t>;
    SmallTable<Entry> table;
    const auto flush = [&] {
        launch(context.stream,
               {.blocks = table.chunks,
                .threads = block_size,
                .shared_bytes = coded ? sizeof(SharedMaps) : 0},
               update_small_chunks<Entry>, table, update);
        table.count = 0;
        table.chunks = 0;
    };
    for (const AdamWPiece& piece : args.pieces) {
        if (piece.exp_avg.dtype() != gptrain::detail::DTypeOf<Moment>::value ||
            piece.main_param.elements() == 0)
            continue;
        table.entries[table.count++] =
            small_entry<Main, Weight, Moment>(piece, args.seed, table.chunks);
        table.chunks += div_ceil(piece.main_param.elements(), update_chunk);
        if (table.count == max_tensors) flush();
    }
    if (table.count > 0) flush();
}

}  // namespace

void update_small_pieces(const AdamW& args, const AdamWUpdate* update, const OpContext& context) {
    const AdamWPiece& first = args.pieces.front();
    if (first.main_param.dtype() == DType::bf16) {
        update_with<Bf16, float, float>(args, update, context);
        update_with<Bf16, float, Bf16>(args, update, context);
        update_with<Bf16, float, std::uint8_t>(args, update, context);
        return;
    }
    with_compute_type(first.weight.empty() ? DType::f32 : first.weight.dtype(), [&](auto type) {
        update_with<float, decltype(type), Bf16>(args, update, context);
        update_with<float, decltype(type), std::uint8_t>(args, update, context);
    });
}

}  // namespace gptrain::cuda
