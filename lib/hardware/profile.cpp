#include "hardware/profile.h"

namespace gptrain {

double PrecisionRates::of(DType dtype) const {
    switch (dtype) {
        case DType::bf16: return bf16;
        case DType::f16: return fp16;
        case DType::f8e4m3:
        case DType::f8e5m2: return fp8;
        default: return fp32;
    }
}

namespace {

void slow_down(LinkProfile& link, double factor) {
    link.bandwidth /= factor;
    link.latency *= factor;
    for (MeasuredMessage& message : link.measured)
        message.seconds *= factor;
}

void slow_down(DeviceProfile& device, double factor) {
    device.memory_efficiency /= factor;
    PrecisionRates& gemms = device.gemm_efficiency;
    for (double* share : {&gemms.fp32, &gemms.bf16, &gemms.fp16, &gemms.fp8})
        *share /= factor;
    for (AttentionRate& rate : device.attention) {
        rate.forward /= factor;
        rate.backward /= factor;
    }
    for (OpBandwidth& op : device.op_bandwidths)
        op.bandwidth /= factor;
    device.op_seconds *= factor;
    device.issue_seconds *= factor;
    device.copy_bandwidth /= factor;
    for (MeasuredOp& op : device.measured)
        op.seconds *= factor;
}

}  // namespace

HardwareProfile slowed_down(HardwareProfile profile, double factor) {
    slow_down(profile.device, factor);
    slow_down(profile.node.link, factor);
    if (profile.node.network) slow_down(*profile.node.network, factor);
    return profile;
}

}  // namespace gptrain
