#include "cuda/products/products.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cuda/products/lt_product.h"
#include "cuda/products/tuning.h"

namespace gptrain::cuda {
namespace {

/// The number of algorithms that tuning times per GEMM.
constexpr int most_candidates = 16;
constexpr int repetitions = 4;
/// Tuning does not time an algorithm again if its first run took longer than this times the
/// shortest.
constexpr double worth_repeating = 1.25;
/// Tuning replaces the library's first choice only by an algorithm that takes less than this
/// fraction of its time, and separates an epilogue only if that takes less than this fraction of
/// the fused time. Repeated tuning should then rarely change a choice.
constexpr double clearly_faster = 0.98;

/// The tuning table's entry, in place of an algorithm, for a GEMM with a separate epilogue.
constexpr std::string_view apart_word = "apart";

/// Mean device time of the work over `runs` consecutive runs.
double milliseconds(const std::function<void()>& work, int runs, const Stream& stream) {
    const Event begin;
    const Event end;
    begin.record(stream);
    for (int i = 0; i < runs; ++i)
        work();
    end.record(stream);
    end.synchronize();
    return end.milliseconds_since(begin) / runs;
}

}  // namespace

class Products::Library {
public:
    Library(const DeviceFacts& device, TuningTable* tuning)
        : gelu_epilogue_(device.major >= 9), tuning_(tuning) {
        if (tuning_ == nullptr) return;
        tuning_->open(text(device.name, ", ", device.multiprocessors, " multiprocessors, cuBLASLt ",
                           library_.functions.get_version()));
    }

    void tune(const std::function<void()>& work);
    bool use_table(std::string_view table);
    void multiply(const Product& product, const OpContext& context);
    void multiply(const Product& product, const std::function<void()>& apart,
                  const OpContext& context);

private:
    struct Described {
        LtProduct product;
        std::vector<Algorithm> candidates;  ///< the library's first choice first
        // At most one of these is set, by tuning or by the table.
        std::optional<Algorithm> chosen = {};
        bool apart = false;
    };

    bool can_fuse_gelu(const Product& product) const;
    /// The GEMM with its epilogue; null if the library cannot fuse them.
    Described* fused(const Product& product);
    static void check_supported(const Product& product, const Described& described);
    Described& described(const Product& product);
    /// Uses the table's choice, if it can run.
    void choose_noted(Described& described, const ProductKey& key) const;
    Algorithm fastest(const Described& described, const Product& product, const Stream& stream,
                      std::byte* workspace) const;
    /// Whether `apart` takes clearly less time; both use their fastest algorithms.
    bool faster_apart(const Product& product, const std::function<void()>& apart,
                      const OpContext& context);

    bool gelu_epilogue_;
    TuningTable* tuning_;
    bool timing_ = false;
    LtLibrary library_;
    std::map<ProductKey, Described> made_;
};

bool Products::Library::can_fuse_gelu(const Product& product) const {
    // The epilogue's GELU is approximate; rounding to 16 bits hides the error, fp32 does not. We
    // assume, but have not measured, that before Hopper it is slower than a separate kernel.
    constexpr std::int64_t library_multiple = 8;
    return gelu_epilogue_ && product.c.dtype != DType::f32 && !product.a.is_float8() &&
           auxiliary_of(product).row_stride % library_multiple == 0;
}

Products::Library::Described* Products::Library::fused(const Product& product) {
    if (has_gelu_epilogue(product) && !can_fuse_gelu(product)) return nullptr;
    Described& entry = described(product);
    return entry.candidates.empty() ? nullptr : &entry;
}

Products::Library::Described& Products::Library::described(const Product& product) {
    const ProductKey key = key_of(product);
    const auto found = made_.find(key);
    if (found != made_.end()) return found->second;
    LtProduct described(library_, product);
    std::vector<Algorithm> candidates = described.candidates(most_candidates, workspace_bytes);
    Described& made =
        made_.emplace(key, Described{std::move(described), std::move(candidates)}).first->second;
    choose_noted(made, key);
    return made;
}

void Products::Library::choose_noted(Described& described, const ProductKey& key) const {
    const auto word = tuning_ == nullptr ? std::nullopt : tuning_->find(to_word(key));
    if (!word) return;
    described.apart = *word == apart_word;
    const auto algorithm = algorithm_from(*word);
    if (algorithm && described.product.runs(*algorithm, workspace_bytes))
        described.chosen = algorithm;
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

void Products::Library::multiply(const Product& product, const std::function<void()>& apart,
                                 const OpContext& context) {
    Described* entry = fused(product);
    if (entry == nullptr) return apart();
    if (timing_ && !entry->chosen && !entry->apart) {
        entry->apart = faster_apart(product, apart, context);
        if (entry->apart) tuning_->note(to_word(key_of(product)), std::string(apart_word));
        return;
    }
    entry->apart ? apart() : multiply(product, context);
}

bool Products::Library::faster_apart(const Product& product, const std::function<void()>& apart,
                                     const OpContext& context) {
    const Scratch unused = context.scratch;
    const auto time_of = [&](const std::function<void()>& way) {
        const auto run = [&] {
            context.scratch = unused;
            way();
        };
        run();  // Tunes the GEMMs in it.
        timing_ = false;
        run();  // The first run loads code.
        const double time = milliseconds(run, repetitions, context.stream);
        timing_ = true;
        return time;
    };
    const double fused = time_of([&] { multiply(product, context); });
    return time_of(apart) < clearly_faster * fused;
}

Algorithm Products::Library::fastest(const Described& described, const Product& product,
                                     const Stream& stream, std::byte* workspace) const {
    if (described.candidates.size() == 1) return described.candidates.front();
    const auto time_of = [&](const Algorithm& algorithm, int runs) {
        bool issued = true;
        const auto run = [&] {
            issued = issued && described.product.run(product, algorithm, stream, workspace,
                                                     workspace_bytes) == CUBLAS_STATUS_SUCCESS;
        };
        const double time = milliseconds(run, runs, stream);
        return issued ? time : std::numeric_limits<double>::infinity();
    };
    std::vector<double> times;
    for (const Algorithm& candidate : described.candidates) {
        // The first run loads code.
        time_of(candidate, 1);
        times.push_back(time_of(candidate, 1));
    }
    const double shortest = *std::min_element(times.begin(), times.end());
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (times[i] <= worth_repeating * shortest)
            times[i] = time_of(described.candidates[i], repetitions);
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
    GPTRAIN_CHECK(!product.has_epilogue(), "an epilogue that cannot be done apart");
    library_->multiply(product, context);
}
void Products::multiply(const Product& product, const std::function<void()>& apart,
                        const OpContext& context) {
    library_->multiply(product, apart, context);
}

}  // namespace gptrain::cuda
