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

}  // namespace gptrain
