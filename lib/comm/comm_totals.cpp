#include "comm/comm_totals.h"

#include "base/clock.h"

namespace gptrain {

void CommTotals::on_started(const CommCall& call) {
    of(call).bytes += call.bytes;
    since_ = Clock::now();
}

void CommTotals::stop(const CommCall& call) {
    of(call).seconds += seconds_since(since_);
}

}  // namespace gptrain
