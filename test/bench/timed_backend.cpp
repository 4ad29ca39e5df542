#include "timed_backend.h"

#include "base/text.h"

namespace gptrain::bench {

TimedBackend::Times TimedBackend::take_times() {
    const std::vector<double> laps = stopwatch_->take_laps();
    Times times;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
        const double milliseconds = 1e3 * laps[2 * i];
        times.ops[ops_[i].op] += milliseconds;
        if (!ops_[i].gemm.empty()) times.gemms[ops_[i].gemm] += milliseconds;
    }
    ops_.clear();
    return times;
}

void TimedBackend::copy(const Tensor& to, const Tensor& from) {
    timed("copy", [&] { inner().copy(to, from); });
}
void TimedBackend::upload(const Tensor& to, std::span<const std::byte> from) {
    timed("upload", [&] { inner().upload(to, from); });
}

void TimedBackend::on(const LinearForward& op) {
    if (!op.swiglu.empty()) return each_part(op, [&](const auto& part) { on(part); });
    LinearForward product = op;
    product.gelu = {};
    const Tensor& y = op.y;
    const Tensor& x = op.x.empty() ? op.x8.rowwise : op.x;
    timed(
        product.name, [&] { inner().run(product); },
        text(product.name, " ", y.size(0), " x ", x.size(1), " x ", y.size(1)));
    if (!op.gelu.empty()) on(ActivationForward{.u = op.y, .y = op.gelu});
}

void TimedBackend::on(const LinearInputGrad& op) {
    if (!op.du.empty()) return each_part(op, [&](const auto& part) { on(part); });
    const Tensor& dy = op.dy.empty() ? op.dy8.rowwise : op.dy;
    timed(
        op.name, [&] { inner().run(op); },
        text(op.name, op.gelu_input.empty() ? " " : " gelu ", op.dx.size(0), " x ", dy.size(1),
             " x ", op.dx.size(1)));
}

void TimedBackend::on(const LinearWeightGrad& op) {
    const std::int64_t tokens = op.x.empty() ? op.x8.columnwise.size(1) : op.x.size(0);
    timed(
        op.name, [&] { inner().run(op); },
        text(op.name, op.dbias.empty() ? " " : " bias ", op.dweight.size(0), " x ", tokens, " x ",
             op.dweight.size(1)));
}

}  // namespace gptrain::bench
