#include "cuda/gemm/gemms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cuda/gemm/agreement.h"
#include "cuda/gemm/lt_gemm.h"
#include "cuda/gemm/sm90_plan.h"
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
/// fraction of its time, the library by our kernel likewise, and separates an epilogue only if that
/// takes less than this fraction of the fused time. Repeated tuning should then rarely change a
/// choice.
constexpr double max_time_ratio = 0.98;

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

/// The library's demands on the operands besides their sizes.
std::string_view demands(const Gemm& gemm) {
    if (gemm.a.in_blocks()) {
        constexpr std::string_view needs =
            ": scales for blocks need compute capability 9.0 and cuBLASLt 12.9 or newer; set "
            "precision.fp8_recipe to tensor";
        constexpr std::string_view of_gradient =
            ": scales for blocks of tokens need compute capability 9.0 and a cuBLASLt that has "
            "them; set precision.fp8_weight_gradients to bf16";
        return gemm.c.dtype == DType::f32 ? of_gradient : needs;
    }
    return gemm.a.is_fp8() ? ": fp8 needs compute capability 8.9 or newer and multiples of 16" : "";
}

/// The ways to compute it in our kernel for sm_90a that are worth a try.
std::vector<Sm90Choice> sm90_choices(const Gemm& gemm, std::int64_t multiprocessors) {
    std::vector<Sm90Choice> choices;
    for (const std::int64_t parts :
         sm90::parts_to_try(gemm, multiprocessors, Gemms::workspace_bytes)) {
        if (sm90::may_sum_rows(gemm)) choices.push_back({.parts = parts, .sums_rows = true});
        choices.push_back({.parts = parts, .sums_rows = false});
    }
    return choices;
}

[[noreturn]] void fail_declined(const Gemm& gemm) {
    fail(ExitCode::usage, "cuBLASLt has no algorithm on this GPU for a GEMM of ", gemm.a.rows,
         " x ", gemm.a.cols, " x ", gemm.b.cols, " in ", name_of(gemm.a.dtype), demands(gemm));
}

}  // namespace

class Gemms::Library {
public:
    Library(const DeviceProperties& device, TuningTable* tuning, bool tunes_sm90)
        : device_major_(device.major),
          has_sm90_(device.major == 9 && device.minor == 0),
          multiprocessors_(device.multiprocessors),
          tuning_(tuning),
          tunes_sm90_(tunes_sm90) {
        if (tuning_ == nullptr) return;
        tuning_->open(text(device.name, ", ", device.multiprocessors, " multiprocessors, cuBLASLt ",
                           library_.functions.get_version()));
    }

    void tune(const std::function<void()>& work);
    bool use_table(std::string_view table);
    void run(const Gemm& gemm, PartKernel* kernel, const OpContext& context);
    void run(const GroupedGemm& gemm, const GroupedKernels& kernels, const OpContext& context);

private:
    struct PreparedGemm {
        LtGemm gemm;
        std::vector<Algorithm> candidates;  ///< the library's first choice first
        GemmChoice choice = {};             ///< by the table, by tuning, or what ran
    };
    /// The kernel, resources and rules with which the parts of a plan run.
    struct Call {
        PartKernel* kernel;
        const OpContext& context;
        std::byte* workspace;
        GemmRules rules;
    };

    PreparedGemm& prepare(const Gemm& gemm);
    /// GemmChoice::sm90, by the table or by tuning.
    Sm90Choice sm90_choice(const Gemm& gemm, const Call& call);
    /// Times our kernel for sm_90a against the library's plan and records the faster one.
    Sm90Choice tune_sm90(const Gemm& gemm, const Call& call);
    /// The table's choice, or the library's first; during tuning the fastest.
    GemmChoice choose(const Gemm& gemm, const Call& call);
    /// Empty if the library accepts none.
    std::optional<Algorithm> fastest(const PreparedGemm& prepared, const Gemm& gemm,
                                     const Call& call) const;
    double time_of(const GemmPlan& plan, const Call& call);
    /// True if the table gives the grouped GEMMs to our kernel for sm_90a.
    bool runs_on_sm90(const GroupedGemm& gemm, const GroupedKernels& kernels,
                      const OpContext& context);
    /// False if the library declines the part; nothing was issued. During tuning, calls of the
    /// library are only chosen.
    bool run_part(const GemmPart& part, const Call& call);

    int device_major_;
    bool has_sm90_;
    std::int64_t multiprocessors_;
    TuningTable* tuning_;
    bool tunes_sm90_;
    bool timing_ = false;
    LtLibrary library_;
    std::map<GemmKey, PreparedGemm> prepared_;
    std::map<GemmKey, Sm90Choice> sm90_choices_;
};

void Gemms::Library::tune(const std::function<void()>& work) {
    GPTRAIN_CHECK(tuning_ != nullptr, "no tuning table");
    prepared_.clear();
    sm90_choices_.clear();
    timing_ = true;
    work();
    timing_ = false;
    tuning_->save();
}

bool Gemms::Library::use_table(std::string_view table) {
    GPTRAIN_CHECK(tuning_ != nullptr, "no table to replace");
    prepared_.clear();
    sm90_choices_.clear();
    return tuning_->replace(table);
}

void Gemms::Library::run(const Gemm& wanted, PartKernel* kernel, const OpContext& context) {
    Gemm gemm = wanted;
    gemm.multiprocessors = context.gemm_multiprocessors;
    std::byte* workspace = context.scratch.take_bytes(workspace_bytes);
    Call call = {.kernel = kernel, .context = context, .workspace = workspace, .rules = {}};
    call.rules = {.device_major = device_major_,
                  .deterministic = context.deterministic,
                  .scratch = context.scratch,
                  .choose = [&](const Gemm& part) { return choose(part, call); },
                  .sm90 = [&](const Gemm& part) { return sm90_choice(part, call); }};
    GemmPlan plan = plan_of(gemm, call.rules);
    for (std::size_t next = 0; next < plan.size();) {
        if (run_part(plan[next], call)) {
            ++next;
            continue;
        }
        const Gemm declined = plan[next].gemm;
        if (!is_separable(declined)) fail_declined(declined);
        // The other plan begins with the parts that have run.
        prepare(declined).choice.separate = true;
        plan = plan_of(gemm, call.rules);
    }
}

bool Gemms::Library::run_part(const GemmPart& part, const Call& call) {
    if (part.kind != GemmPart::Kind::library) {
        call.kernel(part, call.context);
        return true;
    }
    if (timing_) return part.algorithm.has_value();
    PreparedGemm& prepared = prepare(part.gemm);
    const auto issue = [&](const Algorithm& algorithm) {
        const cublasStatus_t status = prepared.gemm.run(part.gemm, algorithm, call.context.stream,
                                                        call.workspace, workspace_bytes);
        if (is_declined(status)) return false;
        library_.check(status, "cublasLtMatmul");
        return true;
    };
    if (part.algorithm && issue(*part.algorithm)) return true;
    const auto& candidates = prepared.candidates;
    const auto accepted = std::find_if(candidates.begin(), candidates.end(), issue);
    if (accepted == candidates.end()) return false;
    prepared.choice.algorithm = *accepted;
    return true;
}

Gemms::Library::PreparedGemm& Gemms::Library::prepare(const Gemm& gemm) {
    const GemmKey key = key_of(gemm);
    const auto found = prepared_.find(key);
    if (found != prepared_.end()) return found->second;
    LtGemm lt_gemm(library_, gemm);
    std::vector<Algorithm> candidates = lt_gemm.candidates(max_candidates, workspace_bytes);
    GemmChoice choice = {.separate = candidates.empty()};
    const auto entry = tuning_ == nullptr ? std::nullopt : tuning_->find(to_text(key));
    if (entry) choice = choice_of(*entry);
    if (choice.algorithm && !lt_gemm.runs(*choice.algorithm, workspace_bytes))
        choice.algorithm.reset();
    return prepared_.emplace(key, PreparedGemm{std::move(lt_gemm), std::move(candidates), choice})
        .first->second;
}

GemmChoice Gemms::Library::choose(const Gemm& gemm, const Call& call) {
    PreparedGemm& prepared = prepare(gemm);
    GemmChoice& choice = prepared.choice;
    const bool separable = is_separable(gemm);
    if (!timing_ || choice.algorithm || (separable && choice.separate)) return choice;
    choice = {.algorithm = fastest(prepared, gemm, call), .separate = separable};
    if (choice.algorithm && separable) {
        // Both plans use their fastest algorithms.
        const GemmPlan apart = plan_of(gemm, call.rules);
        choice.separate = false;
        const GemmPlan fused = plan_of(gemm, call.rules);
        choice.separate = time_of(apart, call) < max_time_ratio * time_of(fused, call);
    }
    if (choice.algorithm || choice.separate)
        tuning_->record(to_text(key_of(gemm)), to_text(choice));
    return choice;
}

Sm90Choice Gemms::Library::sm90_choice(const Gemm& gemm, const Call& call) {
    if (!has_sm90_ || tuning_ == nullptr || !sm90::covers_gemm(gemm)) return {};
    const GemmKey key = key_of(gemm);
    const auto found = sm90_choices_.find(key);
    if (found != sm90_choices_.end()) return found->second;
    const auto entry = tuning_->find(to_text(key));
    Sm90Choice choice = entry ? choice_of(*entry).sm90 : Sm90Choice();
    const sm90::UnitPlan units(sm90_part_of(gemm, choice), choice.parts);
    const bool may = !choice.sums_rows || sm90::may_sum_rows(gemm);
    if (!may || units.scratch_bytes() > workspace_bytes) choice = {};
    if (!entry && timing_ && tunes_sm90_) choice = tune_sm90(gemm, call);
    sm90_choices_[key] = choice;
    return choice;
}

Sm90Choice Gemms::Library::tune_sm90(const Gemm& gemm, const Call& call) {
    const auto plan_with = [&](const Sm90Choice& choice) {
        GemmRules rules = call.rules;
        rules.sm90 = [choice](const Gemm&) { return choice; };
        return plan_of(gemm, rules);
    };
    const auto run_all = [&](const GemmPlan& plan) {
        timing_ = false;
        for (const GemmPart& part : plan)
            run_part(part, call);
        timing_ = true;
    };
    GemmPlan others = plan_with({});
    const auto declined = [](const GemmPart& part) {
        return part.kind == GemmPart::Kind::library && !part.algorithm;
    };
    const bool is_alone = std::any_of(others.begin(), others.end(), declined);
    // Without a result to compare with, ours is not used either.
    if (is_alone && !gemm.a.in_blocks()) return {};
    if (is_alone) others = {{.kind = GemmPart::Kind::plain_rows, .gemm = gemm}};
    double shortest =
        is_alone ? std::numeric_limits<double>::infinity() : max_time_ratio * time_of(others, call);
    Sm90Choice best;
    for (const Sm90Choice& choice : sm90_choices(gemm, multiprocessors_)) {
        const GemmPlan plan = plan_with(choice);
        const std::string difference = result_difference(
            gemm, [&] { run_all(others); }, [&] { run_all(plan); }, call.context.stream);
        if (!difference.empty()) {
            warn("the GEMM kernel for sm_90a differs from ",
                 is_alone ? "a plain sum, and is not used: " : "cuBLASLt, which is used instead: ",
                 gemm.a.rows, " x ", gemm.a.cols, " x ", gemm.b.cols, ": ", difference);
            best = {};
            break;
        }
        const double time = time_of(plan, call);
        if (time >= shortest) continue;
        shortest = time;
        best = choice;
    }
    const std::string key = to_text(key_of(gemm));
    if (best.parts != 0) {
        tuning_->record(key, to_text(GemmChoice{.sm90 = best}));
    } else if (!tuning_->find(key) && is_separable(gemm)) {
        tuning_->record(key, to_text(GemmChoice{.separate = true}));
    }
    return best;
}

void Gemms::Library::run(const GroupedGemm& gemm, const GroupedKernels& kernels,
                         const OpContext& context) {
    (runs_on_sm90(gemm, kernels, context) ? kernels.sm90 : kernels.anywhere)(gemm, context);
}

bool Gemms::Library::runs_on_sm90(const GroupedGemm& gemm, const GroupedKernels& kernels,
                                  const OpContext& context) {
    if (!has_sm90_ || tuning_ == nullptr || !sm90::covers_grouped(gemm)) return false;
    const std::string key = key_of(gemm);
    const auto entry = tuning_->find(key);
    if (entry) return choice_of(*entry).sm90.parts > 0;
    if (!timing_ || !tunes_sm90_) return false;
    const auto anywhere = [&] { kernels.anywhere(gemm, context); };
    const auto ours = [&] { kernels.sm90(gemm, context); };
    const std::int64_t width = gemm.c.size(-1);
    const Gemm results = {.a = {},
                          .b = {},
                          .c = Matrix(gemm.c.view({gemm.c.elements() / width, width})),
                          .accumulate = gemm.accumulate};
    const std::string difference = result_difference(results, anywhere, ours, context.stream);
    if (!difference.empty()) {
        warn(
            "the grouped GEMM kernel for sm_90a differs from the other one, which is used "
            "instead: ",
            gemm.weight().shape().to_text(), ": ", difference);
    }
    const bool faster = difference.empty() &&
                        milliseconds(ours, repetitions, context.stream) <
                            max_time_ratio * milliseconds(anywhere, repetitions, context.stream);
    tuning_->record(key,
                    to_text(GemmChoice{.separate = !faster, .sm90 = {.parts = faster ? 1 : 0}}));
    return faster;
}

double Gemms::Library::time_of(const GemmPlan& plan, const Call& call) {
    const auto run_all = [&] {
        for (const GemmPart& part : plan)
            run_part(part, call);
    };
    timing_ = false;
    run_all();  // The first run loads code.
    const double time = milliseconds(run_all, repetitions, call.context.stream);
    timing_ = true;
    return time;
}

std::optional<Algorithm> Gemms::Library::fastest(const PreparedGemm& prepared, const Gemm& gemm,
                                                 const Call& call) const {
    if (prepared.candidates.empty()) return std::nullopt;
    const auto time_of = [&](const Algorithm& algorithm, int runs) {
        bool issued = true;
        const auto run = [&] {
            issued =
                issued && prepared.gemm.run(gemm, algorithm, call.context.stream, call.workspace,
                                            workspace_bytes) == CUBLAS_STATUS_SUCCESS;
        };
        const double time = milliseconds(run, runs, call.context.stream);
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

Gemms::Gemms(const DeviceProperties& device, TuningTable* tuning, bool tunes_sm90)
    : library_(std::make_unique<Library>(device, tuning, tunes_sm90)) {}
Gemms::~Gemms() = default;

void Gemms::tune(const std::function<void()>& work) {
    library_->tune(work);
}
bool Gemms::use_table(std::string_view table) {
    return library_->use_table(table);
}
void Gemms::run(const Gemm& gemm, PartKernel* kernel, const OpContext& context) {
    library_->run(gemm, kernel, context);
}

void Gemms::run(const GroupedGemm& gemm, const GroupedKernels& kernels, const OpContext& context) {
    library_->run(gemm, kernels, context);
}

}  // namespace gptrain::cuda
