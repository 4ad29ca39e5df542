// The end of a tile: a computing group of the GEMM kernel for sm_90a has 64 x 256 sums in
// registers, adds those of other parts in their order, applies the epilogue and stores.
//
// Every operation is that of the separate kernel for it (cuda/ops/linear.cu,
// cuda/ops/activation.cu) on the same fp32 sums, in the same order, so the bits are the same.
#pragma once

#include "cuda/device/activations.cuh"
#include "cuda/gemm/sm90/multiply.cuh"

namespace gptrain::cuda::sm90 {

/// Pairs of a panel's columns that a lane has in one row.
constexpr int panel_pairs = panel_columns / 8;

/// Writes a warp's 16 rows of a panel, rounded, in the layout for bulk copies.
__device__ inline void put_rows(std::byte* panel, const std::uint32_t (&words)[2 * panel_pairs]) {
    const int row = warp_index() % group_warps * 16 + lane_index() % 16;
    const int turn = row % 8 * 16;
    unrolled<panel_pairs / 2>([&](int k) {
        const std::uint32_t piece[4] = {words[4 * k], words[4 * k + 1], words[4 * k + 2],
                                        words[4 * k + 3]};
        const int column = (k * 32 + lane_index() / 16 * 16) ^ turn;
        store_tiles(panel + row * row_bytes + column, piece);
    });
}

/// The turn of a part at the sums of one group of a tile.
class PartTurn {
public:
    __device__ PartTurn(const GemmWork& work, const UnitPlace& place, int group)
        : work_(work),
          place_(place),
          group_(group),
          sums_(work.sums +
                (std::int64_t{place.tile} * tile_groups + group) * (group_rows * tile_columns) +
                thread_index() % group_threads * 4) {}

    /// Adds the sums of the parts before, when the last of them has handed them on. It does not
    /// wait for ever: clusters take units in order, so that part is under way.
    __device__ void add_earlier(Sums& c) const {
        while (load_acquire(turn()) != static_cast<unsigned>(place_.part))
            spin_pause();
        unrolled<tile_columns / 8>([&](int i) {
            const auto x = load_once(reinterpret_cast<const Vec<float, 4>*>(sums_ + distance * i));
            unrolled<4>([&](int j) { c[4 * i + j] = x[j] + c[4 * i + j]; });
        });
    }
    __device__ void hand_on(const Sums& c) const {
        unrolled<tile_columns / 8>([&](int i) {
            store(reinterpret_cast<Vec<float, 4>*>(sums_ + distance * i),
                  Vec<float, 4>{c[4 * i], c[4 * i + 1], c[4 * i + 2], c[4 * i + 3]});
        });
        barrier_wait(barrier::group + group_, group_threads);
        if (thread_index() % group_threads == 0)
            store_release(turn(), static_cast<unsigned>(place_.part) + 1);
    }

private:
    static constexpr int distance = 4 * group_threads;
    /// Computed where it is used, to take no registers between.
    __device__ unsigned* turn() const { return work_.turns + place_.tile * tile_groups + group_; }

    const GemmWork& work_;
    const UnitPlace& place_;
    int group_;
    float* sums_;
};

/// Stores the sums of one group as c and what goes with it.
template <class T, GemmResult result>
class Finisher {
public:
    __device__ Finisher(const GemmWork& work, GemmShared& shared, int group)
        : work_(work), shared_(shared), group_(group) {}

    __device__ void store_tile(const UnitPlace& place, const Sums& c) {
        constexpr bool halves = result == GemmResult::swiglu;
        // Columns come in pieces of 8, so if the first of a lane's pair exists, both do.
        const int row =
            place.row + group_ * group_rows + warp_index() % group_warps * 16 + lane_index() / 4;
        const int first = halves ? place.column / 2 : place.column;
        const int column = first + lane_index() % 4 * 2;
        unrolled<(halves ? half_columns : tile_columns) / panel_columns>([&](int panel) {
            const int begin = panel * panel_columns;
            if (first + begin >= work_.cols) return;
            const BoxPlace box = {first + begin, 0, place.row + group_ * group_rows, 0};
            const float* sums = c + begin / 2;
            if constexpr (result == GemmResult::sums) {
                store_sums(sums, row, column + begin);
            } else if constexpr (result == GemmResult::swiglu) {
                store_swiglu(sums, sums + half_columns / 2, row, column + begin, box);
            } else if constexpr (result == GemmResult::swiglu_slope) {
                store_swiglu_slope(sums, row, column + begin, box);
            } else {
                store_panel(sums, row, column + begin, box);
            }
        });
    }
    /// After the last tile.
    __device__ static void wait_for_stores() { bulk_wait<0>(); }

private:
    static constexpr int pairs = panel_pairs;

    __device__ bool has(int row, int column) const {
        return row < work_.rows && column < work_.cols;
    }
    /// The pairs of a matrix that belong to this lane's sums in a panel; 0 outside of it, or if
    /// they are not wanted.
    template <class U>
    __device__ void load_pairs(Vec<U, 2> (&to)[2 * pairs], const std::byte* from,
                               std::int64_t stride, int row, int column, bool wanted = true) const {
        unrolled<2 * pairs>([&](int i) {
            const int r = row + i % 2 * 8;
            const int at = column + i / 2 * 8;
            to[i] = {};
            if (wanted && has(r, at)) {
                to[i] = load(reinterpret_cast<const Vec<U, 2>*>(reinterpret_cast<const U*>(from) +
                                                                r * stride + at));
            }
        });
    }

    // ---- fp32 ----

    __device__ void store_sums(const float* c, int row, int column) const {
        auto* to = reinterpret_cast<float*>(work_.to);
        const auto* bias = reinterpret_cast<const float*>(work_.bias);
        Vec<float, 2> before[2 * pairs];
        // Not behind one branch, around which the compiler would spill registers.
        load_pairs(before, work_.to, work_.to_stride, row, column, work_.accumulate);
        unrolled<2 * pairs>([&](int i) {
            const int r = row + i % 2 * 8;
            const int at = column + i / 2 * 8;
            if (!has(r, at)) return;
            Vec<float, 2> x = {c[2 * i], c[2 * i + 1]};
            unrolled<2>([&](int j) {
                if (bias != nullptr) x[j] = x[j] + bias[at + j];
                if (work_.accumulate) x[j] = x[j] + before[i][j];
            });
            store(reinterpret_cast<Vec<float, 2>*>(to + r * work_.to_stride + at), x);
        });
    }

    // ---- 16 bits, by bulk copies ----

    __device__ void store_panel(const float* c, int row, int column, const BoxPlace& box) {
        std::uint32_t words[2 * pairs];
        round(words, c, row, column, work_.bias);
        store_words(work_.c, box, words);
        if constexpr (result == GemmResult::gelu) {
            unrolled<2 * pairs>([&](int i) {
                words[i] = narrow2<T>(gelu_of(words[i] & 0xffffu), gelu_of(words[i] >> 16));
            });
            store_words(work_.activated, box, words);
        }
    }
    /// Stores a panel of one matrix, and may return before that has ended.
    __device__ void store_words(const TensorMap& to, const BoxPlace& box,
                                const std::uint32_t (&words)[2 * pairs]) {
        // The store before the last one used this buffer. Only the group's first thread has stores.
        bulk_wait_read<store_buffers - 1>();
        barrier_wait(barrier::group + group_, group_threads);
        put_rows(shared_.results[group_][buffer_], words);
        fence_async_proxy();
        barrier_wait(barrier::group + group_, group_threads);
        if (thread_index() % group_threads == 0) {
            store_box(to, box, shared_.results[group_][buffer_]);
            bulk_commit();
        }
        warp_barrier();
        buffer_ = 1 - buffer_;
    }

    // ---- SwiGLU ----

    /// Stores a panel of fc, of gate, and of their SwiGLU. The box is that of fc.
    __device__ void store_swiglu(const float* fc_sums, const float* gate_sums, int row, int column,
                                 BoxPlace box) {
        std::uint32_t fc[2 * pairs];
        std::uint32_t gate[2 * pairs];
        round(fc, fc_sums, row, column, work_.bias);
        round(gate, gate_sums, row, column, gate_of(work_.bias));
        store_words(work_.c, box, fc);
        unrolled<2 * pairs>([&](int i) {
            fc[i] = narrow2<T>(swiglu_of(fc[i] & 0xffffu, gate[i] & 0xffffu),
                               swiglu_of(fc[i] >> 16, gate[i] >> 16));
        });
        store_words(work_.activated, box, fc);
        box.head = 1;
        store_words(work_.c, box, gate);
    }
    /// Stores a panel of the gradient of fc, and of gate. The box is that of fc.
    __device__ void store_swiglu_slope(const float* c, int row, int column, BoxPlace box) {
        Vec<T, 2> fc[2 * pairs];
        Vec<T, 2> gate[2 * pairs];
        load_pairs(fc, work_.activation_input, work_.activation_stride, row, column);
        load_pairs(gate, gate_of(work_.activation_input), work_.activation_stride, row, column);
        std::uint32_t fc_words[2 * pairs];
        std::uint32_t gate_words[2 * pairs];
        unrolled<2 * pairs>([&](int i) {
            float gradient[2][2];
            unrolled<2>([&](int j) {
                const float x = widen(narrow<T>(c[2 * i + j]));
                const GatedCurve at = swiglu(widen(fc[i][j]), widen(gate[i][j]));
                gradient[0][j] = x * at.up_slope;
                gradient[1][j] = x * at.of_up * at.gate_slope;
            });
            fc_words[i] = narrow2<T>(gradient[0][0], gradient[0][1]);
            gate_words[i] = narrow2<T>(gradient[1][0], gradient[1][1]);
        });
        store_words(work_.c, box, fc_words);
        box.head = 1;
        store_words(work_.c, box, gate_words);
    }
    /// The same place for gate, in a row of [fc | gate].
    __device__ const std::byte* gate_of(const std::byte* row) const {
        return row == nullptr ? row : row + work_.cols * static_cast<int>(sizeof(T));
    }
    __device__ static float swiglu_of(std::uint32_t fc, std::uint32_t gate) {
        const GatedCurve at = swiglu(value_of(fc), value_of(gate));
        return at.of_gate * at.of_up;
    }

    /// Rounds the sums of this lane, word i being the pair in row i % 2 * 8 and column i / 2 * 8.
    /// The bias begins with that of column 0, and may be null.
    __device__ void round(std::uint32_t (&words)[2 * pairs], const float* c, int row, int column,
                          const std::byte* bias_row) const {
        float x[4 * pairs];
        unrolled<4 * pairs>([&](int i) { x[i] = c[i]; });
        if constexpr (result == GemmResult::gelu_slope) {
            Vec<T, 2> u[2 * pairs];
            load_pairs(u, work_.activation_input, work_.activation_stride, row, column);
            unrolled<4 * pairs>([&](int i) { x[i] = x[i] * gelu(widen(u[i / 2][i % 2])).slope; });
        } else if (bias_row != nullptr) {
            const auto* bias = reinterpret_cast<const T*>(bias_row);
            unrolled<pairs>([&](int j) {
                Vec<T, 2> b = {};
                if (column + 8 * j < work_.cols)
                    b = load(reinterpret_cast<const Vec<T, 2>*>(bias + column + 8 * j));
                unrolled<4>([&](int i) { x[4 * j + i] = x[4 * j + i] + widen(b[i % 2]); });
            });
        }
        constexpr bool stores_function = result == GemmResult::gelu || result == GemmResult::swiglu;
        if (!stores_function && work_.accumulate) {
            Vec<T, 2> before[2 * pairs];
            load_pairs(before, work_.to, work_.to_stride, row, column);
            unrolled<4 * pairs>([&](int i) { x[i] = x[i] + widen(before[i / 2][i % 2]); });
        }
        unrolled<2 * pairs>([&](int i) { words[i] = narrow2<T>(x[2 * i], x[2 * i + 1]); });
    }

    __device__ static float value_of(std::uint32_t bits) {
        return widen(T{static_cast<std::uint16_t>(bits)});
    }
    __device__ static float gelu_of(std::uint32_t bits) { return gelu(value_of(bits)).value; }

    const GemmWork& work_;
    GemmShared& shared_;
    int group_;
    int buffer_ = 0;
};

}  // namespace gptrain::cuda::sm90
