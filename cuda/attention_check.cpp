#include "cuda/attention_check.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/log.h"
#include "cuda/attention/portable.h"
#include "cuda/attention/sm90/attention.h"
#include "cuda/ops/attention.h"
#include "cuda/ops/random.h"
#include "cuda/ops/values.h"

namespace gptrain::cuda {
namespace {

// More than one tile of queries and of keys, with the last tile partly filled, and shared KV heads.
constexpr std::int64_t queries = 150;
constexpr std::int64_t heads = 2;
constexpr std::int64_t groups = 1;

/// Kernels that have never run on their hardware are not the default; docs/gpu-status.md lists
/// those that have.
constexpr bool sm90_has_run = false;

/// Owns device memory.
class DeviceMemory {
public:
    explicit DeviceMemory(std::int64_t bytes)
        : data_(allocate(bytes, MemorySpace::device)), bytes_(bytes) {}
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    ~DeviceMemory() { release(data_, MemorySpace::device); }
    Tensor take(DType dtype, const Shape& shape) {
        const Tensor tensor(data_ + used_, dtype, shape);
        used_ += round_up(tensor.bytes(), Arena::alignment);
        GPTRAIN_CHECK(used_ <= bytes_, "memory for the comparison of attention kernels");
        return tensor;
    }

private:
    std::byte* data_;
    std::int64_t bytes_;
    std::int64_t used_ = 0;
};

struct Results {
    std::vector<float> o, lse, dq, dk, dv;
};

class Trial {
public:
    Trial(std::int64_t head_dim, const DeviceProperties& device, const Stream& stream)
        : limits_{.compute = DType::bf16,
                  .sequences = 1,
                  .seq_length = queries,
                  .heads = heads,
                  .groups = groups,
                  .head_dim = head_dim},
          device_(device),
          stream_(stream),
          scratch_bytes_(attention_scratch_bytes(limits_)),
          memory_(scratch_bytes_ + (std::int64_t{64} << 10) +
                  16 * queries * heads * head_dim * size_of(DType::f32)),
          q_shape_{1, queries, heads, head_dim},
          k_shape_{1, queries, groups, head_dim} {
        scratch_.use(memory_.take(DType::u8, {scratch_bytes_}));
        AttentionForward& forward = backward_.forward;
        forward.q = random(q_shape_, "q");
        forward.k = random(k_shape_, "k");
        forward.v = random(k_shape_, "v");
        forward.o = memory_.take(DType::bf16, q_shape_);
        forward.lse = memory_.take(DType::f32, {1, heads, queries});
        backward_.d_o = random(q_shape_, "d_o");
        backward_.dq = memory_.take(DType::bf16, q_shape_);
        backward_.dk = memory_.take(DType::bf16, k_shape_);
        backward_.dv = memory_.take(DType::bf16, k_shape_);
        widened_ = memory_.take(DType::f32, q_shape_);
    }

    Results run(const AttentionKernels& kernels) {
        const AttentionForward& forward = backward_.forward;
        for (const Tensor& result :
             {forward.o, forward.lse, backward_.dq, backward_.dk, backward_.dv})
            cuda::run(Fill{.x = result, .value = std::numeric_limits<float>::quiet_NaN()},
                      context());
        kernels.forward(forward, context());
        kernels.backward(backward_, context());
        return {values(forward.o), values(forward.lse), values(backward_.dq), values(backward_.dk),
                values(backward_.dv)};
    }

private:
    OpContext context() {
        scratch_.reset();
        return {.stream = stream_, .scratch = scratch_, .device = device_};
    }
    Tensor random(const Shape& shape, const char* name) {
        const Tensor normal = memory_.take(DType::f32, shape);
        cuda::run(
            InitNormal{.x = normal, .shard = Shard::whole(name, shape), .seed = 1, .std = 1.0f},
            context());
        const Tensor rounded = memory_.take(DType::bf16, shape);
        cuda::run(Cast{.to = rounded, .from = normal}, context());
        return rounded;
    }
    std::vector<float> values(const Tensor& tensor) {
        const Tensor widened(widened_.data(), DType::f32, tensor.shape());
        cuda::run(Cast{.to = widened, .from = tensor}, context());
        std::vector<float> result(static_cast<std::size_t>(tensor.elements()));
        copy(result.data(), widened.data(), widened.bytes(), stream_);
        stream_.synchronize();
        return result;
    }

    OpLimits limits_;
    const DeviceProperties& device_;
    const Stream& stream_;
    std::int64_t scratch_bytes_;
    DeviceMemory memory_;
    Scratch scratch_;
    Shape q_shape_;
    Shape k_shape_;
    AttentionBackward backward_;
    Tensor widened_;
};

/// 2-norm of the difference divided by that of `right`.
double relative_distance(const std::vector<float>& left, const std::vector<float>& right) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
        difference += std::pow(double{left[i]} - double{right[i]}, 2);
        norm += std::pow(double{right[i]}, 2);
    }
    return std::sqrt(difference / norm);
}

}  // namespace

std::string attention_difference(const AttentionKernels& kernels, const AttentionKernels& reference,
                                 const DeviceProperties& device, const Stream& stream) {
    // The kernels round probabilities and results to bf16 (8 significant bits) at different points.
    // Each rounding costs at most half a unit in the last place, and a value goes through four of
    // them.
    constexpr double tolerance = 4 * 0x1p-8;
    std::string differences;
    for (const std::int64_t head_dim : {64, 128}) {
        Trial trial(head_dim, device, stream);
        const Results right = trial.run(reference);
        const Results own = trial.run(kernels);
        const auto compare = [&](const char* name, std::vector<float> Results::*values) {
            const double error = relative_distance(own.*values, right.*values);
            if (error <= tolerance) return;  // false for NaN
            differences += text(differences.empty() ? "" : ", ", name, " for head_dim ", head_dim,
                                " by ", error);
        };
        compare("o", &Results::o);
        compare("lse", &Results::lse);
        compare("dq", &Results::dq);
        compare("dk", &Results::dk);
        compare("dv", &Results::dv);
    }
    return differences;
}

bool choose_sm90_attention(AttentionChoice choice, const DeviceProperties& device,
                           const Stream& stream) {
    const bool has_units = device.major == 9 && device.minor == 0;
    if (choice == AttentionChoice::sm90 && !has_units) {
        fail(ExitCode::usage, "GPTRAIN_CUDA_ATTENTION=sm90: ", device.name,
             " has compute capability ", device.major, ".", device.minor,
             ", but these kernels need 9.0; unset it");
    }
    const bool chosen =
        choice == AttentionChoice::sm90 || (choice == AttentionChoice::automatic && sm90_has_run);
    if (!chosen || !has_units) return false;
    const std::string difference = attention_difference(
        {sm90::attention_forward, sm90::attention_backward},
        {portable_attention_forward, portable_attention_backward}, device, stream);
    if (difference.empty()) return true;
    warn("the attention kernels for sm_90a differ from the portable ones on ", device.name, " (",
         difference, "); using the portable ones; please report this");
    return false;
}

}  // namespace gptrain::cuda
