// Predicts the step times of training runs that others have published.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "catch.h"
#include "planner/megatron.h"

namespace gptrain::test {
namespace {

struct Prediction {
    PublishedRun run;
    StepTime step;

    double error() const { return step.seconds / run.seconds - 1; }
};

std::vector<Prediction> predictions(const std::filesystem::path& csv) {
    std::vector<Prediction> all;
    for (const PublishedRun& run : published_runs(csv))
        all.push_back({run, published_step(run, hardware_of(run))});
    return all;
}

std::filesystem::path shipped_rows() {
    return std::filesystem::path(GPTRAIN_TEST_DATA) / "published_runs.csv";
}

const std::vector<Prediction>& shipped_predictions() {
    static const std::vector<Prediction> all = predictions(shipped_rows());
    return all;
}

/// "narayanan-2021" of "narayanan-2021 table 1".
std::string paper_of(const PublishedRun& run) {
    return run.source.substr(0, run.source.find(' '));
}

double mean_of_sizes(const std::vector<double>& errors) {
    double sum = 0;
    for (const double error : errors)
        sum += std::abs(error);
    return sum / static_cast<double>(errors.size());
}

/// The errors of a flat rate of model FLOP/s, the best of those of the runs.
std::vector<double> flat_errors(const std::vector<PublishedRun>& runs) {
    std::vector<double> best;
    for (const PublishedRun& reference : runs) {
        std::vector<double> errors;
        for (const PublishedRun& run : runs)
            errors.push_back(run.flops() / reference.flops() - 1);
        if (best.empty() || mean_of_sizes(errors) < mean_of_sizes(best)) best = errors;
    }
    return best;
}

void print_table(const std::vector<Prediction>& group) {
    std::vector<double> errors;
    std::vector<PublishedRun> runs;
    for (const Prediction& each : group) {
        errors.push_back(each.error());
        runs.push_back(each.run);
    }
    const std::vector<double> flat = flat_errors(runs);
    std::printf("\n%-31s %-10s %5s %-9s %9s %9s %7s %7s\n", "source", "model", "GPUs", "recompute",
                "published", "predicted", "error", "flat");
    for (std::size_t i = 0; i < group.size(); ++i) {
        const PublishedRun& run = runs[i];
        std::printf("%-31s %-10s %5lld %-9s %9.3f %9.3f %+6.1f%% %+6.1f%%\n", run.source.c_str(),
                    run.model.c_str(), static_cast<long long>(run.gpus),
                    std::string(run.recompute ? name_of(*run.recompute) : "none").c_str(),
                    run.seconds, group[i].step.seconds, 100 * errors[i], 100 * flat[i]);
    }
    std::printf("mean absolute error %.1f %%; of the best flat rate %.1f %%\n",
                100 * mean_of_sizes(errors), 100 * mean_of_sizes(flat));
}

}  // namespace

TEST_CASE("published runs are predicted from the profiles' constants") {
    std::map<std::string, std::vector<double>> errors;
    std::vector<double> all;
    for (const Prediction& each : shipped_predictions()) {
        errors[paper_of(each.run)].push_back(each.error());
        all.push_back(each.error());
    }
    CHECK(mean_of_sizes(errors["narayanan-2021"]) < 0.05);
    CHECK(mean_of_sizes(errors["korthikanti-2022"]) < 0.05);
    CHECK(mean_of_sizes(errors["megatron-core-0.8"]) < 0.08);
    CHECK(mean_of_sizes(errors["qi-2024"]) < 0.12);
    CHECK(mean_of_sizes(all) < 0.06);
}

/// Compares all pairs of runs of which `slow` and `fast` choose one each, and which are otherwise
/// the same: the ratio of their times is the published one. Returns the number of pairs.
template <class Slow, class Fast>
int check_ratios(const Slow& slow, const Fast& fast) {
    int pairs = 0;
    for (const Prediction& a : shipped_predictions()) {
        for (const Prediction& b : shipped_predictions()) {
            const bool pair = slow(a.run) && fast(b.run) && a.run.model == b.run.model &&
                              a.run.global_batch == b.run.global_batch;
            if (!pair) continue;
            CAPTURE(a.run.model, a.run.global_batch);
            CHECK(a.step.seconds / b.step.seconds ==
                  Approx(a.run.seconds / b.run.seconds).margin(0.05));
            ++pairs;
        }
    }
    return pairs;
}

// Published: 29 to 32 %.
TEST_CASE("selective recomputation with sequence parallelism saves 30 % of full recomputation") {
    const auto with = [](Recompute recompute) {
        return [=](const PublishedRun& run) {
            return is_from(run, "korthikanti-2022") && run.recompute == recompute;
        };
    };
    CHECK(check_ratios(with(Recompute::full), with(Recompute::selective)) == 4);
}

// Published: 4 to 15 %.
TEST_CASE("zero-bubble pipelines save what they have been seen to save") {
    const auto from = [](std::string_view table) {
        return [=](const PublishedRun& run) { return is_from(run, table); };
    };
    CHECK(check_ratios(from("table 4 1f1b"), from("table 4 zb-1p")) == 6);
}

// Rows of another file: PUBLISHED_RUNS=FILE.
TEST_CASE("table of published runs", "[.table]") {
    const char* file = std::getenv("PUBLISHED_RUNS");
    std::vector<Prediction> group;
    for (Prediction& each : predictions(file ? std::filesystem::path(file) : shipped_rows())) {
        if (!group.empty() && paper_of(group.front().run) != paper_of(each.run)) {
            print_table(group);
            group.clear();
        }
        group.push_back(std::move(each));
    }
    print_table(group);
}

}  // namespace gptrain::test
