#include "cuda/products.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cuda/lt_product.h"
#include "cuda/tuning.h"

namespace gptrain::cuda {
namespace {

/// Algorithms that are timed for one product.
constexpr int most_candidates = 16;
constexpr int repetitions = 4;
/// Those that took longer than this times the shortest in a first run are not timed again.
constexpr double worth_repeating = 1.25;
/// The library's first choice stays unless another one takes less than this part of its time: runs
/// that tune anew should seldom come to another choice.
constexpr double clearly_faster = 0.98;

/// The elements of a matrix on the host, put back at the end: timing must not add to a sum.
class Preserved {
public:
    Preserved(const Matrix& matrix, const Stream& stream)
        : matrix_(matrix),
          stream_(stream),
          bytes_(static_cast<std::size_t>(row_bytes() * matrix.rows)) {
        copy_rows({.to = bytes_.data(),
                   .to_stride = row_bytes(),
                   .from = matrix.data,
                   .from_stride = stride(),
                   .row_bytes = row_bytes(),
                   .rows = matrix.rows},
                  stream);
        stream.synchronize();
    }
    void put_back() const {
        copy_rows({.to = matrix_.data,
                   .to_stride = stride(),
                   .from = bytes_.data(),
                   .from_stride = row_bytes(),
                   .row_bytes = row_bytes(),
                   .rows = matrix_.rows},
                  stream_);
        stream_.synchronize();
    }

private:
    std::int64_t row_bytes() const { return matrix_.cols * size_of(matrix_.dtype); }
    std::int64_t stride() const { return matrix_.row_stride * size_of(matrix_.dtype); }

    Matrix matrix_;
    const Stream& stream_;
    std::vector<std::byte> bytes_;
};

}  // namespace

class Products::Library {
public:
    Library(const DeviceFacts& device, TuningTable* tuning)
        : gelu_epilogue_(device.major >= 9), tuning_(tuning) {
        if (tuning_ == nullptr) return;
        tuning_->open(text(device.name, ", ", device.multiprocessors, " multiprocessors, cuBLASLt ",
                           library_.functions.get_version()));
    }

    bool supports(const Product& product) {
        if (has_gelu_epilogue(product) && !can_fuse_gelu(product)) return false;
        return !described(product).candidates.empty();
    }
    void multiply(const Product& product, const OpContext& context);

private:
    struct Described {
        LtProduct product;
        std::vector<Algorithm> candidates;
        std::optional<Algorithm> chosen;
    };

    bool can_fuse_gelu(const Product& product) const;
    Described& described(const Product& product);
    Algorithm choose(const Described& described, const Product& product, const Stream& stream,
                     std::byte* workspace);
    Algorithm fastest(const Described& described, const Product& product, const Stream& stream,
                      std::byte* workspace) const;

    bool gelu_epilogue_;
    TuningTable* tuning_;
    LtLibrary library_;
    std::map<ProductKey, Described> made_;
};

bool Products::Library::can_fuse_gelu(const Product& product) const {
    // The epilogue's gelu is an approximation that is lost in the rounding to 16 bits, not in fp32.
    // That before Hopper it is slower than a kernel of its own is assumed, not measured.
    constexpr std::int64_t library_multiple = 8;
    return gelu_epilogue_ && product.c.dtype != DType::f32 && !product.a.is_float8() &&
           auxiliary_of(product).row_stride % library_multiple == 0;
}

Products::Library::Described& Products::Library::described(const Product& product) {
    const ProductKey key = key_of(product);
    const auto found = made_.find(key);
    if (found != made_.end()) return found->second;
    LtProduct described(library_, product);
    std::vector<Algorithm> candidates =
        described.candidates(tuning_ != nullptr ? most_candidates : 1, workspace_bytes);
    return made_.emplace(key, Described{std::move(described), std::move(candidates), {}})
        .first->second;
}

void Products::Library::multiply(const Product& product, const OpContext& context) {
    if (product.c.rows == 0 || product.c.cols == 0) return;
    std::byte* workspace = context.scratch.take_bytes(workspace_bytes);
    Described& entry = described(product);
    if (!entry.chosen) entry.chosen = choose(entry, product, context.stream, workspace);
    library_.check(
        entry.product.run(product, *entry.chosen, context.stream, workspace, workspace_bytes),
        "cublasLtMatmul");
}

Algorithm Products::Library::choose(const Described& described, const Product& product,
                                    const Stream& stream, std::byte* workspace) {
    if (described.candidates.empty()) {
        fail(ExitCode::usage, "cuBLASLt has no algorithm on this GPU for a product of ",
             product.a.rows, " x ", product.a.cols, " x ", product.b.cols, " in ",
             name_of(product.a.dtype),
             product.a.is_float8()
                 ? ": fp8 needs compute capability 8.9 or newer and multiples of 16"
                 : "");
    }
    if (tuning_ == nullptr) return described.candidates.front();
    const std::string key = to_word(key_of(product));
    if (const auto word = tuning_->find(key)) {
        const auto noted = algorithm_from(*word);
        if (noted && described.product.runs(*noted, workspace_bytes)) return *noted;
    }
    const Algorithm found = described.candidates.size() == 1
                                ? described.candidates.front()
                                : fastest(described, product, stream, workspace);
    tuning_->note(key, to_word(found));
    return found;
}

Algorithm Products::Library::fastest(const Described& described, const Product& product,
                                     const Stream& stream, std::byte* workspace) const {
    std::optional<Preserved> preserved;
    if (product.accumulate) preserved.emplace(product.c, stream);
    const Event begin;
    const Event end;
    const auto milliseconds = [&](const Algorithm& algorithm, int times) {
        begin.record(stream);
        for (int i = 0; i < times; ++i) {
            const cublasStatus_t status =
                described.product.run(product, algorithm, stream, workspace, workspace_bytes);
            if (status != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<double>::infinity();
        }
        end.record(stream);
        end.synchronize();
        return end.milliseconds_since(begin) / times;
    };
    std::vector<double> times;
    for (const Algorithm& candidate : described.candidates) {
        // The first run of all loads code.
        milliseconds(candidate, 1);
        times.push_back(milliseconds(candidate, 1));
    }
    const double shortest = *std::min_element(times.begin(), times.end());
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (times[i] <= worth_repeating * shortest)
            times[i] = milliseconds(described.candidates[i], repetitions);
    }
    if (preserved) preserved->put_back();
    const auto best = std::min_element(times.begin(), times.end());
    const bool other = *best < clearly_faster * times.front();
    return described.candidates[other ? static_cast<std::size_t>(best - times.begin()) : 0];
}

Products::Products(const DeviceFacts& device, TuningTable* tuning)
    : library_(std::make_unique<Library>(device, tuning)) {}
Products::~Products() = default;

void Products::multiply(const Product& product, const OpContext& context) {
    library_->multiply(product, context);
}
bool Products::supports(const Product& product) const {
    return library_->supports(product);
}

}  // namespace gptrain::cuda
