#include "train/run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "data/next_batch.h"
#include "spec/make_plan.h"
#include "stored/identity.h"
#include "train/make_engine.h"
#include "train/run_lines.h"

namespace gptrain {
namespace {

using Clock = std::chrono::steady_clock;

/// A note about copies, if the run resumes from them.
std::string local_words(const RestartPoint& checkpoint) {
    const auto& local = checkpoint.local();
    if (!local) return "";
    if (local->moved() == 0) return text(" (", name_of(local->tier()), ")");
    return text(" (", name_of(local->tier()), ", ", local->moved(), " of them from other nodes)");
}

/// While it lives, hang reports say that this rank waits for its data.
class LoadingBatch {
public:
    explicit LoadingBatch(Progress& progress) : progress_(progress) {
        progress_.action(loading_batch);
    }
    LoadingBatch(const LoadingBatch&) = delete;
    LoadingBatch& operator=(const LoadingBatch&) = delete;
    ~LoadingBatch() { progress_.action({}); }

private:
    Progress& progress_;
};

}  // namespace

Run::Run(const RunInputs& inputs, const std::optional<RunDirectory>& directory,
         const RunDevices& devices, const StepCost& cost)
    : inputs_(inputs),
      spec_(inputs.spec),
      plan_(inputs.plan),
      directory_(directory),
      devices_(devices),
      ranks_(devices.ranks),
      progress_(devices.observers.watchdog.progress()),
      effective_(effective_spec(spec_, plan_)),
      report_(inputs, devices, cost.memory),
      state_{.interval_loss = IntervalLoss(spec_.logging.interval),
             .loss_spikes = LossSpikes(spec_.faults.loss_spike),
             .expert_slices = ExpertSlices(most_expert_slices(plan_))},
      engine_(make_engine(cost)),
      steps_(*engine_, injected_.get(), devices.observers, state_.expert_slices),
      checkpoints_(
          inputs, effective_, *engine_, ranks_, [this] { directory_->require_own(); },
          [this](const std::string& reason) {
              report_.event(
                  {.kind = RunEvent::Kind::save_failed, .step = state_.step, .reason = reason});
          }),
      faults_(inputs, devices, *engine_, checkpoints_, report_) {}

std::unique_ptr<Engine> Run::make_engine(const StepCost& cost) {
    ObservedEngine made = gptrain::make_engine(spec_, plan_, devices_, cost);
    injected_ = std::move(made.faults);
    ranks_.run_on_first([&] { report_.open(*directory_); });
    return std::move(made.engine);
}

void Run::start(std::optional<RestartPoint>& checkpoint, std::optional<InitialWeights>& initial) {
    StartTimes& times = devices_.start_times;
    times.begin(StartPhase::memory);
    const bool trains = !checkpoint || checkpoint->meta().step < plan_.steps;
    if (trains) checkpoints_.prepare();
    times.begin(StartPhase::load);
    std::optional<TimeSpent> goodput;
    double load_seconds = 0;
    if (checkpoint) {
        const Clock::time_point start = Clock::now();
        engine_->clear_weights();
        if (initial) load_initial(*initial);
        const SavedRun saved = checkpoints_.load(*checkpoint, state_);
        load_seconds = seconds_since(start);
        goodput = saved.goodput;
        for (const auto& [key, before, now] :
             changed_settings(saved.spec_yaml, checkpoints_.spec_yaml())) {
            print("changed since the checkpoint: ", key, ": ", before, " -> ", now);
            if (only_trains(key)) idle_.push_back(key);
        }
        print("resumed from ", checkpoint->folder().string(), " after step ", state_.step,
              local_words(*checkpoint));
    } else {
        if (report_.logged_time())
            warn(RunPaths{spec_.output_dir}.checkpoints().string(),
                 ": has no checkpoint, but the run has logged steps; starting from scratch");
        checkpoints_.begin_course(0);
        engine_->initialise();
        state_.last = engine_->read_state();
        if (initial) {
            const Clock::time_point start = Clock::now();
            load_initial(*initial);
            const StateSource all = [this](const StateVisitor& visit) { engine_->visit(visit); };
            initial->load_adapter(devices_.backend, all);
            if (const auto& prompt = plan_.model.prompt;
                prompt && prompt->init == PromptInit::vocabulary) {
                initial->load_virtual_tokens(devices_.backend, all, *prompt, plan_.seed);
            }
            engine_->restore(state_.last);
            load_seconds = seconds_since(start);
        }
    }
    steps_.restore(state_.expert_slices);
    last_equal_ = state_.step;
    state_.goodput.begin(report_.logged_time(), goodput);
    state_.goodput.add(&TimeSpent::load, load_seconds);
    state_.goodput.add(&TimeSpent::init,
                       seconds_since(devices_.start_times.began()) - load_seconds);
    report_lost_work(goodput);
    if (!checkpoint) return;
    const double lost = lost_work(goodput);
    const auto& local = checkpoint->local();
    report_.loaded(local ? std::string(name_of(local->tier())) : "checkpoint",
                   lost > 0 ? std::optional(lost) : std::nullopt);
}

void Run::load_initial(InitialWeights& initial) {
    if (plan_.quantised()) {
        engine_->stream_model([&](std::span<const StreamedState> weights) {
            initial.load_streamed(devices_.backend, weights);
        });
    } else {
        initial.load(
            devices_.backend, [this](const StateVisitor& visit) { engine_->visit_model(visit); },
            plan_.seed);
    }
}

double Run::lost_work(const std::optional<TimeSpent>& saved) const {
    return saved ? state_.goodput.spent().lost - saved->lost : 0;
}

void Run::report_lost_work(const std::optional<TimeSpent>& saved) const {
    const double lost = lost_work(saved);
    if (lost <= 0) return;
    print("the last start lost ", fixed(lost, 1),
          " s of training, which is repeated; this start took ",
          fixed(seconds_since(devices_.start_times.began()), 1), " s");
}

void Run::start_reports() {
    ranks_.run_on_first([&] {
        directory_->write_spec(to_yaml(restart_spec(spec_, plan_)));
        report_.reports()->begin(state_.step, state_.consumed_samples, effective_, plan_.batch);
        if (!inputs_.data.changed) return;
        report_.event({.kind = RunEvent::Kind::data,
                       .step = state_.step,
                       .consumed_samples = state_.consumed_samples});
    });
}

std::unique_ptr<BatchLoader> Run::training_loader() const {
    return std::make_unique<BatchLoader>(inputs_.data.train, plan_.batch,
                                         batch_shape(plan_, devices_.mesh.place()),
                                         StepRange{.first_step = state_.step + 1,
                                                   .last_step = plan_.steps,
                                                   .consumed_samples = state_.consumed_samples});
}

Request Run::request() const {
    // Before the deadline the run must finish the save under way, one more step and that step's
    // own save.
    constexpr double safety = 2;
    const double slowest = slowest_step_ + slowest_local_save_ + checkpoints_.save_seconds();
    const Request own = requests_->most_urgent(safety * slowest);
    return static_cast<Request>(ranks_.max(static_cast<std::int64_t>(own)));
}

void Run::clear_request(Request request) const {
    ranks_.run_on_first([&] { directory_->require_own(); });
    ranks_.run_on_all([&] { requests_->clear(request); });
}

Run::Evaluations Run::evaluations_due(std::int64_t step) const {
    const bool last = step == plan_.steps;
    const bool validates = inputs_.data.validation && spec_.training.eval_steps > 0;
    return {.validation = validates && (last || due(spec_.training.eval_interval, step)),
            .tasks = inputs_.tasks && (last || due(spec_.eval_tasks->interval, step))};
}

Run::Evaluations Run::evaluations_missing() const {
    if (state_.step == 0) return {};
    Evaluations missing = evaluations_due(state_.step);
    missing.validation = missing.validation && !report_.has_validation(state_.step);
    missing.tasks = missing.tasks && !report_.has_tasks(state_.step);
    return missing;
}

ExitCode Run::run(const Requests& requests) {
    requests_ = &requests;
    const ExitCode code = loop();
    report_.ended(state_);
    ranks_.run_on_first([&] { report_.reports()->finish(); });
    return code;
}

ExitCode Run::loop() {
    const Evaluations missing = evaluations_missing();
    const bool done = state_.step >= plan_.steps;
    if (!done || missing.any()) start_reports();
    if (missing.any()) devices_.start_times.begin(StartPhase::evaluation);
    // If interrupted, the evaluation remains due: this step's checkpoint is still the newest.
    if (!evaluate(missing)) {
        const Request why = request();
        clear_request(why);
        return stopped(why);
    }
    if (done) {
        print("nothing left to do: ", nothing_left(state_.step, plan_.steps, idle_));
        return ExitCode::done;
    }
    Request asked = Request::none;
    devices_.start_times.begin(StartPhase::first_step);
    bool evaluation_interrupted = false;  // the evaluation after the last step
    auto loader = training_loader();
    while (state_.step < plan_.steps && !stops(asked)) {
        progress_.phase("step", state_.step + (steps_.in_flight() ? 2 : 1));
        steps_.begin();
        StepBatch batch = next_batch(*loader);
        if (replays() && !last_replay_) replay(batch);
        std::optional<StepBatch> replayed;
        if (replay_due(batch.step)) replayed = batch;
        issue_step(std::move(batch));
        checkpoints_.saver().poll();
        checkpoints_.poll_copies();
        asked = request();
        if (asked != Request::none || results_due()) record(steps_.finish());
        if (faults_.rollback_due()) {
            record(steps_.finish());
            if (!faults_.failure() && faults_.roll_back(state_)) {
                steps_.restore(state_.expert_slices);
                last_equal_ = state_.step;
                if (last_replay_) last_replay_ = std::min(*last_replay_, state_.step);
                loader = training_loader();
                continue;
            }
        }
        if (faults_.failure()) save_and_fail({ExitCode::numerical, *faults_.failure()});
        if (steps_.in_flight()) continue;
        check_directory();
        const bool last = state_.step == plan_.steps;
        if (last || due(spec_.logging.interval, state_.step)) report_.log(state_);
        if (replica_check_due(state_.step)) check_replicas();
        if (replayed) replay(*replayed);
        evaluation_interrupted = !evaluate(evaluations_due(state_.step)) && last;
        asked = std::max(asked, request());
        save_if_due(asked);
    }
    wait_for_save();
    clear_request(asked);
    progress_.phase("end", state_.step);
    return state_.step < plan_.steps || evaluation_interrupted ? stopped(asked) : finished();
}

StepBatch Run::next_batch(BatchLoader& loader) {
    const auto load = [&] {
        const LoadingBatch loading(progress_);
        return loader.next();
    };
    try {
        return gptrain::next_batch(load, devices_.mesh.place(), ranks_);
    } catch (const CommonError& failure) {
        if (failure.code() == ExitCode::io || failure.code() == ExitCode::bad_input)
            save_and_fail(failure);
        throw;
    }
}

void Run::issue_step(StepBatch batch) {
    const double loss_limit = state_.loss_spikes.limit(batch.step);
    record(steps_.issue(std::move(batch), loss_limit));
}

bool Run::results_due() const {
    const std::int64_t step = state_.step + 1;
    return step == plan_.steps || due(spec_.logging.interval, step) ||
           evaluations_due(step).any() || replica_check_due(step) || replay_due(step) ||
           checkpoints_.copies_due(step, false) || due(spec_.checkpoint.interval, step);
}

void Run::record(const std::optional<FinishedStep>& finished) {
    if (!finished) return;
    state_.add(*finished);
    slowest_step_ = std::max(slowest_step_, finished->seconds);
    faults_.report_skip(state_, finished->samples);
    report_.step_finished(*finished, state_);
    faults_.check(state_);
}

bool Run::evaluate(const Evaluations& wanted) {
    if (!wanted.any()) return true;
    progress_.phase("evaluation", state_.step);
    const Clock::time_point start = Clock::now();
    const bool finished =
        (!wanted.validation || evaluate_validation()) && (!wanted.tasks || evaluate_tasks());
    state_.goodput.add(&TimeSpent::eval, seconds_since(start));
    return finished;
}

bool Run::evaluate_validation() {
    const std::int64_t batches = spec_.training.eval_steps;
    const BatchSchedule whole = {.global_batch_size = plan_.batch.global_batch_size, .rampup = {}};
    BatchLoader loader(inputs_.data.validation, whole, batch_shape(plan_, devices_.mesh.place()),
                       {.first_step = 1, .last_step = batches, .consumed_samples = 0});
    EvaluationSums sums;
    for (std::int64_t i = 0; i < batches; ++i) {
        if (stops(request())) return false;
        sums.add(engine_->evaluate(next_batch(loader)));
        if (Reports* reports = report_.reports()) reports->evaluating(i + 1, batches);
    }
    report_.validation(state_.step, sums);
    return true;
}

bool Run::evaluate_tasks() {
    const RunTasks& tasks = *inputs_.tasks;
    Reports* const reports = report_.reports();
    const auto metrics = tasks.measure(engine_->forward_passes(), ranks_, engine_->listeners(),
                                       [&](std::int64_t done) {
                                           if (reports) reports->evaluating(done, tasks.texts());
                                           return !stops(request());
                                       });
    if (!metrics) return false;
    if (reports) reports->tasks({.step = state_.step, .metrics = *metrics});
    return true;
}

void Run::save_if_due(Request asked) {
    const bool last = state_.step == plan_.steps;
    if (stops(asked) && !last) print("stopping (", name_of(asked), "): saving");
    const bool whole =
        last || asked != Request::none || due(spec_.checkpoint.interval, state_.step);
    if (whole) save();
    const bool goes_on = !last && !stops(asked);
    if (goes_on && checkpoints_.copies_due(state_.step, whole)) save_copies(whole);
    if (asked == Request::save) {
        finish_save();
        clear_request(asked);
    }
}

void Run::save() {
    progress_.phase("save", state_.step);
    const Clock::time_point start = Clock::now();
    ranks_.run_on_first([&] { report_.reports()->sync(); });
    checkpoints_.save(state_);
    const double seconds = seconds_since(start);
    state_.goodput.add(&TimeSpent::save, seconds);
    faults_.saved();
    const bool first = !std::exchange(saved_, true);
    if (first && state_.step < plan_.steps) report_.print_save_interval(seconds, slowest_step_);
}

void Run::save_copies(bool with_checkpoint) {
    progress_.phase("save", state_.step);
    const Clock::time_point start = Clock::now();
    checkpoints_.save_copies(state_, with_checkpoint);
    const double seconds = seconds_since(start);
    slowest_local_save_ = std::max(slowest_local_save_, seconds);
    state_.goodput.add(&TimeSpent::save, seconds);
}

void Run::finish_save() {
    const Clock::time_point start = Clock::now();
    checkpoints_.saver().finish_save();
    state_.goodput.add(&TimeSpent::save, seconds_since(start));
}

void Run::wait_for_save() {
    const Clock::time_point start = Clock::now();
    checkpoints_.finish_copies();
    checkpoints_.saver().wait();
    checkpoints_.release_memory();
    state_.goodput.add(&TimeSpent::save, seconds_since(start));
}

}  // namespace gptrain
