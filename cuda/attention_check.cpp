#include "cuda/attention_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "base/log.h"
#include "cuda/attention/portable.h"
#include "cuda/attention/sm90/attention.h"
#include "cuda/ops/attention.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/random.h"
#include "cuda/ops/values.h"

namespace gptrain::cuda {
namespace {

// Query heads share a KV head.
constexpr std::int64_t heads = 2;
constexpr std::int64_t groups = 1;

/// A single sequence has more than one tile of queries and of keys, the last one partly filled.
struct TrialSize {
    std::int64_t head_dim;
    std::int64_t queries;
    /// Dropout, documents that do not see each other, and gradients added in fp32.
    bool everything = false;
    /// With the amax of o and of the gradients, for kernels that find it.
    bool maxima = false;
    /// With o8, for kernels that write it.
    bool o8 = false;
    /// q is larger by this factor and k smaller. So is dk, and dq is smaller: each of dv (1), dk
    /// and dq has the amax of the gradients in a trial.
    float q_factor = 1;
    /// So many sequences that the sums of the sm_90a backward share memory (sm90::BackwardPlan).
    bool many_sequences = false;

    std::string name() const {
        return text("head_dim ", head_dim, ", ", queries, " queries",
                    everything ? ", dropout, documents, fp32 gradients" : "",
                    maxima ? text(", maxima, q x ", q_factor) : "", o8 ? ", o8" : "",
                    many_sequences ? ", many sequences" : "");
    }
    std::int64_t sequences(const DeviceProperties& device) const {
        return many_sequences ? 2 * device.multiprocessors + 5 : 1;
    }
};
constexpr TrialSize trial_sizes[] = {
    {.head_dim = 64, .queries = 150},
    {.head_dim = 128, .queries = 150},
    {.head_dim = 64, .queries = 300},
    {.head_dim = 64, .queries = 150, .maxima = true},
    {.head_dim = 64, .queries = 150, .maxima = true, .q_factor = 0x1p8f},
    {.head_dim = 64, .queries = 150, .maxima = true, .q_factor = 0x1p-8f},
    {.head_dim = 128, .queries = 150, .maxima = true},
    {.head_dim = 128, .queries = 150, .maxima = true, .q_factor = 0x1p8f},
    {.head_dim = 128, .queries = 150, .maxima = true, .q_factor = 0x1p-8f},
    {.head_dim = 128, .queries = 150, .o8 = true},
    {.head_dim = 64, .queries = 150, .everything = true},
    {.head_dim = 128, .queries = 300, .everything = true},
    {.head_dim = 64, .queries = 70, .many_sequences = true},
    {.head_dim = 128, .queries = 70, .many_sequences = true}};
constexpr std::int64_t document_length = 70;

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
    std::vector<float> amax;     ///< of o, and of the gradients
    std::vector<float> largest;  ///< the same, from these values
    std::vector<std::byte> o8;
    std::vector<std::byte> converted;  ///< the same, from o
};

float largest_magnitude(std::initializer_list<const std::vector<float>*> arrays) {
    float largest = 0;
    for (const std::vector<float>* values : arrays)
        for (const float value : *values)
            largest = std::max(largest, std::abs(value));
    return largest;
}

class Trial {
public:
    Trial(const TrialSize& size, const DeviceProperties& device, const Stream& stream)
        : limits_{.compute = DType::bf16,
                  .sequences = size.sequences(device),
                  .seq_length = size.queries,
                  .heads = heads,
                  .groups = groups,
                  .head_dim = size.head_dim},
          device_(device),
          stream_(stream),
          scratch_bytes_(attention_scratch_bytes(limits_)),
          memory_(scratch_bytes_ + (std::int64_t{64} << 10) +
                  16 * limits_.sequences * size.queries * heads * size.head_dim *
                      size_of(DType::f32)),
          q_shape_{limits_.sequences, size.queries, heads, size.head_dim},
          k_shape_{limits_.sequences, size.queries, groups, size.head_dim} {
        scratch_.use(memory_.take(DType::u8, {scratch_bytes_}));
        AttentionForward& forward = backward_.forward;
        forward.q = random(q_shape_, "q", size.q_factor);
        forward.k = random(k_shape_, "k", 1 / size.q_factor);
        forward.v = random(k_shape_, "v");
        forward.o = memory_.take(DType::bf16, q_shape_);
        forward.lse = memory_.take(DType::f32, {limits_.sequences, heads, size.queries});
        backward_.d_o = random(q_shape_, "d_o");
        const DType gradients = size.everything ? DType::f32 : DType::bf16;
        backward_.dq = memory_.take(gradients, q_shape_);
        backward_.dk = memory_.take(gradients, k_shape_);
        backward_.dv = memory_.take(gradients, k_shape_);
        widened_ = memory_.take(DType::f32, q_shape_);
        if (size.everything) use_everything(size.queries);
        if (size.maxima) {
            forward.amax = memory_.take(DType::f32, {1});
            backward_.amax = memory_.take(DType::f32, {1});
        }
        if (size.o8) {
            forward.o8 = fp8_rows();
            converted_ = fp8_rows();
        }
    }

    Results run(const AttentionKernels& kernels) {
        const AttentionForward& forward = backward_.forward;
        fill({forward.o, forward.lse}, std::numeric_limits<float>::quiet_NaN());
        fill({backward_.dq, backward_.dk, backward_.dv},
             backward_.accumulate ? 0.125F : std::numeric_limits<float>::quiet_NaN());
        const bool maxima = !backward_.amax.empty();
        if (maxima) fill({forward.amax, backward_.amax}, 0);
        if (!forward.o8.empty()) fill({forward.o8.scale}, 0);
        kernels.forward(forward, context());
        kernels.backward(backward_, context());
        Results results{.o = values(forward.o),
                        .lse = values(forward.lse),
                        .dq = values(backward_.dq),
                        .dk = values(backward_.dk),
                        .dv = values(backward_.dv),
                        .amax = {},
                        .largest = {},
                        .o8 = {},
                        .converted = {}};
        if (maxima) {
            results.amax = {values(forward.amax)[0], values(backward_.amax)[0]};
            results.largest = {largest_magnitude({&results.o}),
                               largest_magnitude({&results.dq, &results.dk, &results.dv})};
        }
        if (!forward.o8.empty()) {
            cuda::run(ToFp8Rows{.x = rows_of_heads(forward.o), .out = converted_}, context());
            results.o8 = bytes_of(forward.o8);
            results.converted = bytes_of(converted_);
        }
        return results;
    }

private:
    OpContext context() {
        scratch_.reset();
        return {.stream = stream_, .scratch = scratch_, .device = device_};
    }
    void fill(std::initializer_list<Tensor> tensors, float value) {
        for (const Tensor& tensor : tensors)
            cuda::run(Fill{.x = tensor, .value = value}, context());
    }
    template <class T>
    Tensor uploaded(DType dtype, const Shape& shape, const std::vector<T>& from) {
        const Tensor tensor = memory_.take(dtype, shape);
        copy(tensor.data(), from.data(), tensor.bytes(), stream_);
        stream_.synchronize();
        return tensor;
    }
    void use_everything(std::int64_t queries) {
        AttentionForward& forward = backward_.forward;
        std::vector<std::int32_t> first;
        for (std::int64_t i = 0; i < queries; ++i)
            first.push_back(static_cast<std::int32_t>(i / document_length * document_length));
        forward.first_visible = uploaded(DType::i32, {1, queries}, first);
        const StepState state = initial_step_state(1);
        std::vector<std::byte> bytes(sizeof state);
        std::memcpy(bytes.data(), &state, sizeof state);
        forward.dropout.probability = 0.1F;
        forward.dropout.seed = 1;
        forward.dropout.step = {
            .state = uploaded(DType::u8, {sizeof state}, bytes),
            .first_sequence = uploaded(DType::i64, {1}, std::vector<std::int64_t>{0})};
        backward_.accumulate = true;
    }
    Tensor random(const Shape& shape, const char* name, float std = 1) {
        const Tensor normal = memory_.take(DType::f32, shape);
        cuda::run(
            InitNormal{.x = normal, .shard = Shard::whole(name, shape), .seed = 1, .std = std},
            context());
        const Tensor rounded = memory_.take(DType::bf16, shape);
        cuda::run(Cast{.to = rounded, .from = normal}, context());
        return rounded;
    }
    Fp8Matrix fp8_rows() {
        const std::int64_t rows = q_shape_[0] * q_shape_[1];
        const std::int64_t columns = q_shape_[2] * q_shape_[3];
        return {.rowwise = memory_.take(DType::f8e4m3, {rows, columns}),
                .columnwise = {},
                .scale = memory_.take(DType::f32, fp8_row_scales(rows, columns))};
    }
    /// Values and scales.
    std::vector<std::byte> bytes_of(const Fp8Matrix& x) {
        const std::int64_t values = x.rowwise.bytes();
        std::vector<std::byte> result(static_cast<std::size_t>(values + x.scale.bytes()));
        copy(result.data(), x.rowwise.data(), values, stream_);
        copy(result.data() + values, x.scale.data(), x.scale.bytes(), stream_);
        stream_.synchronize();
        return result;
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
    Fp8Matrix converted_;
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
    for (const TrialSize& size : trial_sizes) {
        if ((size.maxima || size.o8) && !kernels.serve_fp8) continue;
        Trial trial(size, device, stream);
        const Results right = trial.run(reference);
        const Results own = trial.run(kernels);
        const auto add = [&](const std::string& difference) {
            differences += (differences.empty() ? "" : "; ") + difference;
        };
        const auto compare = [&](const char* name, std::vector<float> Results::*values) {
            const double error = relative_distance(own.*values, right.*values);
            if (error <= tolerance) return;  // false for NaN
            add(text(name, " for ", size.name(), " by ", error));
        };
        compare("o", &Results::o);
        compare("lse", &Results::lse);
        compare("dq", &Results::dq);
        compare("dk", &Results::dk);
        compare("dv", &Results::dv);
        if (own.amax != own.largest) add("amax for " + size.name());
        if (own.o8 != own.converted) add("o8 for " + size.name());
    }
    return differences;
}

std::string sm90_attention_difference(const DeviceProperties& device, const Stream& stream) {
    return attention_difference(
        {.forward = sm90::attention_forward,
         .backward = sm90::attention_backward,
         .serve_fp8 = true},
        {.forward = portable_attention_forward, .backward = portable_attention_backward}, device,
        stream);
}

bool choose_sm90_attention(AttentionChoice choice, const DeviceProperties& device,
                           const std::function<std::string()>& check) {
    const bool has_units = device.major == 9 && device.minor == 0;
    if (choice == AttentionChoice::sm90 && !has_units) {
        fail(ExitCode::usage, "GPTRAIN_CUDA_ATTENTION=sm90: ", device.name,
             " has compute capability ", device.major, ".", device.minor,
             ", but these kernels need 9.0; unset it");
    }
    if (choice == AttentionChoice::portable || !has_units) return false;
    const std::string fault = check();
    if (fault.empty()) return true;
    if (choice == AttentionChoice::sm90) {
        fail(ExitCode::usage, "GPTRAIN_CUDA_ATTENTION=sm90: these kernels failed their check on ",
             device.name, " (", fault, "); unset it to use the portable ones");
    }
    warn("the attention kernels for sm_90a failed their check on ", device.name, " (", fault,
         "); using the portable ones; please report this");
    return false;
}

}  // namespace gptrain::cuda
