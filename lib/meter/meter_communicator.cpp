#include "meter/meter_communicator.h"

#include <memory>

#include "comm/byte_runs.h"

namespace gptrain {

Pending MeterCommunicator::hold(std::int64_t bytes) {
    if (bytes == 0) return {};
    auto buffer = std::make_shared<Buffer>(memory_.take(bytes));
    return Pending([&memory = memory_, buffer] { memory.release(std::move(*buffer)); });
}

Pending MeterCommunicator::all_reduce(const Tensor& x, Reduce /*reduce*/) {
    return hold((size_ - 1) * share_of(x, rank_, size_).total());
}

Pending MeterCommunicator::reduce_scatter(const Tensor& to, const Tensor& /*from*/, int /*dim*/) {
    return hold((size_ - 1) * to.bytes());
}

}  // namespace gptrain
