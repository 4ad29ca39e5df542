#include "timed_backend.h"

namespace gptrain::bench {

std::map<std::string, double> TimedBackend::take_times() {
    synchronize();
    std::map<std::string, double> times;
    for (std::size_t i = 0; i < used_; ++i)
        times[std::string(intervals_[i].op)] +=
            intervals_[i].end.milliseconds_since(intervals_[i].start);
    used_ = 0;
    return times;
}

void TimedBackend::copy(const Tensor& to, const Tensor& from) {
    timed("copy", [&] { inner().copy(to, from); });
}
void TimedBackend::upload(const Tensor& to, std::span<const std::byte> from) {
    timed("upload", [&] { inner().upload(to, from); });
}

void TimedBackend::on(const LinearForward& op) {
    LinearForward product = op;
    product.gelu = {};
    timed(product.name, [&] { inner().run(product); });
    if (!op.gelu.empty()) on(ActivationForward{.u = op.y, .y = op.gelu});
}

}  // namespace gptrain::bench
