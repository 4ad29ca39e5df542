#include "train/run.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/process.h"
#include "checkpoint/folder.h"
#include "engine/tuning.h"
#include "spec/make_plan.h"
#include "spec/spec_json.h"
#include "train/identity.h"
#include "train/replicas.h"
#include "train/resume.h"
#include "train/step_fault.h"

namespace gptrain {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Files that make a checkpoint usable without the run's input files.
std::vector<WholeFile> files_of(const RunInputs& inputs) {
    if (inputs.tokenizer.empty()) return {};
    return {{checkpoint_tokenizer_name, inputs.tokenizer}};
}

}  // namespace

Run::Run(const RunInputs& inputs, const std::optional<RunDirectory>& directory,
         const RunDevices& devices, StepCost cost)
    : spec_(inputs.spec),
      plan_(inputs.plan),
      data_(inputs.data),
      identity_(inputs.identity),
      files_(files_of(inputs)),
      directory_(directory),
      paths_{spec_.output_dir},
      mesh_(devices.mesh),
      ranks_(devices.ranks),
      observers_(devices.observers),
      progress_(observers_.watchdog.progress()),
      comm_metrics_(plan_.mesh, devices.backend.is_host()),
      started_(devices.started),
      effective_(effective_spec(spec_, plan_)),
      effective_yaml_(to_yaml(effective_)),
      cost_(std::move(cost)),
      max_memory_(ranks_.max(cost_.memory.total())),
      interval_loss_(spec_.logging.interval),
      loss_spikes_(spec_.faults.loss_spike),
      high_loss_(plan_.model.vocab, spec_.lr_schedule.warmup_steps) {
    progress_.phase("tune", 0);
    tune_on_all_ranks(devices.backend, cost_.linear_ops, op_limits(plan_), ranks_,
                      [&] { progress_.record_move(); });
    progress_.phase("load", 0);
    ranks_.run_on_all([&] {
        engine_ = std::make_unique<Engine>(devices.backend, mesh_, spec_, plan_, cost_.memory);
        engine_->listen(observers_.actions);
        if (spec_.fault_injection) inject_faults();
        if (directory_) reports_.emplace(paths_);
    });
    saver_ =
        make_saver({paths_.checkpoints(), spec_.checkpoint.keep_last, spec_.checkpoint.keep_every},
                   spec_.checkpoint.async);
}

std::unique_ptr<CheckpointSaver> Run::make_saver(const Retention& retention, bool async) {
    return std::make_unique<CheckpointSaver>(
        engine_->backend(), engine_->memory()[MemoryUse::snapshot], ranks_,
        SaverOptions{retention, async, files_, to_json(effective_).at("model")});
}

void Run::inject_faults() {
    injected_ = std::make_unique<InjectedFaults>(
        *spec_.fault_injection,
        InjectedFaults::Target{*engine_, plan_, ranks_.rank(), paths_.checkpoints()});
    engine_->listen(*injected_);
}

void Run::start(std::optional<RestartPoint>& checkpoint) {
    std::optional<TimeSpent> goodput;
    if (checkpoint) {
        const SavedRun saved = load(*checkpoint);
        goodput = saved.goodput;
        for (const std::string& line : changed_settings(saved.spec_yaml, effective_yaml_))
            print("changed since the checkpoint: ", line);
        print("resumed from ", checkpoint->folder().string(), " after step ", step_);
    } else {
        engine_->initialise();
        state_ = engine_->read_state();
    }
    goodput_.begin(reports_ ? reports_->log().time_spent() : std::nullopt, goodput);
    goodput_.add(&TimeSpent::load, load_seconds_);
    goodput_.add(&TimeSpent::init, seconds_since(started_) - load_seconds_);
}

SavedRun Run::load(RestartPoint& checkpoint) {
    const Clock::time_point start = Clock::now();
    const CheckpointMeta& meta = checkpoint.meta();
    checkpoint.load(engine_->backend(), state_source(), [&] {
        check_identity(meta.identity, identity_, checkpoint.folder().string());
    });
    SavedRun saved = saved_run(meta);
    state_ = saved.state;
    engine_->restore(state_);
    step_ = meta.step;
    consumed_samples_ = meta.data_position;
    const std::string state = checkpoint.folder().string() + ": state.";
    loss_spikes_.restore(saved.losses, state + "losses");
    interval_loss_.restore(saved.interval_loss, state + "interval_loss");
    checkpoint_ = checkpoint.folder();
    load_seconds_ = seconds_since(start);
    return saved;
}

void Run::start_reports() {
    ranks_.run_on_first([&] {
        directory_->write_spec(to_yaml(restart_spec(spec_, plan_)));
        reports_->begin(step_, effective_);
    });
}

bool Run::has_validation() const {
    return ranks_.max(reports_ && reports_->log().has_validation(step_) ? 1 : 0) > 0;
}

std::unique_ptr<BatchLoader> Run::training_loader() const {
    return std::make_unique<BatchLoader>(data_.train, plan_.batch,
                                         batch_shape(spec_, plan_, mesh_.place()),
                                         StepRange{.first_step = step_ + 1,
                                                   .last_step = plan_.steps,
                                                   .consumed_samples = consumed_samples_});
}

Request Run::request() const {
    // A step and a save must both fit before the deadline.
    constexpr double safety = 1.5;
    const Request own = requests_->most_urgent(safety * (slowest_step_ + slowest_save_));
    return static_cast<Request>(ranks_.max(static_cast<std::int64_t>(own)));
}

ExitCode Run::run(const Requests& requests) {
    requests_ = &requests;
    const bool evaluation_pending = step_ > 0 && evaluation_due(step_) && !has_validation();
    const bool done = step_ >= plan_.steps;
    if (!done || evaluation_pending) start_reports();
    // If interrupted, the evaluation remains due: this step's checkpoint is still the newest.
    if (evaluation_pending && !evaluate()) return stopped(request());
    if (done) {
        print("nothing left to do: the checkpoint has the run's last step, ", plan_.steps);
        return ExitCode::done;
    }
    Request asked = Request::none;
    bool evaluation_interrupted = false;  // the evaluation after the last step
    auto loader = training_loader();
    while (step_ < plan_.steps && !stops(asked)) {
        progress_.phase("step", step_ + (in_flight_ ? 2 : 1));
        issue_step(loader->next());
        saver_->poll();
        asked = request();
        if (asked != Request::none || results_due()) finish_step();
        if (spike_) {
            roll_back();
            loader = training_loader();
            continue;
        }
        if (in_flight_) continue;
        check_directory();
        const bool last = step_ == plan_.steps;
        if (last || due(spec_.logging.interval, step_)) log_step();
        if (replica_check_due(step_)) check_replicas();
        if (evaluation_due(step_)) evaluation_interrupted = !evaluate() && last;
        asked = std::max(asked, request());
        if (stops(asked) && !last) print("stopping (", name_of(asked), "): saving");
        if (last || asked != Request::none || due(spec_.checkpoint.interval, step_)) save();
        if (asked != Request::none) {
            wait_for_save();
            ranks_.run_on_all([&] { requests_->clear(asked); });
        }
    }
    wait_for_save();
    progress_.phase("end", step_);
    return step_ < plan_.steps || evaluation_interrupted ? stopped(asked) : finished();
}

void Run::issue_step(const StepBatch& batch) {
    if (!in_flight_) finished_at_ = Clock::now();
    observers_.totals.clear();
    observers_.stragglers.begin_step();
    if (injected_) injected_->begin_step(batch.step, std::ssize(batch.microbatches));
    engine_->step(batch, loss_spikes_.limit(batch.step));
    if (injected_) injected_->end_step();
    observers_.stragglers.end_step();
    comm_metrics_.add_step(observers_.totals);
    const StepInFlight issued = {.state = engine_->mark_state(),
                                 .samples = batch.global_batch_size};
    finish_step();
    in_flight_ = issued;
}

bool Run::results_due() const {
    const std::int64_t step = step_ + 1;
    return step == plan_.steps || due(spec_.logging.interval, step) || evaluation_due(step) ||
           replica_check_due(step) || due(spec_.checkpoint.interval, step);
}

void Run::finish_step() {
    if (!in_flight_) return;
    loss_scale_ = state_.loss_scale;
    state_ = engine_->state_at(in_flight_->state);
    const double seconds = seconds_since(finished_at_);
    finished_at_ = Clock::now();
    const std::int64_t samples = in_flight_->samples;
    in_flight_.reset();
    ++step_;
    consumed_samples_ += samples;
    since_logged_.add(seconds, samples * plan_.seq_length);
    since_start_.add(seconds, samples * plan_.seq_length);
    slowest_step_ = std::max(slowest_step_, seconds);
    goodput_.add(&TimeSpent::useful, seconds);
    interval_loss_.add(step_, state_.skip == Skip::none ? std::optional(loss_sum()) : std::nullopt);
    if (state_.skip == Skip::none) {
        loss_spikes_.add(step_, mean_loss());
        warn_of_high_loss();
    }
    if (state_.skip != Skip::none) warn_of_skip(samples);
    report_other_memory();
    if (reports_) reports_->done(step_);
    if (diverged()) fail_diverged();
    if (state_.skip == Skip::loss_limit) act_on_spike();
}

void Run::act_on_spike() {
    const LossSpike::Action action = loss_spikes_.policy()->action;
    if (action == LossSpike::Action::rollback && !spike_) spike_ = {step_, consumed_samples_};
    if (action == LossSpike::Action::stop) {
        log_step();
        fail_numerically(text("step ", step_, ": the loss, ", fixed(mean_loss(), 4), ", is above ",
                              fixed(state_.loss_limit, 4),
                              " (faults.loss_spike: stop); the weights are from before that step"));
    }
}

void Run::roll_back() {
    finish_step();
    saver_->finish_save();
    const Spike spike = *std::exchange(spike_, std::nullopt);
    progress_.phase("load", spike.step);
    auto checkpoint = find_start({ResumeChoice::Kind::automatic, {}}, paths_.checkpoints(), ranks_);
    const std::int64_t tries = spec_.faults.max_skipped_steps;
    if (!checkpoint || ++rollbacks_in_a_row_ > tries) {
        fail_numerically(text(
            "step ", spike.step, ": the loss is above its limit (faults.loss_spike: rollback), ",
            checkpoint ? text("after ", tries, " rollbacks to the newest checkpoint")
                       : "and there is no checkpoint to roll back to"));
    }
    goodput_.roll_back(load(*checkpoint).goodput);
    goodput_.add(&TimeSpent::load, load_seconds_);
    evaluation_.reset();
    const std::int64_t position = std::exchange(consumed_samples_, spike.consumed_samples);
    print("rolled back from step ", spike.step, " to ", checkpoint->folder().string(),
          "; skipping samples ", position, " to ", consumed_samples_ - 1);
    if (reports_) reports_->rolled_back(step_);
}

void Run::warn_of_skip(std::int64_t samples) const {
    const std::int64_t first = consumed_samples_ - samples;
    const bool above = state_.skip == Skip::loss_limit;
    const std::string why = above
                                ? text("the loss, ", fixed(mean_loss(), 4), ", is above ",
                                       fixed(state_.loss_limit, 4), " (faults.loss_spike)")
                                : text("non-finite loss or gradients (", fault_of_step(first), ")");
    if (!reports_) return;
    warn("step ", step_, ": ", why, "; update skipped (samples ", first, " to ",
         consumed_samples_ - 1, ", loss scale ", loss_scale_, ")");
}

std::string Run::fault_of_step(std::int64_t first_sample) const {
    StepFault own;
    if (state_.faulty_sequence >= 0) own.sample = first_sample + state_.faulty_sequence;
    if (state_.faulty_tensor >= 0) {
        const auto gradient = engine_->faulty_gradient(state_);
        own.begin = gradient.begin;
        own.tensor = gradient.name;
    }
    std::vector<StepFault> faults;
    for (const std::string& line : ranks_.exchange(own.to_text()))
        faults.push_back(StepFault::from_text(line));
    return describe(faults, plan_.mesh);
}

void Run::check_replicas() {
    std::vector<ReplicaSum> sums;
    for (const std::string& line :
         ranks_.exchange(text(engine_->weights_checksum(), " ", host_name()))) {
        const std::size_t blank = line.find(' ');
        sums.push_back({parse_int(std::string_view(line).substr(0, blank)).value_or(0),
                        line.substr(blank + 1)});
    }
    const std::vector<std::int64_t> differing = differing_replicas(sums, plan_.mesh);
    if (differing.empty()) return;
    throw CommonError(
        ExitCode::bug,
        text("step ", step_, ": ranks with replicas of the same weights differ: ",
             describe_replicas(differing, sums, plan_.mesh),
             "; check these devices and restart without the faulty one; the last checkpoint is "
             "from before the fault (faults.replica_check_interval)"));
}

bool Run::diverged() const {
    return state_.skip != Skip::none && state_.skipped_in_a_row >= spec_.faults.max_skipped_steps;
}

void Run::fail_numerically(const std::string& message) {
    if (reports_) reports_->sync();
    saver_->finish_save();
    throw CommonError(ExitCode::numerical, message);
}

void Run::fail_diverged() {
    log_step();
    fail_numerically(
        text("step ", step_, ": ", state_.skipped_in_a_row,
             " steps in a row were skipped (faults.max_skipped_steps); the weights are from "
             "before those steps; lower optimizer.lr or check the data"));
}

bool Run::evaluate() {
    progress_.phase("evaluation", step_);
    const Clock::time_point start = Clock::now();
    const std::int64_t batches = spec_.training.eval_steps;
    const BatchSchedule whole = {.global_batch_size = plan_.batch.global_batch_size, .rampup = {}};
    BatchLoader loader(data_.validation, whole, batch_shape(spec_, plan_, mesh_.place()),
                       {.first_step = 1, .last_step = batches, .consumed_samples = 0});
    LossSum sum;
    for (std::int64_t i = 0; i < batches; ++i) {
        if (stops(request())) return false;
        sum.add(engine_->evaluate(loader.next()));
        if (reports_) reports_->evaluating(i + 1, batches);
    }
    evaluation_ = {step_, sum.mean()};
    if (reports_) reports_->validation(step_, sum.mean());
    goodput_.add(&TimeSpent::eval, seconds_since(start));
    return true;
}

void Run::save() {
    progress_.phase("save", step_);
    const Clock::time_point start = Clock::now();
    ranks_.run_on_first([&] { reports_->sync(); });
    CheckpointMeta meta;
    meta.step = step_;
    meta.data_position = consumed_samples_;
    meta.spec_hash = spec_hash(effective_yaml_);
    meta.identity = identity_;
    meta.state = to_json(SavedRun{.state = state_,
                                  .spec_yaml = effective_yaml_,
                                  .goodput = goodput_.spent(),
                                  .losses = loss_spikes_.to_json(),
                                  .interval_loss = interval_loss_.to_json()});
    saver_->save(meta, state_source());
    checkpoint_ = paths_.checkpoints() / checkpoint_name(step_);
    const double seconds = seconds_since(start);
    slowest_save_ = std::max(slowest_save_, seconds);
    goodput_.add(&TimeSpent::save, seconds);
    rollbacks_in_a_row_ = 0;
    if (++saves_ == 1 && step_ < plan_.steps) print_save_interval(seconds);
}

void Run::wait_for_save() {
    const Clock::time_point start = Clock::now();
    saver_->wait();
    goodput_.add(&TimeSpent::save, seconds_since(start));
}

}  // namespace gptrain
