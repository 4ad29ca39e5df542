// The first seam: memory and computation. Implementations: lib/cpu (oneDNN and OpenMP), lib/meter
// (counts, holds no data) and cuda/. Each op runs after all ops and copies issued before it, but
// may return before it is done; `synchronize` waits. Once `run` has returned, nobody needs the op
// or the memory of its spans. Results are deterministic: the same calls give the same bits on the
// same machine type and thread count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/buffer.h"
#include "backend/ops.h"
#include "backend/stopwatch.h"

namespace gptrain {

/// Upper bounds on the sizes of ops; they determine a backend's scratch memory.
struct OpLimits {
    DType compute = DType::f32;
    std::int64_t sequences = 0;     ///< B
    std::int64_t seq_length = 0;    ///< S, of keys and of queries
    std::int64_t hidden = 0;        ///< H
    std::int64_t heads = 0;         ///< N
    std::int64_t groups = 0;        ///< G
    std::int64_t head_dim = 0;      ///< D
    std::int64_t widest = 0;        ///< largest I or O of a linear layer other than the head
    std::int64_t shared_norm = 0;   ///< largest W of a norm of rows that ranks share; 0: none
    std::int64_t vocab = 0;         ///< V
    std::int64_t head_rows = 0;     ///< rows of logits computed at a time
    std::int64_t experts = 0;       ///< E; 0: none
    std::int64_t expert_slots = 0;  ///< the most that are ordered at once: T K, or rows received
    std::int64_t expert_width = 0;  ///< largest P O or I of a grouped linear layer
};

/// The memory that a backend itself adds to a run, known without its device.
struct BackendMemory {
    /// Device memory inside ops and for uploads.
    std::function<std::int64_t(const OpLimits&)> scratch;
    std::int64_t staging = 0;        ///< host memory for uploads to the device
    std::int64_t reserve = 0;        ///< device memory for driver and libraries, estimated
    bool messages_on_host = false;   ///< reductions between ranks take host memory (MPI)
    std::int64_t row_alignment = 1;  ///< as Backend::row_alignment
};

/// A contiguous tensor on the device and one of the same size and dtype in this backend's host
/// memory, between which copies go.
struct HostTwin {
    Tensor device;
    Tensor host;
};

/// `run` issues an op; ops.h lists and describes them all. PassingBackend passes on every other
/// function: one that is added here is added there.
class Backend : public RunsOps<Ops> {
public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;  ///< "cpu", "cuda", "meter"

    // ---- memory ----
    /// Uninitialised memory, aligned to Arena::alignment. Too little memory is an Error (usage).
    virtual Buffer allocate(std::int64_t bytes, MemorySpace space) = 0;
    /// Bytes that ops within these limits need inside them.
    virtual std::int64_t scratch_bytes(const OpLimits& limits) const = 0;
    /// Hands over that much memory, before the first op.
    virtual void use_scratch(const Tensor& bytes) = 0;
    /// Bytes of host staging memory that let `upload` return without waiting for the device;
    /// use_staging hands them over.
    virtual std::int64_t staging_bytes() const { return 0; }
    virtual void use_staging(const Tensor& /*bytes*/) {}
    /// Device memory in use that was not allocated here: by the driver, libraries and other
    /// programs. Measured, so it is meaningful only after a step has used them all.
    virtual std::int64_t bytes_outside_arenas() const { return 0; }
    /// Estimated device memory to leave to driver and libraries; 0 on the host.
    virtual std::int64_t reserve_bytes() const { return 0; }
    /// Free device memory; empty on the host.
    virtual std::optional<std::int64_t> free_bytes() const { return std::nullopt; }
    /// True if the host can access device memory directly, and ops and copies are done when they
    /// return.
    virtual bool is_host() const { return false; }
    /// In bytes. GEMMs are fastest if each row of their output starts at a multiple of it.
    virtual std::int64_t row_alignment() const { return 1; }
    /// to = from: same shape and dtype, any strides. Either may be in this backend's host memory.
    virtual void copy(const Tensor& to, const Tensor& from) = 0;
    /// Copies between host bytes and a contiguous tensor, on the device or in this backend's host
    /// memory. `upload` has read the bytes when it returns. `download` waits for all issued work
    /// and has written the bytes when it returns.
    virtual void upload(const Tensor& to, std::span<const std::byte> from) = 0;
    virtual void download(std::span<std::byte> to, const Tensor& from) = 0;
    virtual void synchronize() = 0;
    /// Marks the work issued so far; `wait` blocks until it is done, for host memory that `copy`
    /// writes. Only the last few marks can be waited for. Synchronous backends need neither.
    virtual std::int64_t mark() { return 0; }
    virtual void wait(std::int64_t /*mark*/) {}

    // ---- copies beside computation ----
    // Tensors that wait in host memory come to the device for a while. Copies start once all work
    // issued before them is done, and run beside the work issued after them: in each direction in
    // the order of issue, in both at the same time. `join` orders all later work, later copies
    // included, behind the copies that returned this number; the host does not wait. The last
    // copies must be joined before anything reads what they write or writes what they read.

    /// device = host
    virtual std::int64_t fetch(std::span<const HostTwin> twins) {
        for (const HostTwin& twin : twins)
            copy(twin.device, twin.host);
        return 0;
    }
    /// host = device
    virtual std::int64_t store(std::span<const HostTwin> twins) {
        for (const HostTwin& twin : twins)
            copy(twin.host, twin.device);
        return 0;
    }
    virtual void join(std::int64_t /*copies*/) {}
    /// Seconds that computation has waited in `join` since the last call, in joins that it has
    /// passed; nothing on a backend whose copies never run beside it.
    virtual std::optional<double> take_join_seconds() { return std::nullopt; }

    /// Runs `work`. Each call with the same key must issue the same ops with the same arguments and
    /// have no other effect, so that a backend may record them once and replay the record instead.
    virtual void replay(std::int64_t /*key*/, const std::function<void()>& work) { work(); }

    // ---- tuning ----
    // A backend may have several algorithms for a linear op (linear_op.h), which differ in speed
    // and in the last bits. Only a trial shows the fastest; ranks that must agree bit for bit share
    // one choice.

    virtual bool can_tune() const { return false; }
    /// Runs `ops` and tries all algorithms of each linear op in it, unless a choice for that op is
    /// already known, from here or an earlier run. The ops' outputs are meaningless. Returns all
    /// choices as text in the backend's own format.
    virtual std::string tune(const std::function<void()>& /*ops*/) { return {}; }
    /// Uses these choices from now on. Ops without a choice use a default, identical on all devices
    /// of a kind. If the choices came from another kind of device or library, all ops do, and it
    /// returns false.
    virtual bool set_choices(std::string_view /*choices*/) { return true; }

    /// True if the first run of a linear op may load device code, which blocks on the device.
    virtual bool loads_code_late() const { return false; }

    // ---- profiling ----
    /// Measures the work issued to this backend, which must outlive it.
    virtual std::unique_ptr<Stopwatch> stopwatch();
    /// A profiler shows the work issued between the two calls under this name. Ranges nest.
    virtual void begin_range(std::string_view /*name*/) {}
    virtual void end_range() {}

private:
    friend class Buffer;
    virtual void release(std::byte* data, std::int64_t bytes, MemorySpace space) noexcept = 0;
};

inline BackendMemory memory_of(const Backend& backend) {
    return {.scratch = [&backend](const OpLimits& limits) { return backend.scratch_bytes(limits); },
            .staging = backend.staging_bytes(),
            .reserve = backend.reserve_bytes(),
            .messages_on_host = backend.is_host(),
            .row_alignment = backend.row_alignment()};
}

/// A backend, derived from Base, that passes each op to `on` of Derived.
template <class Base, class Derived>
using EachOp = ForwardsOps<Base, Derived, Ops>;

/// A profile range that ends with its scope.
class ProfileRange {
public:
    ProfileRange(Backend& backend, std::string_view name) : backend_(backend) {
        backend_.begin_range(name);
    }
    ProfileRange(const ProfileRange&) = delete;
    ProfileRange& operator=(const ProfileRange&) = delete;
    ~ProfileRange() { backend_.end_range(); }

private:
    Backend& backend_;
};

}  // namespace gptrain
