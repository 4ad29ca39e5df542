// Barriers that count bytes, and bulk copies (test/emulator/cuda/device/hopper.cuh).
#include <cstring>

#include "base/text.h"
#include "cuda/device/hopper.cuh"

namespace gptrain::cuda {
namespace {

constexpr int poison = 0xff;
constexpr int row_bytes = 128;

emulator::BarrierState& state_of(const Barrier& barrier) {
    auto& barriers = emulator::current().block->barriers;
    const auto found = barriers.find(&barrier);
    if (found == barriers.end()) emulator::fault("a barrier that was never initialised");
    return found->second;
}

void complete_phase_if_due(emulator::BarrierState& state) {
    if (state.missing > 0) return;
    if (state.bytes < 0) emulator::fault("more bytes have come to a barrier than were expected");
    if (state.bytes > 0) return;
    state.missing = state.arrivals;
    ++state.phase;
    emulator::note_progress();
}

void arrive_with(Barrier& barrier, std::int64_t bytes) {
    emulator::BarrierState& state = state_of(barrier);
    if (state.missing == 0) emulator::fault("more arrivals at a barrier than it was made for");
    state.bytes += bytes;
    --state.missing;
    emulator::note_progress();
    complete_phase_if_due(state);
}

void add_copy(Barrier& barrier, std::int64_t bytes, std::function<void()> work) {
    state_of(barrier).copies.push_back({bytes, std::move(work)});
}

/// Where a row of a box is in the tensor; null if outside.
std::byte* row_of(const TensorMap& map, const BoxPlace& place, int row) {
    const std::int64_t at[4] = {place.feature, place.head, place.row + row, place.sequence};
    std::byte* data = map.data;
    for (int dim = 0; dim < 4; ++dim) {
        if (at[dim] < 0 || at[dim] >= map.sizes[dim]) return nullptr;
        data += at[dim] * map.stride_bytes[dim];
    }
    return data;
}

/// Calls move(piece in shared memory, piece in the tensor or null) for all pieces of 16 bytes.
template <class Move>
void for_box(const TensorMap& map, const BoxPlace& place, std::byte* shared, const Move& move) {
    const std::int64_t begin = emulator::shared_offset(shared);
    for (int row = 0; row < map.rows; ++row) {
        std::byte* from = row_of(map, place, row);
        for (int piece = 0; piece < row_bytes; piece += 16) {
            const auto offset = static_cast<int>(begin) + row * row_bytes + piece;
            move(shared + (swizzle_128(offset) - begin), from == nullptr ? nullptr : from + piece);
        }
    }
}

std::size_t check_box(const void* shared, const TensorMap& map, const BoxPlace& place) {
    const auto bytes = static_cast<std::size_t>(map.rows) * row_bytes;
    emulator::check_shared(shared, bytes, 1024, "a box");
    if (place.feature % 64 != 0) emulator::fault("a box that begins inside of a panel");
    return bytes;
}

void check_bulk(const void* shared, const void* global, int bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    if (bytes <= 0 || bytes % 16 != 0) emulator::fault(text("a bulk copy of ", bytes, " bytes"));
    emulator::check_shared(shared, size, 16, "a bulk copy");
    emulator::check_access(global, size, 16, "a bulk copy");
}

}  // namespace

TensorMap tensor_map(const Tensor& tensor, int rows) {
    GPTRAIN_CHECK(tensor.rank() == 4 && tensor.dtype() == DType::bf16 && tensor.stride(3) == 1 &&
                      tensor.size(3) % 64 == 0 && rows <= 256,
                  "no map of ", tensor.shape().to_text());
    TensorMap map = {.data = tensor.data(), .sizes = {}, .stride_bytes = {}, .rows = rows};
    constexpr int dims[4] = {3, 2, 1, 0};
    for (int i = 0; i < 4; ++i) {
        map.sizes[i] = tensor.size(dims[i]);
        map.stride_bytes[i] = tensor.stride(dims[i]) * 2;
        GPTRAIN_CHECK(i == 0 || map.stride_bytes[i] % 16 == 0, "a stride of ", map.stride_bytes[i],
                      " bytes");
    }
    return map;
}

void init(Barrier& barrier, int arrivals) {
    emulator::check_shared(&barrier, sizeof barrier, alignof(Barrier), "a barrier");
    auto& barriers = emulator::current().block->barriers;
    if (barriers.contains(&barrier)) emulator::fault("a barrier that is initialised twice");
    if (arrivals < 1) emulator::fault(text("a barrier of ", arrivals, " arrivals"));
    emulator::BarrierState& state = barriers[&barrier];
    state.arrivals = arrivals;
    state.missing = arrivals;
}

void arrive(Barrier& barrier) {
    arrive_with(barrier, 0);
}

void arrive_expect_bytes(Barrier& barrier, int bytes) {
    arrive_with(barrier, bytes);
}

void wait(Barrier& barrier, int parity) {
    if (parity != 0 && parity != 1) emulator::fault(text("a wait for parity ", parity));
    emulator::BarrierState& state = state_of(barrier);
    emulator::wait_until("wait for a barrier", [&] {
        while (state.phase % 2 == parity && !state.copies.empty()) {
            const emulator::BarrierState::Copy copy = std::move(state.copies.front());
            state.copies.pop_front();
            copy.work();
            state.bytes -= copy.bytes;
            emulator::note_progress();
            complete_phase_if_due(state);
        }
        return state.phase % 2 != parity;
    });
}

void load_box(void* to_shared, const TensorMap& map, const BoxPlace& place, Barrier& barrier) {
    const std::size_t bytes = check_box(to_shared, map, place);
    auto* shared = static_cast<std::byte*>(to_shared);
    std::memset(shared, poison, bytes);
    add_copy(barrier, static_cast<std::int64_t>(bytes), [=, map = map] {
        for_box(map, place, shared, [](std::byte* to, const std::byte* from) {
            if (from == nullptr) {
                std::memset(to, 0, 16);
            } else {
                std::memcpy(to, from, 16);
            }
        });
    });
}

void store_box(const TensorMap& map, const BoxPlace& place, const void* from_shared) {
    check_box(from_shared, map, place);
    auto* shared = static_cast<std::byte*>(const_cast<void*>(from_shared));
    emulator::current().bulk_stores.add([=, map = map] {
        for_box(map, place, shared, [](const std::byte* from, std::byte* to) {
            if (to != nullptr) std::memcpy(to, from, 16);
        });
    });
}

void load_bulk(void* to_shared, const void* from_global, int bytes, Barrier& barrier) {
    check_bulk(to_shared, from_global, bytes);
    const auto size = static_cast<std::size_t>(bytes);
    std::memset(to_shared, poison, size);
    add_copy(barrier, bytes, [=] { std::memcpy(to_shared, from_global, size); });
}

void store_bulk(void* to_global, const void* from_shared, int bytes) {
    check_bulk(from_shared, to_global, bytes);
    emulator::current().bulk_stores.add(
        [=] { std::memcpy(to_global, from_shared, static_cast<std::size_t>(bytes)); });
}

void add_bulk(float* to_global, const float* from_shared, int bytes) {
    check_bulk(from_shared, to_global, bytes);
    emulator::current().bulk_stores.add([=] {
        for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / sizeof(float); ++i)
            to_global[i] += from_shared[i];
    });
}

}  // namespace gptrain::cuda
