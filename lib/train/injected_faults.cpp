#include "train/injected_faults.h"

#include <chrono>
#include <limits>
#include <thread>

#include "base/log.h"
#include "checkpoint/state_source.h"
#include "schedule/stage_plan.h"

namespace gptrain {
namespace {

using Kind = InjectedFault::Kind;

std::vector<RankFault> faults_of(const FaultInjectionSpec& spec, int rank) {
    std::vector<RankFault> faults;
    for (std::size_t i = 0; i < spec.faults.size(); ++i) {
        if (spec.faults[i].rank == rank)
            faults.push_back({spec.faults[i], static_cast<std::uint32_t>(i)});
    }
    return faults;
}

std::vector<InjectedFault> in_calls(const std::vector<RankFault>& faults) {
    std::vector<InjectedFault> found;
    for (const auto& [fault, number] : faults)
        if (fault.call > 0) found.push_back(fault);
    return found;
}

struct Element {
    std::string tensor;
    std::int64_t index;
    Tensor value;
};

/// Draws one of the visited tensors that this rank owns, and one of its elements.
Element draw_element(const StateSource& source, const PhiloxBlock& draw) {
    std::vector<NamedState> tensors;
    source([&](const NamedState& state) {
        if (state.shard.owned && state.shard.elements() > 0) tensors.push_back(state);
    });
    GPTRAIN_CHECK(!tensors.empty(), "a rank without parameters of its own");
    const NamedState& tensor = tensors[draw[1] % tensors.size()];
    const std::int64_t index = draw[2] % tensor.values.elements();
    return {tensor.shard.name, index, tensor.values.slice(0, index, 1)};
}

}  // namespace

InjectedFaults::InjectedFaults(const FaultInjectionSpec& spec, Target target)
    : seed_(spec.seed),
      target_(std::move(target)),
      faults_(faults_of(spec, target_.rank)),
      call_faults_(in_calls(faults_), target_.rank, target_.checkpoints) {
    if (target_.rank != 0) return;
    warn("fault_injection is on: ", spec.faults.size(),
         spec.faults.size() == 1 ? " fault" : " faults", " will be injected; this run is a test");
}

void InjectedFaults::begin_step(std::int64_t step, std::int64_t microbatches) {
    step_ = step;
    call_faults_.begin_step(step);
    const int stage = place_of(target_.rank, target_.plan.mesh).pp;
    actions_ = std::ssize(make_schedule(pipeline_of(target_.plan, microbatches), stage).actions);
}

void InjectedFaults::end_step() {
    for (const RankFault& fault : due(Kind::bit_flip, step_))
        flip_bit(fault);
}

void InjectedFaults::on_step_begin() {
    in_actions_ = true;
    next_action_ = 0;
    delay_step();
    for (const RankFault& fault : due(Kind::nan, step_))
        corrupt_gradient(fault);
}

void InjectedFaults::on_begin(const Action& action) {
    if (!in_actions_) return;
    for (const RankFault& fault : faults_) {
        if (!is_process_fault(fault.fault.kind) || fault.fault.call > 0) continue;
        if (fault.fault.step != step_ || draw(fault)[0] % actions_ != next_action_) continue;
        inject_process_fault(
            target_.rank, fault.fault,
            text("in action ", next_action_ + 1, " of ", actions_, " of step ", step_, ", ",
                 name_of(action.kind), " of microbatch ", action.microbatch));
    }
    ++next_action_;
}

std::vector<RankFault> InjectedFaults::due(Kind kind, std::int64_t step) const {
    std::vector<RankFault> found;
    for (const RankFault& fault : faults_)
        if (fault.fault.kind == kind && fault.fault.step == step) found.push_back(fault);
    return found;
}

PhiloxBlock InjectedFaults::draw(const RankFault& fault) const {
    return philox(
        {}, philox_stream(seed_, static_cast<std::uint64_t>(fault.fault.step), fault.number, 0));
}

void InjectedFaults::delay_step() const {
    for (const auto& [fault, number] : faults_) {
        if (fault.kind != Kind::slow || step_ < fault.step) continue;
        if (step_ == fault.step) warn_of(target_.rank, fault, text("from step ", step_, " on"));
        std::this_thread::sleep_for(std::chrono::duration<double>(fault.seconds));
    }
}

void InjectedFaults::corrupt_gradient(const RankFault& fault) const {
    const Element element = draw_element(
        [&](const StateVisitor& visitor) { target_.engine.visit_gradients(visitor); }, draw(fault));
    warn_of(target_.rank, fault.fault,
            text("in step ", step_, ", element ", element.index, " of the gradient of ",
                 element.tensor));
    target_.engine.backend().run(
        Fill{.x = element.value, .value = std::numeric_limits<float>::quiet_NaN()});
}

void InjectedFaults::flip_bit(const RankFault& fault) const {
    const PhiloxBlock drawn = draw(fault);
    const Element element = draw_element(
        [&](const StateVisitor& visitor) { target_.engine.visit_weights(visitor); }, drawn);
    const std::size_t bit = flip_in(element.value, drawn[3]);
    warn_of(target_.rank, fault.fault,
            text("after step ", step_, ", bit ", bit, " of element ", element.index, " of ",
                 element.tensor));
}

void InjectedFaults::miscompute(std::int64_t step, std::int64_t index, std::int64_t count,
                                const Tensor& result) const {
    for (const RankFault& fault : due(Kind::miscompute, step)) {
        const PhiloxBlock drawn = draw(fault);
        // The last one is the state of the step, with values of other steps.
        if (drawn[1] % (count - 1) != index) continue;
        const std::int64_t element = drawn[2] % result.elements();
        const Tensor value = result.view({result.elements()}).slice(0, element, 1);
        const std::size_t bit = flip_in(value, drawn[3]);
        warn_of(target_.rank, fault.fault,
                text("in step ", step, ", bit ", bit, " of element ", element, " of result ",
                     index + 1, " of ", count));
    }
}

std::size_t InjectedFaults::flip_in(const Tensor& value, std::uint32_t drawn) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(value.dtype())));
    const std::size_t bit = drawn % (8 * bytes.size());
    Backend& backend = target_.engine.backend();
    backend.download(bytes, value);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    backend.upload(value, bytes);
    return bit;
}

}  // namespace gptrain
