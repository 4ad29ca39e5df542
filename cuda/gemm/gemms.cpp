#include "cuda/gemm/gemms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cuda/gemm/lt_gemm.h"
#include "cuda/gemm/tuning.h"

namespace gptrain::cuda {
namespace {

/// The number of algorithms that tuning times per GEMM.
constexpr int max_candidates = 16;
constexpr int repetitions = 4;
/// Tuning does not time an algorithm again if its first run took longer than this times the
/// shortest.
constexpr double retime_ratio = 1.25;
/// Tuning replaces the library's first choice only by an algorithm that takes less than this
/// fraction of its time, and separates an epilogue only if that takes less than this fraction of
/// the fused time. Repeated tuning should then rarely change a choice.
constexpr double max_time_ratio = 0.98;

/// The tuning table's entry, in place of an algorithm, for a GEMM with a separate epilogue.
constexpr std::string_view separate_word = "apart";

/// Mean device time of the work over `runs` consecutive runs.
double milliseconds(const std::function<void()>& work, int runs, const Stream& stream) {
    const Event begin(Event::Purpose::time);
    const Event end(Event::Purpose::time);
    begin.record(stream);
    for (int i = 0; i < runs; ++i)
        work();
    end.record(stream);
    end.synchronize();
    return end.milliseconds_since(begin) / runs;
}

/// Whether the library rounds as Gemm states. cuBLASLt 13 on an H100 rounds a product before it
/// adds it to 16 bits, and before it adds a bias where sizes or strides are no multiples of 8.
bool rounds_right(const Gemm& gemm) {
    if (gemm.c.dtype == DType::f32) return true;
    return !gemm.accumulate && gemm.a.cols % fast_multiple == 0 &&
           gemm.b.cols % fast_multiple == 0 && gemm.c.row_stride % fast_multiple == 0;
}

}  // namespace

class Gemms::Library {
public:
    Library(const DeviceProperties& device, TuningTable* tuning)
        : gelu_epilogue_(device.major >= 9), tuning_(tuning) {
        if (tuning_ == nullptr) return;
        tuning_->open(text(device.name, ", ", device.multiprocessors, " multiprocessors, cuBLASLt ",
                           library_.functions.get_version()));
    }

    void tune(const std::function<void()>& work);
    bool use_table(std::string_view table);
    void multiply(const Gemm& gemm, const OpContext& context);
    bool multiply(const Gemm& gemm, const std::function<void()>& separate,
                  const OpContext& context);

private:
    struct PreparedGemm {
        LtGemm gemm;
        std::vector<Algorithm> candidates;  ///< the library's first choice first
        // At most one of these is set, by tuning or by the table.
        std::optional<Algorithm> chosen = {};
        bool separate = false;
    };

    bool can_fuse_gelu(const Gemm& gemm) const;
    /// The GEMM with its epilogue; null if the library cannot fuse them.
    PreparedGemm* fused(const Gemm& gemm);
    PreparedGemm& prepare(const Gemm& gemm);
    /// Runs the chosen algorithm, or else the first one that the library accepts, which is then
    /// chosen; during tuning only chooses. Returns false if the library accepts none.
    bool compute(PreparedGemm& prepared, const Gemm& gemm, const OpContext& context);
    bool issue(const PreparedGemm& prepared, const Algorithm& algorithm, const Gemm& gemm,
               const OpContext& context, std::byte* workspace) const;
    /// Uses the table's choice, if it can run.
    void choose_recorded(PreparedGemm& prepared, const GemmKey& key) const;
    /// None if the library accepts none.
    std::optional<Algorithm> fastest(const PreparedGemm& prepared, const Gemm& gemm,
                                     const Stream& stream, std::byte* workspace) const;
    /// Whether `separate` takes clearly less time; both use their fastest algorithms.
    bool faster_separate(const Gemm& gemm, const std::function<void()>& separate,
                         const OpContext& context);

    bool gelu_epilogue_;
    TuningTable* tuning_;
    bool timing_ = false;
    LtLibrary library_;
    std::map<GemmKey, PreparedGemm> prepared_;
};

bool Gemms::Library::can_fuse_gelu(const Gemm& gemm) const {
    // The epilogue's GELU is approximate; rounding to 16 bits hides the error, fp32 does not. We
    // assume, but have not measured, that before Hopper it is slower than a separate kernel.
    constexpr std::int64_t library_multiple = 8;
    return gelu_epilogue_ && gemm.c.dtype != DType::f32 && !gemm.a.is_fp8() &&
           auxiliary_of(gemm).row_stride % library_multiple == 0;
}

Gemms::Library::PreparedGemm* Gemms::Library::fused(const Gemm& gemm) {
    if (!rounds_right(gemm) || (has_gelu_epilogue(gemm) && !can_fuse_gelu(gemm))) return nullptr;
    PreparedGemm& entry = prepare(gemm);
    return entry.candidates.empty() ? nullptr : &entry;
}

Gemms::Library::PreparedGemm& Gemms::Library::prepare(const Gemm& gemm) {
    const GemmKey key = key_of(gemm);
    const auto found = prepared_.find(key);
    if (found != prepared_.end()) return found->second;
    LtGemm lt_gemm(library_, gemm);
    std::vector<Algorithm> candidates = lt_gemm.candidates(max_candidates, workspace_bytes);
    PreparedGemm& prepared =
        prepared_.emplace(key, PreparedGemm{std::move(lt_gemm), std::move(candidates)})
            .first->second;
    choose_recorded(prepared, key);
    return prepared;
}

void Gemms::Library::choose_recorded(PreparedGemm& prepared, const GemmKey& key) const {
    const auto entry = tuning_ == nullptr ? std::nullopt : tuning_->find(to_text(key));
    if (!entry) return;
    prepared.separate = *entry == separate_word;
    const auto algorithm = algorithm_of(*entry);
    if (algorithm && prepared.gemm.runs(*algorithm, workspace_bytes)) prepared.chosen = algorithm;
}

void Gemms::Library::tune(const std::function<void()>& work) {
    GPTRAIN_CHECK(tuning_ != nullptr, "no tuning table");
    prepared_.clear();
    timing_ = true;
    work();
    timing_ = false;
    tuning_->save();
}

bool Gemms::Library::use_table(std::string_view table) {
    GPTRAIN_CHECK(tuning_ != nullptr, "no table to replace");
    prepared_.clear();
    return tuning_->replace(table);
}

bool Gemms::Library::issue(const PreparedGemm& prepared, const Algorithm& algorithm,
                           const Gemm& gemm, const OpContext& context, std::byte* workspace) const {
    const cublasStatus_t status =
        prepared.gemm.run(gemm, algorithm, context.stream, workspace, workspace_bytes);
    if (is_declined(status)) return false;
    library_.check(status, "cublasLtMatmul");
    return true;
}

bool Gemms::Library::compute(PreparedGemm& prepared, const Gemm& gemm, const OpContext& context) {
    std::byte* workspace = context.scratch.take_bytes(workspace_bytes);
    if (timing_) {
        if (prepared.chosen) return true;
        prepared.chosen = fastest(prepared, gemm, context.stream, workspace);
        if (prepared.chosen) tuning_->record(to_text(key_of(gemm)), to_text(*prepared.chosen));
        return prepared.chosen.has_value();
    }
    if (prepared.chosen && issue(prepared, *prepared.chosen, gemm, context, workspace)) return true;
    for (const Algorithm& candidate : prepared.candidates) {
        if (!issue(prepared, candidate, gemm, context, workspace)) continue;
        prepared.chosen = candidate;
        return true;
    }
    return false;
}

void Gemms::Library::multiply(const Gemm& gemm, const OpContext& context) {
    if (gemm.c.rows == 0 || gemm.c.cols == 0) return;
    if (compute(prepare(gemm), gemm, context)) return;
    fail(ExitCode::usage, "cuBLASLt has no algorithm on this GPU for a GEMM of ", gemm.a.rows,
         " x ", gemm.a.cols, " x ", gemm.b.cols, " in ", name_of(gemm.a.dtype),
         gemm.a.is_fp8() ? ": fp8 needs compute capability 8.9 or newer and multiples of 16" : "");
}

bool Gemms::Library::multiply(const Gemm& gemm, const std::function<void()>& separate,
                              const OpContext& context) {
    if (gemm.c.rows == 0 || gemm.c.cols == 0) return false;
    PreparedGemm* entry = fused(gemm);
    if (entry == nullptr || entry->separate) {
        separate();
        return false;
    }
    const bool undecided = timing_ && !entry->chosen;
    const Scratch unused = context.scratch;
    const bool runs = compute(*entry, gemm, context);
    context.scratch = unused;
    entry->separate = !runs || (undecided && faster_separate(gemm, separate, context));
    if (undecided && entry->separate)
        tuning_->record(to_text(key_of(gemm)), std::string(separate_word));
    if (!runs) separate();
    return runs;
}

bool Gemms::Library::faster_separate(const Gemm& gemm, const std::function<void()>& separate,
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
    const double fused = time_of([&] { multiply(gemm, context); });
    return time_of(separate) < max_time_ratio * fused;
}

std::optional<Algorithm> Gemms::Library::fastest(const PreparedGemm& prepared, const Gemm& gemm,
                                                 const Stream& stream, std::byte* workspace) const {
    if (prepared.candidates.empty()) return std::nullopt;
    const auto time_of = [&](const Algorithm& algorithm, int runs) {
        bool issued = true;
        const auto run = [&] {
            issued = issued && prepared.gemm.run(gemm, algorithm, stream, workspace,
                                                 workspace_bytes) == CUBLAS_STATUS_SUCCESS;
        };
        const double time = milliseconds(run, runs, stream);
        return issued ? time : std::numeric_limits<double>::infinity();
    };
    std::vector<double> times;
    for (const Algorithm& candidate : prepared.candidates) {
        // The first run loads code.
        time_of(candidate, 1);
        times.push_back(time_of(candidate, 1));
    }
    const double shortest = *std::min_element(times.begin(), times.end());
    if (std::isinf(shortest)) return std::nullopt;
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (times[i] <= retime_ratio * shortest)
            times[i] = time_of(prepared.candidates[i], repetitions);
    }
    const auto best = std::min_element(times.begin(), times.end());
    const bool other = *best < max_time_ratio * times.front();
    return prepared.candidates[other ? static_cast<std::size_t>(best - times.begin()) : 0];
}

Gemms::Gemms(const DeviceProperties& device, TuningTable* tuning)
    : library_(std::make_unique<Library>(device, tuning)) {}
Gemms::~Gemms() = default;

void Gemms::tune(const std::function<void()>& work) {
    library_->tune(work);
}
bool Gemms::use_table(std::string_view table) {
    return library_->use_table(table);
}
void Gemms::multiply(const Gemm& gemm, const OpContext& context) {
    GPTRAIN_CHECK(!gemm.has_epilogue(), "no separate epilogue");
    library_->multiply(gemm, context);
}
bool Gemms::multiply(const Gemm& gemm, const std::function<void()>& separate,
                     const OpContext& context) {
    return library_->multiply(gemm, separate, context);
}

}  // namespace gptrain::cuda
