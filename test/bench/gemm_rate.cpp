#include "gemm_rate.h"

#include <dnnl.hpp>
#include <vector>

#include "timing.h"

namespace gptrain::bench {

std::optional<double> gemm_rate(Precision precision) {
    using dnnl::memory;
    constexpr memory::dim m = 1024;
    constexpr memory::dim n = 3072;
    constexpr memory::dim k = 768;
    const auto type =
        precision == Precision::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
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
        memory a_memory(a, engine);
        memory b_memory(b, engine);
        memory c_memory(c, engine);
        // Non-zero values: small numbers whose bits are denormal in neither type.
        for (const memory& operand : {a_memory, b_memory}) {
            auto* words = static_cast<std::uint16_t*>(operand.get_data_handle());
            for (std::size_t i = 0; i < operand.get_desc().get_size() / 2; ++i) {
                words[i] = static_cast<std::uint16_t>(0x3c00 + i % 255);
            }
        }
        const auto run = [&](int times) {
            for (int i = 0; i < times; ++i) {
                product.execute(stream, {{DNNL_ARG_SRC, a_memory},
                                         {DNNL_ARG_WEIGHTS, b_memory},
                                         {DNNL_ARG_DST, c_memory}});
            }
            stream.wait();
        };
        constexpr int repeats = 20;
        run(repeats);
        std::vector<double> seconds;
        for (int i = 0; i < 9; ++i)
            seconds.push_back(seconds_of([&] { run(repeats); }) / repeats);
        return 2.0 * m * n * k / median(seconds) * 1e-9;
    } catch (const dnnl::error&) {
        return std::nullopt;
    }
}

}  // namespace gptrain::bench
