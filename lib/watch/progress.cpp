#include "watch/progress.h"

#include <string>
#include <unistd.h>

#include "base/process.h"

namespace gptrain {

Progress::Progress(RankSlot& slot) : slot_(slot) {
    record_.host = ShortText<64>(host_name());
    record_.pid = ::getpid();
    publish();
}

void Progress::publish() {
    slot_.publish(record_);
    slot_.move();
}

void Progress::phase(std::string_view name, std::int64_t step) {
    record_.phase = ShortText<16>(name);
    record_.step = step;
    if (name == "step" && record_.first_step == 0) record_.first_step = step;
    action({});
}

void Progress::action(std::string_view what) {
    record_.action = ShortText<64>(what);
    publish();
}

void Progress::work(std::int64_t microbatches) {
    record_.work = microbatches;
    publish();
}

void Progress::record(const CommCall& call, bool waiting) {
    record_.axis = ShortText<24>(name_of(call.axis));
    record_.operation = ShortText<16>(call.operation);
    record_.number = call.number;
    record_.waiting = waiting ? 1 : 0;
    publish();
}

void Progress::on_started(const CommCall& call) {
    if (call.communicator < axes)
        record_.started[static_cast<std::size_t>(call.communicator)] = call.number;
    record(call, false);
}

void Progress::end_wait() {
    record_.waiting = 0;
    publish();
}

void Progress::on_device(const DeviceProgress& progress) {
    DeviceRecord device;
    device.unfinished = progress.unfinished;
    device.started = progress.started;
    if (const auto& running = progress.running) {
        device.waiting = 1;
        device.axis = ShortText<24>(name_of(running->axis));
        device.operation = ShortText<16>(running->operation);
        device.number = running->number;
    }
    slot_.publish_device(device);
    slot_.move();
}

void Progress::on_wait(std::string_view operation) {
    record_.axis = ShortText<24>("world");
    record_.operation = ShortText<16>(operation);
    record_.number = ++record_.world_operations;
    record_.waiting = 1;
    publish();
}

void Progress::on_reached(const Action& action) {
    std::string what = text(name_of(action.kind), " of microbatch ", action.microbatch);
    if (action.chunk > 0) what += text(", chunk ", action.chunk);
    if (!computes(action.kind))
        what += text(sends(action.kind) ? " to stage " : " from stage ", action.peer);
    this->action(what);
}

}  // namespace gptrain
