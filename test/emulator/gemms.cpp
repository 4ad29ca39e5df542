// Twin of cuda/gemm/gemms.cpp: GEMMs by the CPU backend's oneDNN, on fp32 copies. Epilogues are
// always separate, so that kernels of cuda/ compute them, except of FP8 in blocks. The settings may
// choose our kernel for sm_90a.
#include "cuda/gemm/gemms.h"

#include <cstring>
#include <omp.h>
#include <vector>

#include "base/fp8.h"
#include "cpu/gemm.h"
#include "cuda/gemm/sm90_plan.h"
#include "emulator/grid.h"
#include "emulator/memory.h"

namespace gptrain::cuda {
namespace {

float scale_at(const Matrix& matrix, std::int64_t row, std::int64_t col) {
    const ScaleGrid& grid = matrix.scales;
    if (!matrix.in_blocks()) return *matrix.scale;
    return matrix.scale[row / grid.rows * grid.row_step + col / grid.cols * grid.col_step];
}

float value_at(const Matrix& matrix, std::int64_t row, std::int64_t col) {
    const std::byte* at =
        matrix.data + (row * matrix.row_stride + col * matrix.col_stride) * size_of(matrix.dtype);
    const auto as = [at](auto type) {
        std::memcpy(&type, at, sizeof type);
        return to_float(type);
    };
    switch (matrix.dtype) {
        case DType::bf16: return as(Bf16{});
        case DType::f16: return as(F16{});
        case DType::f8e4m3: return as(F8E4M3{}) * scale_at(matrix, row, col);
        case DType::f8e5m2: return as(F8E5M2{}) * scale_at(matrix, row, col);
        default: return as(float{});
    }
}

std::vector<float> values_of(const Matrix& matrix) {
    std::vector<float> values(static_cast<std::size_t>(matrix.rows * matrix.cols));
    for (std::size_t i = 0; float& value : values) {
        const auto index = static_cast<std::int64_t>(i++);
        value = value_at(matrix, index / matrix.cols, index % matrix.cols);
    }
    return values;
}

void write(const Matrix& matrix, const std::vector<float>& values) {
    for (std::size_t i = 0; const float value : values) {
        const auto index = static_cast<std::int64_t>(i++);
        std::byte* at = matrix.data + (index / matrix.cols * matrix.row_stride +
                                       index % matrix.cols * matrix.col_stride) *
                                          size_of(matrix.dtype);
        const auto as = [&](auto type) {
            type = from_float<decltype(type)>(value);
            std::memcpy(at, &type, sizeof type);
        };
        switch (matrix.dtype) {
            case DType::bf16: as(Bf16{}); break;
            case DType::f16: as(F16{}); break;
            default: as(float{});
        }
    }
}

}  // namespace

class Gemms::Library {
public:
    void multiply(const Gemm& gemm) {
        std::vector<float> a = values_of(gemm.a);
        std::vector<float> b = values_of(gemm.b);
        std::vector<float> c = values_of(gemm.c);
        Scratch scratch(memory_.data(), std::ssize(memory_) / 256 * 256);
        gemms_.multiply({.a = Matrix(a.data(), gemm.a.rows, gemm.a.cols),
                         .b = Matrix(b.data(), gemm.b.rows, gemm.b.cols),
                         .c = Matrix(c.data(), gemm.c.rows, gemm.c.cols),
                         .accumulate = gemm.accumulate},
                        scratch);
        if (gemm.bias != nullptr) add_bias(gemm, c);
        write(gemm.c, c);
    }

private:
    /// With scales for blocks, where it is no epilogue.
    static void add_bias(const Gemm& gemm, std::vector<float>& c) {
        Matrix bias = gemm.c;
        bias.data = const_cast<std::byte*>(gemm.bias);
        bias.row_stride = 0;
        const std::vector<float> values = values_of(bias);
        for (std::size_t i = 0; i < c.size(); ++i)
            c[i] += values[i];
    }

    cpu::Gemms gemms_;
    std::vector<std::byte> memory_ = std::vector<std::byte>(
        static_cast<std::size_t>(cpu::Gemms::scratch_bytes(omp_get_max_threads())) + 256);
};

Gemms::Gemms(const DeviceProperties& /*device*/, TuningTable* /*tuning*/, bool /*tunes_sm90*/)
    : library_(std::make_unique<Library>()) {}

Gemms::~Gemms() = default;

void Gemms::tune(const std::function<void()>& work) {
    work();
}
bool Gemms::use_table(std::string_view /*table*/) {
    return true;
}

void Gemms::run(const Gemm& gemm, PartKernel* kernel, const OpContext& context) {
    // Takes as much as the real GEMMs.
    context.scratch.take_bytes(workspace_bytes);
    const emulator::Settings& settings = emulator::settings();
    const std::int64_t parts = settings.major == 9 ? settings.sm90_gemm_parts : 0;
    const GemmRules rules = {
        .scratch = context.scratch,
        .choose = [](const Gemm&) { return GemmChoice{.separate = true}; },
        .sm90 =
            [parts](const Gemm& part) {
                return Sm90Choice{sm90::covers_gemm(part) ? parts : 0, sm90::may_sum_rows(part)};
            }};
    for (const GemmPart& part : plan_of(gemm, rules)) {
        if (part.kind == GemmPart::Kind::library) {
            context.stream.issue(
                [library = library_.get(), plain = part.gemm] { library->multiply(plain); });
        } else {
            kernel(part, context);
        }
    }
}

void Gemms::run(const GroupedGemm& gemm, const GroupedKernels& kernels, const OpContext& context) {
    const emulator::Settings& settings = emulator::settings();
    const bool ours =
        settings.major == 9 && settings.sm90_gemm_parts > 0 && sm90::covers_grouped(gemm);
    (ours ? kernels.sm90 : kernels.anywhere)(gemm, context);
}

}  // namespace gptrain::cuda
