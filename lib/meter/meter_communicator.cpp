#include "meter/meter_communicator.h"

namespace gptrain {

Pending MeterCommunicator::ring(const Tensor& whole, int passes) {
    bytes_ += passes * (whole.bytes() / size_) * (size_ - 1);
    return {};
}

Pending MeterCommunicator::all_reduce(const Tensor& x, Reduce /*how*/) {
    return ring(x, 2);
}

Pending MeterCommunicator::reduce_scatter(const Tensor& /*to*/, const Tensor& from, int /*dim*/) {
    return ring(from, 1);
}

Pending MeterCommunicator::all_gather(const Tensor& to, const Tensor& /*from*/, int /*dim*/) {
    return ring(to, 1);
}

Pending MeterCommunicator::all_to_all(const Tensor& to, const Tensor& /*from*/) {
    return ring(to, 1);
}

Pending MeterCommunicator::broadcast(const Tensor& x, int root) {
    if (size_ > 1 && rank_ == root) bytes_ += x.bytes();
    return {};
}

Pending MeterCommunicator::send(const Tensor& x, int /*to*/) {
    bytes_ += x.bytes();
    return {};
}

Pending MeterCommunicator::recv(const Tensor& /*x*/, int /*from*/) {
    return {};
}

Pending MeterCommunicator::send_recv(const Tensor& sent, int /*to*/, const Tensor& /*received*/,
                                     int /*from*/) {
    if (size_ > 1) bytes_ += sent.bytes();
    return {};
}

}  // namespace gptrain
