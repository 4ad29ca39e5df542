#include "cuda/gemm/gemms.h"

#include <algorithm>
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
    void multiply(const Gemm& gemm, const std::function<void()>& separate,
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
    static void check_supported(const Gemm& gemm, const PreparedGemm& prepared);
    PreparedGemm& prepare(const Gemm& gemm);
    /// Uses the table's choice, if it can run.
    void choose_recorded(PreparedGemm& prepared, const GemmKey& key) const;
    Algorithm fastest(const PreparedGemm& prepared, const Gemm& gemm, const Stream& stream,
                      std::byte* workspace) const;
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
    if (has_gelu_epilogue(gemm) && !can_fuse_gelu(gemm)) return nullptr;
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

void Gemms::Library::check_supported(const Gemm& gemm, const PreparedGemm& prepared) {
    if (!prepared.candidates.empty()) return;
    fail(ExitCode::usage, "cuBLASLt has no algorithm on this GPU for a GEMM of ", gemm.a.rows,
         " x ", gemm.a.cols, " x ", gemm.b.cols, " in ", name_of(gemm.a.dtype),
         gemm.a.is_fp8() ? ": fp8 needs compute capability 8.9 or newer and multiples of 16" : "");
}

void Gemms::Library::multiply(const Gemm& gemm, const OpContext& context) {
    if (gemm.c.rows == 0 || gemm.c.cols == 0) return;
    std::byte* workspace = context.scratch.take_bytes(workspace_bytes);
    PreparedGemm& entry = prepare(gemm);
    check_supported(gemm, entry);
    if (timing_) {
        if (entry.chosen) return;
        entry.chosen = fastest(entry, gemm, context.stream, workspace);
        tuning_->record(to_text(key_of(gemm)), to_text(*entry.chosen));
        return;
    }
    if (!entry.chosen) entry.chosen = entry.candidates.front();
    library_.check(entry.gemm.run(gemm, *entry.chosen, context.stream, workspace, workspace_bytes),
                   "cublasLtMatmul");
}

void Gemms::Library::multiply(const Gemm& gemm, const std::function<void()>& separate,
                              const OpContext& context) {
    PreparedGemm* entry = fused(gemm);
    if (entry == nullptr) return separate();
    if (timing_ && !entry->chosen && !entry->separate) {
        entry->separate = faster_separate(gemm, separate, context);
        if (entry->separate) tuning_->record(to_text(key_of(gemm)), std::string(separate_word));
        return;
    }
    entry->separate ? separate() : multiply(gemm, context);
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

Algorithm Gemms::Library::fastest(const PreparedGemm& prepared, const Gemm& gemm,
                                  const Stream& stream, std::byte* workspace) const {
    if (prepared.candidates.size() == 1) return prepared.candidates.front();
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
void Gemms::multiply(const Gemm& gemm, const std::function<void()>& separate,
                     const OpContext& context) {
    library_->multiply(gemm, separate, context);
}

}  // namespace gptrain::cuda
