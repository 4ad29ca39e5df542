#include "gemm_rate.h"

#include <dnnl.hpp>

#include "timing.h"

namespace gptrain::bench {
namespace {

using dnnl::memory;

constexpr memory::dim m = 1024;
constexpr memory::dim n = 3072;
constexpr memory::dim k = 768;
constexpr int gemms_a_turn = 20;

/// Null if oneDNN has no such GEMM.
std::function<void()> gemm_of(Precision precision) {
    const auto type =
        precision == Precision::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const memory::desc a({m, k}, type, memory::format_tag::ab);
    const memory::desc b({k, n}, type, memory::format_tag::ab);
    const memory::desc c({m, n}, memory::data_type::f32, memory::format_tag::ab);
    try {
#if DNNL_VERSION_MAJOR >= 3
        const dnnl::matmul::primitive_desc description(engine, a, b, c);
#else
        const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), engine);
#endif
        const dnnl::matmul product(description);
        const memory a_memory(a, engine);
        const memory b_memory(b, engine);
        const memory c_memory(c, engine);
        // Non-zero values: small numbers whose bits are denormal in neither type.
        for (const memory& operand : {a_memory, b_memory}) {
            auto* words = static_cast<std::uint16_t*>(operand.get_data_handle());
            for (std::size_t i = 0; i < operand.get_desc().get_size() / 2; ++i) {
                words[i] = static_cast<std::uint16_t>(0x3c00 + i % 255);
            }
        }
        return [product, a_memory, b_memory, c_memory, stream = dnnl::stream(engine)]() mutable {
            product.execute(
                stream,
                {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, c_memory}});
            stream.wait();
        };
    } catch (const dnnl::error&) {
        return nullptr;
    }
}

}  // namespace

GemmRate::GemmRate(Precision precision)
    : gemm_(gemm_of(precision)), has_precision_(gemm_ != nullptr) {
    if (!has_precision_) gemm_ = gemm_of(Precision::fp32);
    run();
    seconds_.clear();
}

void GemmRate::run() {
    seconds_.push_back(seconds_of([&] {
                           for (int i = 0; i < gemms_a_turn; ++i)
                               gemm_();
                       }) /
                       gemms_a_turn);
}

double GemmRate::gflops() const {
    return 2.0 * m * n * k / median(seconds_) * 1e-9;
}

}  // namespace gptrain::bench
