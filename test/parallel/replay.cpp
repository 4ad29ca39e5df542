// The work that a backend may record once and replay: the same ops every time, and no messages.
// Microbatches that run alone before a step: the same results every time, and no trace of them.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/passing_backend.h"
#include "base/text.h"
#include "catch.h"
#include "compare.h"
#include "cpu/cpu_backend.h"
#include "mesh_cases.h"
#include "mesh_run.h"
#include "ranks.h"
#include "tiny_run.h"

namespace gptrain::test {
namespace {

/// An op or a copy, where its tensors are, and how it uses them.
struct Recorded {
    std::string name;
    std::vector<std::pair<const std::byte*, Access>> tensors;
    bool operator==(const Recorded&) const = default;
};

/// Notes what is done in `replay`.
class RecordingBackend final : public EachOp<PassingBackend, RecordingBackend> {
public:
    explicit RecordingBackend(Backend& inner) : EachOp<PassingBackend, RecordingBackend>(inner) {}

    /// Differences between two calls with the same key, and calls that must not be in a record.
    std::vector<std::string> faults;
    int repeated = 0;  ///< records that were made a second time, or more often

    bool recording() const { return recording_; }
    void reject(std::string_view what) {
        if (recording_) faults.push_back(text(what, " in a record"));
    }

    void replay(std::int64_t key, const std::function<void()>& work) override {
        now_.clear();
        recording_ = true;
        work();
        recording_ = false;
        const auto [before, is_new] = records_.try_emplace(key, now_);
        if (is_new) return;
        ++repeated;
        if (before->second != now_) faults.push_back(text("another record of key ", key));
    }
    void copy(const Tensor& to, const Tensor& from) override {
        note({"copy", {{to.data(), Access::write}, {from.data(), Access::read}}});
        inner().copy(to, from);
    }
    void upload(const Tensor& to, std::span<const std::byte> from) override {
        reject("an upload");
        inner().upload(to, from);
    }
    void download(std::span<std::byte> to, const Tensor& from) override {
        reject("a download");
        inner().download(to, from);
    }
    void synchronize() override {
        reject("a wait for the device");
        inner().synchronize();
    }

    template <class Op>
    void on(const Op& op) {
        Recorded recorded = {std::string(Op::name), {}};
        visit_tensors(op, [&](const Tensor& x, Access access) {
            recorded.tensors.emplace_back(x.data(), access);
        });
        note(std::move(recorded));
        inner().run(op);
    }

private:
    void note(Recorded recorded) {
        if (recording_) now_.push_back(std::move(recorded));
    }

    bool recording_ = false;
    std::vector<Recorded> now_;
    std::map<std::int64_t, std::vector<Recorded>> records_;
};

/// Finds operations of communicators in records.
class MessageWatcher final : public CommListener {
public:
    explicit MessageWatcher(RecordingBackend& backend) : backend_(backend) {}
    void on_started(const CommCall& call) override { backend_.reject(call.operation); }
    void on_waiting(const CommCall& call) override {
        backend_.reject(text("a wait for ", call.operation));
    }
    void on_finished(const CommCall& /*call*/) override {}

private:
    RecordingBackend& backend_;
};

/// The number of records that were made again in three steps.
int repeated_records(const RunSpec& spec, const PlanChange& change) {
    const auto inner = cpu::make_backend();
    auto made = std::make_unique<RecordingBackend>(*inner);
    RecordingBackend& backend = *made;
    MessageWatcher watcher(backend);
    CommListeners listeners;
    listeners.add(watcher);
    listeners.add(progress());
    TinyRun run(
        spec, std::move(made), session().size(),
        [&](const RunPlan& plan, Backend& device) { return make_mesh(plan, device, listeners); },
        change);
    run.engine().listen(progress());
    for (int step = 1; step <= 3; ++step)
        run.step(random_batch(run.plan(), step, 1, run.mesh().place().dp));
    CHECK(backend.faults == std::vector<std::string>{});
    return backend.repeated;
}

TEST_CASE("What is replayed is the same every time, and no message is part of it") {
    std::map<std::string, RunSpec> specs;
    for (const Model& model : models())
        specs[model.name] = model.spec;
    for (const MeshCase& mesh_case : covering_here(mesh_cases(session().size()))) {
        if (!wanted(mesh_case)) continue;
        const ScheduleKind schedule = mesh_case.parallel.schedule;
        // As plans do: where one stage has embedding and head, they share what is summed, and
        // gradients that are sharded have a window for one microbatch.
        const bool defers = mesh_case.parallel.pipeline > 1 &&
                            mesh_case.parallel.shard < Sharded::gradients &&
                            (schedule == ScheduleKind::one_f_one_b ||
                             schedule == ScheduleKind::interleaved_one_f_one_b);
        for (const std::int64_t deferred : {0, 3}) {
            if (deferred > 0 && !defers) continue;
            CAPTURE(mesh_case.name, deferred);
            const int repeated =
                repeated_records(spec_of(specs.at(mesh_case.model), mesh_case), [&](RunPlan& plan) {
                    change_of(mesh_case)(plan);
                    plan.deferred_heads = deferred;
                });
            const ParallelSpec& parallel = mesh_case.parallel;
            const bool alone = parallel.tensor * parallel.context == 1;
            if (!alone) CHECK(repeated == 0);
            // Among data ranks the only microbatch of a step may send its gradients.
            if (alone && parallel.data == 1) CHECK(repeated > 0);
        }
    }
}

/// The losses of two steps, then all state of a rank, and the memory that it took.
struct AfterSteps {
    std::string state;
    MemoryPlan peaks;
    bool operator==(const AfterSteps&) const = default;
};

/// Before each step the first microbatch runs alone as often as `alone` says.
AfterSteps after_steps(const RunSpec& spec, const PlanChange& change, int alone) {
    CommListeners listeners;
    listeners.add(progress());
    TinyRun run(
        spec, cpu::make_backend(), session().size(),
        [&](const RunPlan& plan, Backend& device) { return make_mesh(plan, device, listeners); },
        change);
    Engine& engine = run.engine();
    engine.listen(progress());
    const RunPlan& plan = run.plan();
    const std::int64_t slices =
        plan.mesh.expert == 1 ? 1
                              : plan.model.experts->most_slices(
                                    plan.micro_batch_size * plan.stream_length(), plan.mesh.expert);
    std::string state;
    for (int step = 1; step <= 2; ++step) {
        const StepBatch batch = random_batch(plan, step, 1, run.mesh().place().dp);
        std::vector<std::int64_t> first;
        for (int i = 0; i < alone; ++i) {
            std::vector<std::int64_t> sums;
            engine.run_alone(batch, slices, [&](Executor::Seen /*what*/, const Tensor& values) {
                sums.push_back(engine.checksum(values));
            });
            if (i == 0) first = sums;
            CHECK(sums == first);
            CHECK(sums.size() > 1);
        }
        state += text(run.step(batch), "\n");
    }
    run.visit_state([&](const NamedState& part) {
        const std::vector<float> values = host_values(run.backend(), part);
        state.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    });
    return {state, engine.memory().peaks()};
}

TEST_CASE("A microbatch that runs alone computes the same every time and changes nothing") {
    std::map<std::string, RunSpec> specs;
    for (const Model& model : models())
        specs[model.name] = model.spec;
    const auto check = [](RunSpec spec, const PlanChange& change) {
        spec.training.global_batch_size =
            2 * spec.training.micro_batch_size * spec.parallel.data.value_or(1);
        const bool same = after_steps(spec, change, 2) == after_steps(spec, change, 0);
        CHECK(same);
    };
    const std::vector<MeshCase> cases = covering_here(mesh_cases(session().size()));
    // On more than two ranks some of them.
    const std::size_t step = session().size() > 2 ? 4 : 1;
    for (std::size_t i = 0; i < cases.size(); i += step) {
        const MeshCase& mesh_case = cases[i];
        if (!wanted(mesh_case)) continue;
        CAPTURE(mesh_case.name);
        check(spec_of(specs.at(mesh_case.model), mesh_case), change_of(mesh_case));
    }
    RunSpec in_fp8 = models().front().spec;
    in_fp8.precision.compute = Precision::fp8;
    in_fp8.parallel.data = session().size();
    check(in_fp8, {});
}

}  // namespace
}  // namespace gptrain::test
