// Twin of cuda/device/hopper.cuh for the host compiler. Bulk copies arrive when something waits for
// their barrier; bulk stores read at bulk_wait_read and write at bulk_wait; products happen at
// warpgroup_wait, and their sums show when they are pinned. Until then destinations hold NaN.
#pragma once

#include "cuda/device/device.cuh"
#include "cuda/device/operand.h"
#include "cuda/device/tensor_map.h"

namespace gptrain::cuda {

struct alignas(8) Barrier {
    std::uint64_t state;
};

void init(Barrier& barrier, int arrivals);
void fence_barriers(Site where = Site::current());
void arrive(Barrier& barrier, Site where = Site::current());
void arrive_expect_bytes(Barrier& barrier, int bytes, Site where = Site::current());
void wait(Barrier& barrier, int parity, Site where = Site::current());

struct BoxPlace {
    int feature, head, row, sequence;
};

inline void prefetch(const TensorMap& /*map*/) {}
void load_box(void* to_shared, const TensorMap& map, const BoxPlace& place, Barrier& barrier);
void store_box(const TensorMap& map, const BoxPlace& place, const void* from_shared);
void load_bulk(void* to_shared, const void* from_global, int bytes, Barrier& barrier);
void store_bulk(void* to_global, const void* from_shared, int bytes);
void add_bulk(float* to_global, const float* from_shared, int bytes);
inline void bulk_commit(Site where = Site::current()) {
    if (!emulator::removed(where)) emulator::current().bulk_stores.commit();
}
template <int pending>
inline void bulk_wait_read(Site where = Site::current()) {
    const auto groups = emulator::still_pending(pending, where);
    if (groups) emulator::current().bulk_stores.complete_reads(*groups);
}
/// The weakened one only waits for reads.
template <int pending>
inline void bulk_wait(Site where = Site::current()) {
    emulator::BulkStores& stores = emulator::current().bulk_stores;
    const emulator::Fault fault = emulator::fault_at(where, true);
    if (fault == emulator::Fault::none) stores.complete(pending);
    if (fault == emulator::Fault::weakened) stores.complete_reads(pending);
}
inline void fence_async_proxy(Site where = Site::current()) {
    if (!emulator::removed(where)) emulator::current().fence_shared();
}
inline void fence_async_proxy_global(Site where = Site::current()) {
    if (!emulator::removed(where)) emulator::current().fence_global();
}

void store_tiles(void* row, const std::uint32_t (&tiles)[4]);
void store_tiles_transposed(void* row, const std::uint32_t (&tiles)[4]);

inline void warpgroup_fence(Site where = Site::current()) {
    if (!emulator::removed(where)) emulator::current().products_fenced = true;
}
void warpgroup_commit(Site where = Site::current());
void warpgroup_wait_for_all_but(int pending);
template <int pending>
inline void warpgroup_wait(Site where = Site::current()) {
    const auto groups = emulator::still_pending(pending, where);
    if (groups) warpgroup_wait_for_all_but(*groups);
}
void show_sums(float* c);
template <int n>
inline void pin_registers(float (&c)[n], Site where = Site::current()) {
    if (!emulator::removed(where)) show_sums(c);
}

namespace detail {
void issue(emulator::WarpgroupProduct product);
}  // namespace detail

template <class T = Bf16, int n, Major a_major, Major b_major>
inline void warpgroup_multiply(float (&c)[n], Operand<a_major> a, Operand<b_major> b,
                               bool accumulate) {
    detail::issue({.c = c,
                   .columns = 2 * n,
                   .dtype = T::dtype,
                   .accumulate = accumulate,
                   .a = {a.descriptor, a_major == Major::k},
                   .b = {b.descriptor, b_major == Major::k},
                   .a_registers = {},
                   .known = {}});
}
template <int n, Major b_major>
inline void warpgroup_multiply(float (&c)[n], const std::uint32_t (&a)[4], Operand<b_major> b,
                               bool accumulate) {
    detail::issue({.c = c,
                   .columns = 2 * n,
                   .dtype = DType::bf16,
                   .accumulate = accumulate,
                   .a = {},
                   .b = {b.descriptor, b_major == Major::k},
                   .a_registers = {a[0], a[1], a[2], a[3]},
                   .known = {}});
}

namespace detail {
void check_registers(int registers);
}  // namespace detail
template <int registers>
inline void raise_registers() {
    detail::check_registers(registers);
}
template <int registers>
inline void lower_registers() {
    detail::check_registers(registers);
}

}  // namespace gptrain::cuda
