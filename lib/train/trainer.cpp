#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/restart_point.h"
#include "checkpoint/saver.h"
#include "train/console.h"
#include "train/engine.h"
#include "train/identity.h"
#include "train/metrics_log.h"
#include "train/resume.h"
#include "train/run_directory.h"
#include "train/run_inputs.h"
#include "train/signals.h"
#include "train/tensorboard.h"

namespace gptrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

Deadline deadline_of(const RunSpec& spec) {
    const auto& limit = spec.faults.time_limit;
    if (!limit) return {};
    if (limit->job_end) return Deadline::at_job_end();
    return Deadline::at(Clock::now() + std::chrono::seconds(limit->seconds));
}

/// All that stop_reason may say, and nothing.
constexpr std::array<std::string_view, 5> stop_reasons = {"", "time limit", "SIGINT", "SIGUSR1",
                                                          "SIGTERM"};

/// What may end a run early; it counts from the start of the program.
struct StopRequests {
    StopSignals signals;
    Deadline deadline;
};

/// One run of the program on one output directory.
class Run {
public:
    /// `directory` is rank 0's.
    Run(const RunInputs& inputs, const std::optional<RunDirectory>& directory,
        const StopRequests& stop, const RunDevices& devices);

    /// Begins anew, or goes on from a checkpoint.
    void start(std::optional<RestartPoint>& checkpoint);
    ExitCode run();

private:
    StateSource state_source() {
        return [this](const StateVisitor& visitor) { engine_->visit(visitor); };
    }
    BatchShape batch_shape() const;
    BatchLoader training_loader() const;
    static bool due(std::int64_t interval, std::int64_t step) {
        return interval > 0 && step % interval == 0;
    }
    bool evaluation_due(std::int64_t step) const {
        return data_.validation && spec_.training.eval_steps > 0 &&
               due(spec_.training.eval_interval, step);
    }
    /// Of any rank, the same on all.
    std::optional<std::string_view> stop_reason() const;
    /// A line for people, once.
    template <class... Parts>
    void say(const Parts&... parts) const {
        if (directory_) print(parts...);
    }
    bool has_validation() const;

    void open_logs();
    /// Issues the next step, then finishes the one before it.
    void issue_step(const StepBatch& batch);
    /// Waits for the step that is under way, if any, and takes over its results.
    void finish_step();
    /// Whether what follows the step under way needs its results.
    bool results_due() const;
    void warn_of_skip(std::int64_t samples) const;
    /// After the first step, by which all libraries have taken theirs.
    void tell_of_other_memory();
    /// Whether too many steps in a row were skipped.
    bool diverged() const;
    [[noreturn]] void fail_diverged();
    ExitCode stopped() const;
    void log_step();
    /// Returns false if it was cut short by a request to stop.
    bool evaluate();
    void save();

    const RunSpec& spec_;
    const RunPlan& plan_;
    const TrainingData& data_;
    const Json& identity_;
    const std::optional<RunDirectory>& directory_;
    RunPaths paths_;
    const StopRequests& stop_;
    const Mesh& mesh_;
    const MpiSession& ranks_;
    std::string effective_yaml_;
    MemoryPlan memory_plan_;
    std::int64_t largest_memory_;  ///< planned bytes of the rank that has the most
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<CheckpointSaver> saver_;
    std::optional<MetricsLog> metrics_;  ///< these three are rank 0's
    std::optional<TensorBoardWriter> tensorboard_;
    std::optional<Console> console_;

    /// A step that was issued and whose results were not read yet.
    struct UnderWay {
        Engine::StatePoint state;
        std::int64_t samples = 0;
    };
    std::optional<UnderWay> under_way_;
    Clock::time_point finished_at_;  ///< the step before the one under way, or its own start

    std::int64_t step_ = 0;  ///< done so far
    std::int64_t consumed_samples_ = 0;
    StepState state_{};        ///< after the last step
    double loss_scale_ = 1;    ///< in use in the last step
    double step_seconds_ = 0;  ///< since the last logged line
    std::int64_t step_tokens_ = 0;
    std::int64_t steps_timed_ = 0;
    bool other_memory_told_ = false;
    double slowest_step_ = 0;
    double slowest_save_ = 0;
};

Run::Run(const RunInputs& inputs, const std::optional<RunDirectory>& directory,
         const StopRequests& stop, const RunDevices& devices)
    : spec_(inputs.spec),
      plan_(inputs.plan),
      data_(inputs.data),
      identity_(inputs.identity),
      directory_(directory),
      paths_{spec_.output_dir},
      stop_(stop),
      mesh_(devices.mesh),
      ranks_(devices.ranks),
      effective_yaml_(to_yaml(effective_spec(spec_, plan_))),
      memory_plan_(
          measure_run(spec_, plan_, devices.mesh.place(), needs_of(devices.backend)).memory),
      largest_memory_(ranks_.largest(memory_plan_.total())) {
    ranks_.together([&] {
        engine_ = std::make_unique<Engine>(devices.backend, mesh_, spec_, plan_, memory_plan_);
        if (directory_) metrics_.emplace(paths_.metrics());
    });
    saver_ = std::make_unique<CheckpointSaver>(
        devices.backend, engine_->memory()[MemoryUse::snapshot], ranks_,
        SaverOptions{
            {paths_.checkpoints(), spec_.checkpoint.keep_last, spec_.checkpoint.keep_every},
            spec_.checkpoint.async});
}

void Run::start(std::optional<RestartPoint>& checkpoint) {
    if (checkpoint) {
        const CheckpointMeta& meta = checkpoint->meta();
        checkpoint->load(engine_->backend(), state_source(), [&] {
            check_identity(meta.identity, identity_, checkpoint->folder().string());
        });
        state_ = carried_state(meta);
        engine_->restore(state_);
        step_ = meta.step;
        consumed_samples_ = meta.data_position;
        for (const std::string& line : changed_settings(saved_spec(meta), effective_yaml_)) {
            say("changed since the checkpoint: ", line);
        }
        say("resumed from ", checkpoint->folder().string(), " after step ", step_);
    } else {
        engine_->initialise();
        state_ = engine_->read_state();
    }
}

void Run::open_logs() {
    ranks_.first_alone([&] {
        directory_->write_spec(effective_yaml_);
        if (step_ > 0 || !metrics_->empty()) metrics_->write_resume(step_);
        if (spec_.logging.tensorboard) tensorboard_.emplace(paths_.folder, step_);
        console_.emplace(step_, plan_.steps);
    });
}

bool Run::has_validation() const {
    return ranks_.largest(metrics_ && metrics_->has_validation(step_) ? 1 : 0) > 0;
}

BatchShape Run::batch_shape() const {
    return {.seq_length = plan_.seq_length,
            .micro_batch_size = plan_.micro_batch_size,
            .data_rank = mesh_.place().dp,
            .data_ranks = plan_.mesh.data,
            .vocab_size = plan_.model.vocab,
            .eod_id = spec_.data.eod_id,
            .eod_mask_loss = spec_.data.eod_mask_loss,
            .reset_at_eod = spec_.data.reset_at_eod};
}

BatchLoader Run::training_loader() const {
    return BatchLoader(
        data_.train, plan_.batch, batch_shape(),
        {.first_step = step_ + 1, .last_step = plan_.steps, .consumed_samples = consumed_samples_});
}

std::optional<std::string_view> Run::stop_reason() const {
    // A step and a save must both fit before the deadline.
    constexpr double safety = 1.5;
    const auto own = gptrain::stop_reason(stop_.signals, stop_.deadline,
                                          safety * (slowest_step_ + slowest_save_));
    const auto place = std::find(stop_reasons.begin(), stop_reasons.end(), own.value_or(""));
    const std::int64_t agreed = ranks_.largest(place - stop_reasons.begin());
    if (agreed == 0) return std::nullopt;
    return stop_reasons[static_cast<std::size_t>(agreed)];
}

ExitCode Run::run() {
    const bool owes_evaluation = step_ > 0 && evaluation_due(step_) && !has_validation();
    const bool finished = step_ >= plan_.steps;
    if (!finished || owes_evaluation) open_logs();
    // Cut short it is still owed: the checkpoint of this step stays the newest.
    if (owes_evaluation && !evaluate()) return stopped();
    if (finished) {
        say("the run is finished: its last step, ", plan_.steps, ", is in the checkpoint");
        return ExitCode::done;
    }
    std::optional<std::string_view> stop;
    BatchLoader loader = training_loader();
    while (step_ < plan_.steps && !stop) {
        issue_step(loader.next());
        saver_->advance();
        stop = stop_reason();
        if (!stop && !results_due()) continue;
        finish_step();
        const bool last = step_ == plan_.steps;
        if (last || due(spec_.logging.interval, step_)) log_step();
        if (evaluation_due(step_)) evaluate();
        if (!stop) stop = stop_reason();
        if (stop && !last) say("stopping on ", *stop, ": saving");
        if (last || stop || due(spec_.checkpoint.interval, step_)) save();
    }
    saver_->wait();
    if (step_ < plan_.steps) return stopped();
    say("finished after step ", step_, "; checkpoints in ", paths_.checkpoints().string());
    return ExitCode::done;
}

ExitCode Run::stopped() const {
    say("stopped after step ", step_, "; the same command goes on from there");
    return ExitCode::requeue;
}

void Run::issue_step(const StepBatch& batch) {
    if (!under_way_) finished_at_ = Clock::now();
    engine_->step(batch);
    const UnderWay issued = {.state = engine_->mark_state(), .samples = batch.global_batch_size};
    finish_step();
    under_way_ = issued;
}

bool Run::results_due() const {
    const std::int64_t step = step_ + 1;
    return step == plan_.steps || due(spec_.logging.interval, step) || evaluation_due(step) ||
           due(spec_.checkpoint.interval, step);
}

void Run::finish_step() {
    if (!under_way_) return;
    loss_scale_ = state_.loss_scale;
    state_ = engine_->state_at(under_way_->state);
    const double seconds = seconds_since(finished_at_);
    finished_at_ = Clock::now();
    const std::int64_t samples = under_way_->samples;
    under_way_.reset();
    ++step_;
    consumed_samples_ += samples;
    step_seconds_ += seconds;
    step_tokens_ += samples * plan_.seq_length;
    ++steps_timed_;
    slowest_step_ = std::max(slowest_step_, seconds);
    warn_of_skip(samples);
    tell_of_other_memory();
    if (console_) console_->tick(step_);
    if (diverged()) fail_diverged();
}

void Run::tell_of_other_memory() {
    if (other_memory_told_ || !directory_) return;
    other_memory_told_ = true;
    const std::int64_t bytes = engine_->backend().other_bytes();
    if (bytes == 0) return;
    print("device memory: ", human_bytes(memory_plan_.on_device()), " as planned, and ",
          human_bytes(bytes), " of context, libraries and other programs");
}

void Run::warn_of_skip(std::int64_t samples) const {
    if (state_.skip == 0 || !directory_) return;
    warn("step ", step_, ": loss or gradients are not finite; the update is left out (samples ",
         consumed_samples_ - samples, " to ", consumed_samples_ - 1, ", loss scale ", loss_scale_,
         ")");
}

bool Run::diverged() const {
    return state_.skip != 0 && state_.skipped_in_a_row >= spec_.faults.max_skipped_steps;
}

void Run::fail_diverged() {
    log_step();
    if (metrics_) metrics_->sync();
    saver_->settle();
    throw CommonError(
        ExitCode::numerical,
        text(
            "step ", step_, ": ", state_.skipped_in_a_row,
            " steps in a row were skipped (faults.max_skipped_steps); the weights are those before "
            "them; lower optimizer.lr or look at the data"));
}

void Run::log_step() {
    const double tokens_per_s = static_cast<double>(step_tokens_) / step_seconds_;
    const double flops = tokens_per_s * flops_per_token(plan_.model, plan_.seq_length);
    StepMetrics metrics;
    metrics.step = step_;
    metrics.loss = state_.loss_sum / state_.token_weight_sum;
    metrics.grad_norm = state_.grad_norm;
    metrics.lr = state_.learning_rate;
    metrics.loss_scale = loss_scale_;
    metrics.tokens_per_s = tokens_per_s;
    metrics.step_time_s = step_seconds_ / static_cast<double>(steps_timed_);
    metrics.tflops_per_device = flops / static_cast<double>(plan_.mesh.size()) * 1e-12;
    metrics.consumed_samples = consumed_samples_;
    metrics.consumed_tokens = consumed_samples_ * plan_.seq_length;
    metrics.memory_bytes = largest_memory_;
    metrics.skipped_steps = state_.skipped_steps;
    step_seconds_ = 0;
    step_tokens_ = 0;
    steps_timed_ = 0;

    if (!metrics_) return;
    metrics_->write_step(metrics);
    console_->step(metrics);
    if (!tensorboard_) return;
    std::vector<Scalar> scalars;
    for_each_metric(metrics, [&](std::string_view name, const auto& value) {
        if (value) scalars.push_back({name, static_cast<double>(*value)});
    });
    tensorboard_->write(step_, scalars);
}

bool Run::evaluate() {
    const std::int64_t batches = spec_.training.eval_steps;
    const BatchSchedule whole = {.global_batch_size = plan_.batch.global_batch_size, .rampup = {}};
    BatchLoader loader(data_.validation, whole, batch_shape(),
                       {.first_step = 1, .last_step = batches, .consumed_samples = 0});
    LossSum sum;
    for (std::int64_t i = 0; i < batches; ++i) {
        if (stop_reason()) return false;
        sum.add(engine_->evaluate(loader.next()));
        if (console_) console_->evaluating(i + 1, batches);
    }
    if (!metrics_) return true;
    metrics_->write_validation(step_, sum.mean());
    console_->validation(step_, sum.mean());
    if (tensorboard_) tensorboard_->write(step_, {{"val_loss", sum.mean()}});
    return true;
}

void Run::save() {
    const Clock::time_point start = Clock::now();
    ranks_.first_alone([&] { metrics_->sync(); });
    CheckpointMeta meta;
    meta.step = step_;
    meta.data_position = consumed_samples_;
    meta.spec_hash = spec_hash(effective_yaml_);
    meta.identity = identity_;
    meta.state = saved_state(state_, effective_yaml_);
    saver_->save(meta, state_source());
    slowest_save_ = std::max(slowest_save_, seconds_since(start));
}

/// Checkpoints of another course of the run would be taken for this one's by the next `--resume
/// auto`.
void warn_of_later_checkpoints(const std::optional<RestartPoint>& start,
                               const std::filesystem::path& checkpoints) {
    const auto all = list_checkpoints(checkpoints);
    if (!start || all.empty() || all.front().step <= start->meta().step) return;
    warn(checkpoints.string(), ": holds checkpoints of later steps, up to ", all.front().step,
         ", than the one resumed from, ", start->meta().step,
         "; the next start takes the latest of all unless it is told another");
}

/// The checkpoint to go on from, unless its data turn out to be damaged.
std::optional<RestartPoint> common_start(const ResumeChoice& resume, const RunPaths& paths,
                                         const MpiSession& ranks) {
    std::vector<std::filesystem::path> candidates;
    ranks.first_alone([&] { candidates = start_candidates(resume, paths.checkpoints()); });
    return RestartPoint::find(std::move(candidates), ranks);
}

/// Rank 0 makes the index files, the others find them.
RunInputs common_inputs(const RunSpec& spec, const RunPlan& plan, const RunPaths& paths,
                        const MpiSession& ranks) {
    std::optional<RunInputs> inputs;
    const auto open = [&] {
        if (!inputs) inputs.emplace(open_inputs(spec, plan, paths.cache()));
    };
    ranks.first_alone(open);
    ranks.together(open);
    return std::move(*inputs);
}

}  // namespace

ExitCode train(const RunSpec& spec, RunPlan plan, const ResumeChoice& resume,
               const RunDevices& devices) {
    const MpiSession& ranks = devices.ranks;
    const StopRequests stop{{}, deadline_of(spec)};
    const RunPaths paths = {spec.output_dir};
    std::optional<RunDirectory> directory;
    ranks.first_alone([&] { directory.emplace(spec.output_dir); });
    std::optional<RestartPoint> checkpoint = common_start(resume, paths, ranks);
    // The order of the samples is fixed by their number: a run that goes on keeps it.
    if (checkpoint && !spec.data.num_samples)
        plan.num_samples = saved_num_samples(checkpoint->meta());
    const RunInputs inputs = common_inputs(spec, plan, paths, ranks);
    ranks.together([&] {
        if (!checkpoint) return;
        check_identity(checkpoint->meta().identity, inputs.identity, checkpoint->folder().string());
    });
    std::optional<Run> run;
    try {
        run.emplace(inputs, directory, stop, devices);
        run->start(checkpoint);
        ranks.first_alone([&] { warn_of_later_checkpoints(checkpoint, paths.checkpoints()); });
        return run->run();
    } catch (const CommonError&) {
        // All ranks are here. Messages that are under way between them end now, while their memory
        // lives; while an exception flies they would not be waited for.
        run.reset();
        throw;
    }
}

}  // namespace gptrain
