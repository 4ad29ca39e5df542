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
    void tune(const std::function<void()>& work);
    bool use_table(std::string_view table);
    void multiply(const Product& product, const OpContext& context);

private:
    struct Described {
        LtProduct product;
        std::vector<Algorithm> candidates;  ///< the library's first choice first
        std::optional<Algorithm> chosen = {};
    };

    bool can_fuse_gelu(const Product& product) const;
    static void check_supported(const Product& product, const Described& described);
    Described& described(const Product& product);
    /// What the table has, if it can be run.
    std::optional<Algorithm> noted(const Described& described, const Product& product) const;
    Algorithm fastest(const Described& described, const Product& product, const Stream& stream,
                      std::byte* workspace) const;

    bool gelu_epilogue_;
    TuningTable* tuning_;
    bool timing_ = false;
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
    std::vector<Algorithm> candidates = described.candidates(most_candidates, workspace_bytes);
    return made_.emplace(key, Described{std::move(described), std::move(candidates)}).first->second;
}

void Products::Library::tune(const std::function<void()>& work) {
    GPTRAIN_CHECK(tuning_ != nullptr, "no table to note algorithms in");
    made_.clear();
    timing_ = true;
    work();
    timing_ = false;
    tuning_->save();
}

bool Products::Library::use_table(std::string_view table) {
    GPTRAIN_CHECK(tuning_ != nullptr, "no table to replace");
    made_.clear();
    return tuning_->take(table);
}

void Products::Library::check_supported(const Product& product, const Described& described) {
    if (!described.candidates.empty()) return;
    fail(ExitCode::usage, "cuBLASLt has no algorithm on this GPU for a product of ", product.a.rows,
         " x ", product.a.cols, " x ", product.b.cols, " in ", name_of(product.a.dtype),
         product.a.is_float8() ? ": fp8 needs compute capability 8.9 or newer and multiples of 16"
                               : "");
}

void Products::Library::multiply(const Product& product, const OpContext& context) {
    if (product.c.rows == 0 || product.c.cols == 0) return;
    std::byte* workspace = context.scratch.take_bytes(workspace_bytes);
    Described& entry = described(product);
    check_supported(product, entry);
    if (!entry.chosen) entry.chosen = noted(entry, product);
    if (timing_) {
        if (entry.chosen) return;
        entry.chosen = fastest(entry, product, context.stream, workspace);
        tuning_->note(to_word(key_of(product)), to_word(*entry.chosen));
        return;
    }
    if (!entry.chosen) entry.chosen = entry.candidates.front();
    library_.check(
        entry.product.run(product, *entry.chosen, context.stream, workspace, workspace_bytes),
        "cublasLtMatmul");
}

std::optional<Algorithm> Products::Library::noted(const Described& described,
                                                  const Product& product) const {
    if (tuning_ == nullptr) return std::nullopt;
    const auto word = tuning_->find(to_word(key_of(product)));
    const auto algorithm = word ? algorithm_from(*word) : std::nullopt;
    if (!algorithm || !described.product.runs(*algorithm, workspace_bytes)) return std::nullopt;
    return algorithm;
}

Algorithm Products::Library::fastest(const Described& described, const Product& product,
                                     const Stream& stream, std::byte* workspace) const {
    if (described.candidates.size() == 1) return described.candidates.front();
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
    const auto best = std::min_element(times.begin(), times.end());
    const bool other = *best < clearly_faster * times.front();
    return described.candidates[other ? static_cast<std::size_t>(best - times.begin()) : 0];
}

Products::Products(const DeviceFacts& device, TuningTable* tuning)
    : library_(std::make_unique<Library>(device, tuning)) {}
Products::~Products() = default;

void Products::tune(const std::function<void()>& work) {
    library_->tune(work);
}
bool Products::use_table(std::string_view table) {
    return library_->use_table(table);
}
void Products::multiply(const Product& product, const OpContext& context) {
    library_->multiply(product, context);
}
bool Products::supports(const Product& product) const {
    return library_->supports(product);
}

}  // namespace gptrain::cuda
