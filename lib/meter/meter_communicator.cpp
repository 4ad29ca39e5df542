#include "meter/meter_communicator.h"

#include <algorithm>
#include <memory>

namespace gptrain {

Pending MeterCommunicator::hold(std::int64_t bytes) {
    if (bytes == 0) return {};
    auto buffer = std::make_shared<Buffer>(memory_.take(bytes));
    return Pending([&memory = memory_, buffer] { memory.give_back(std::move(*buffer)); });
}

Pending MeterCommunicator::all_reduce(const Tensor& x, Reduce /*how*/) {
    const std::int64_t most = div_ceil(x.elements(), size_);
    const std::int64_t begin = std::min(rank_ * most, x.elements());
    const std::int64_t own = std::min(begin + most, x.elements()) - begin;
    return hold((size_ - 1) * own * size_of(x.dtype()));
}

Pending MeterCommunicator::reduce_scatter(const Tensor& to, const Tensor& /*from*/, int /*dim*/) {
    return hold((size_ - 1) * to.bytes());
}

}  // namespace gptrain
