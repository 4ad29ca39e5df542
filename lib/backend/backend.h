// SEAM 1: memory and computation. Implemented by lib/cpu (oneDNN and OpenMP), lib/meter (counts,
// holds no data) and cuda/. A backend has one order of computation: an op runs after all ops and
// copies issued before it. Ops may return before they are done; `synchronize` waits. Ops keep no
// reference to their arguments' structs. Deterministic: the same calls give the same bits on the
// same machine type and thread count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/buffer.h"
#include "backend/ops.h"

namespace gptrain {

/// The largest sizes that ops will be called with; decides the scratch memory of a backend.
struct OpLimits {
    DType compute = DType::f32;
    std::int64_t sequences = 0;   ///< B
    std::int64_t seq_length = 0;  ///< S, of keys and of queries
    std::int64_t hidden = 0;      ///< H
    std::int64_t heads = 0;       ///< N
    std::int64_t groups = 0;      ///< G
    std::int64_t head_dim = 0;    ///< D
    std::int64_t widest = 0;      ///< largest I or O of a linear layer other than the head
    std::int64_t vocab = 0;       ///< V
    std::int64_t head_chunk = 0;  ///< rows of logits at a time
};

/// What a backend itself needs of a run's memory, known without the backend's device.
struct BackendNeeds {
    std::function<std::int64_t(const OpLimits&)> scratch;  ///< device memory inside of ops and
                                                           ///< on the way there
    std::int64_t staging = 0;                              ///< host memory on the way to the device
    std::int64_t reserve = 0;       ///< device memory to leave to driver and libraries: an estimate
    bool messages_on_host = false;  ///< reductions between ranks take host memory, as MPI's do
    std::int64_t row_alignment = 1;  ///< Backend::row_alignment
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;  ///< "cpu", "cuda", "meter"

    // ---- memory ----
    /// Uninitialised memory, aligned to Arena::alignment. Not enough of it: Error (usage).
    virtual Buffer allocate(std::int64_t bytes, MemorySpace space) = 0;
    /// Bytes that ops need inside of them within these limits.
    virtual std::int64_t scratch_bytes(const OpLimits& limits) const = 0;
    /// Memory of that size, given before the first op.
    virtual void use_scratch(const Tensor& bytes) = 0;
    /// Bytes of host memory with which `upload` need not wait for the device, and memory of that
    /// size.
    virtual std::int64_t staging_bytes() const { return 0; }
    virtual void use_staging(const Tensor& /*bytes*/) {}
    /// Device memory in use now that was not allocated here: by the driver, by libraries, and by
    /// other programs. It can only be measured, after a step has used all of them.
    virtual std::int64_t other_bytes() const { return 0; }
    /// Device memory to leave to driver and libraries, an estimate; 0 where it is the host's.
    virtual std::int64_t reserve_bytes() const { return 0; }
    /// Device memory that nobody has; nothing where it is the host's.
    virtual std::optional<std::int64_t> free_bytes() const { return std::nullopt; }
    /// Whether the host reaches device memory as its own, and ops and copies are done when they
    /// return.
    virtual bool computes_in_host_memory() const { return false; }
    /// Bytes: products are fastest where each row of their output begins at a multiple of this.
    virtual std::int64_t row_alignment() const { return 1; }
    /// to = from; same shape and dtype, any strides. Either may lie in host memory of this backend.
    virtual void copy(const Tensor& to, const Tensor& from) = 0;
    /// Between host bytes and a contiguous tensor. `upload` has read the bytes when it returns;
    /// `download` has written them when it returns (it waits for all that was issued).
    virtual void upload(const Tensor& to, std::span<const std::byte> from) = 0;
    virtual void download(std::span<std::byte> to, const Tensor& from) = 0;
    virtual void synchronize() = 0;
    /// A point in the order of computation, behind all that was issued, and waiting until it is
    /// reached: for host memory that `copy` writes. The last few points can be waited for. Where
    /// ops are done when they return there is nothing to wait for.
    virtual std::int64_t mark() { return 0; }
    virtual void wait(std::int64_t /*mark*/) {}

    /// Does `work`, which issues the same ops with the same arguments every time it is called with
    /// this key and has no other effect. A backend may record what it issues, and later issue the
    /// record without calling it.
    virtual void replay(std::int64_t /*key*/, const std::function<void()>& work) { work(); }

    // ---- tuning ----
    // A backend may know several ways to compute a linear op (linear_op.h), which differ in speed
    // and in the last bits. Which one is the fastest only a trial shows; ranks whose bits are to be
    // equal make one choice together.

    virtual bool tunes() const { return false; }
    /// Does `ops`, each linear op in which is tried in every way unless the choice for its like is
    /// known, here or from an earlier run. What the ops write is of no use. Returns all choices, in
    /// words of the backend.
    virtual std::string tune(const std::function<void()>& /*ops*/) { return {}; }
    /// From now on linear ops are computed by these choices, and those for which there is none as a
    /// rule has it that is the same on all devices of a kind. So are all, and false is returned,
    /// where the choices were made by another kind of device or library.
    virtual bool use_choices(std::string_view /*choices*/) { return true; }

    // ---- values ----
    virtual void fill(const Tensor& x, float value) = 0;
    /// to = from rounded to to's dtype (fp32, bf16, fp16), contiguous.
    virtual void cast(const Tensor& to, const Tensor& from) = 0;
    /// to (fp32 [n]) = sum of the rows of `rows` (compute dtype [p, n], contiguous) in their order.
    virtual void sum_rows(const Tensor& to, const Tensor& rows) = 0;
    /// x (fp32, the shard's elements) = N(0, std): element e of the whole tensor is a function of
    /// (seed, name, e) alone, whichever part of it the shard is. Words w0 .. w3 of counter e / 4
    /// (low, high half) of the stream philox_stream(seed, name_hash(name), 0, 0) give the elements
    /// of that block by Box-Muller: with u = (floor(w0 / 256) + 1) / 2^24 and v = floor(w1 / 256) /
    /// 2^24, std sqrt(-2 ln u) times cos(2 pi v) and sin(2 pi v) are the first two; w2 and w3 give
    /// the others.
    virtual void init_normal(const Tensor& x, const Shard& shard, std::uint64_t seed,
                             float std) = 0;

    /// maximum (fp32 [1]) = the largest of it and the absolute values of x (contiguous; fp32 or
    /// compute dtype); NaN counts as nothing.
    virtual void absolute_maximum(const Tensor& x, const Tensor& maximum) = 0;
    virtual void to_float8(const ToFloat8& args) = 0;
    /// sum (i64 [1]) += sum over i of h(w_i + (i + 1) 0x9e3779b97f4a7c15), modulo 2^64: w_i are x's
    /// bytes (contiguous), eight at a time, little-endian, the last filled up with zeros; h(v) = p
    /// xor (p >> 32) with p = 0xd6e8feb86659fd93 v. A change of any one word changes it.
    virtual void checksum(const Tensor& x, const Tensor& sum) = 0;

    // ---- model ----
    virtual void linear_forward(const LinearForward& args) = 0;
    virtual void linear_input_grad(const LinearInputGrad& args) = 0;
    virtual void linear_weight_grad(const LinearWeightGrad& args) = 0;
    /// dbias += sum of the rows of dy [T, O]; fp32 [O].
    virtual void bias_grad(const Tensor& dy, const Tensor& dbias) = 0;
    /// y += bias [H] for every row of y [T, H]: the bias of a row-parallel layer, after its
    /// reduction.
    virtual void add_bias(const Tensor& y, const Tensor& bias) = 0;
    virtual void residual_norm_forward(const ResidualNormForward& args) = 0;
    virtual void residual_norm_backward(const ResidualNormBackward& args) = 0;
    virtual void dropout_backward(const DropoutBackward& args) = 0;
    virtual void activation_forward(const ActivationForward& args) = 0;
    virtual void activation_backward(const ActivationBackward& args) = 0;
    virtual void embedding_forward(const EmbeddingForward& args) = 0;
    virtual void embedding_backward(const EmbeddingBackward& args) = 0;
    virtual void position_forward(const PositionForward& args) = 0;
    virtual void position_backward(const PositionBackward& args) = 0;
    virtual void rope(const Rope& args) = 0;
    virtual void attention_forward(const AttentionForward& args) = 0;
    virtual void attention_backward(const AttentionBackward& args) = 0;
    virtual void merge_attention(const MergeAttention& args) = 0;
    virtual void cross_entropy(const CrossEntropy& args) = 0;
    virtual void vocab_parallel_maximum(const VocabParallelCrossEntropy& args) = 0;
    virtual void vocab_parallel_sums(const VocabParallelCrossEntropy& args) = 0;
    virtual void vocab_parallel_gradient(const VocabParallelCrossEntropy& args) = 0;

    // ---- step and optimizer ----
    /// Writes what the host gives at the start of a step and clears the step's results; what is
    /// carried stays.
    virtual void begin_step(const StepRef& step, const StepState& given) = 0;
    /// After the loss of a microbatch: where loss_sum is no longer finite and faulty_sequence is
    /// not set, it becomes the first sequence of the slot.
    virtual void note_loss(const StepRef& step) = 0;
    /// total (fp64 [1]) += sum of squares of all elements (fp32).
    virtual void square_sum(std::span<const Tensor> tensors, const Tensor& total) = 0;
    /// From loss_sum and grad_square_sum: grad_norm, skip, grad_factor; then the carried counters
    /// and the loss scale of the next step.
    virtual void decide_step(const StepRef& step, const StepDecision& how) = 0;
    /// Where skip is not_finite: faulty_tensor = index of the first of the tensors (fp32) that
    /// holds a value that is not finite.
    virtual void find_not_finite(std::span<const Tensor> tensors, const StepRef& step) = 0;
    virtual void adamw(std::span<const AdamWPiece> pieces, const AdamWConstants& constants,
                       const StepRef& step) = 0;

    // ---- profiling ----
    /// What is issued between the two is shown under this name by a profiler. Ranges nest.
    virtual void begin_range(std::string_view /*name*/) {}
    virtual void end_range() {}

private:
    friend class Buffer;
    virtual void release(std::byte* data, std::int64_t bytes, MemorySpace space) noexcept = 0;
};

inline BackendNeeds needs_of(const Backend& backend) {
    return {.scratch = [&backend](const OpLimits& limits) { return backend.scratch_bytes(limits); },
            .staging = backend.staging_bytes(),
            .reserve = backend.reserve_bytes(),
            .messages_on_host = backend.computes_in_host_memory(),
            .row_alignment = backend.row_alignment()};
}

/// A range of a profile: from here to the end of the block.
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
