#include "watch/rank_record.h"

namespace gptrain {

RankRecord with_device(RankRecord record, const DeviceRecord& device) {
    if (device.unfinished == 0) return record;
    // The host is ahead.
    record.started = device.started;
    if (record.waiting != 0) return record;
    record.waiting = device.waiting;
    if (device.waiting == 0) return record;
    record.axis = device.axis;
    record.operation = device.operation;
    record.number = device.number;
    return record;
}

}  // namespace gptrain
