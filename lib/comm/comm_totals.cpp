#include "comm/comm_totals.h"

namespace gptrain {

void CommTotals::on_started(const CommCall& call) {
    of(call).bytes += call.bytes;
    since_ = Clock::now();
}

void CommTotals::stop(const CommCall& call) {
    of(call).seconds += std::chrono::duration<double>(Clock::now() - since_).count();
}

}  // namespace gptrain
