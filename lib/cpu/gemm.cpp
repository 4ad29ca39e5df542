#include "cpu/gemm.h"

#include <array>
#include <map>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/process.h"
#include "base/text.h"

namespace gptrain::cpu {
namespace {

/// oneDNN needs less, except for long sums on many threads and for layouts that its fast kernels do
/// not support.
constexpr std::int64_t scratch_per_thread = std::int64_t{3} << 20;

/// Everything that a primitive depends on.
using Key = std::array<std::int64_t, 11>;

dnnl::memory::data_type dnnl_type(DType dtype) {
    return dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::memory::desc description(const Matrix& matrix) {
    // The stride of a dim of size 1 is arbitrary, but oneDNN derives layouts from it.
    std::int64_t row_stride = matrix.row_stride;
    std::int64_t col_stride = matrix.col_stride;
    if (col_stride == 1 && matrix.rows == 1) row_stride = matrix.cols;
    if (row_stride == 1 && matrix.cols == 1 && col_stride != 1) col_stride = matrix.rows;
    return {{matrix.rows, matrix.cols}, dnnl_type(matrix.dtype), {row_stride, col_stride}};
}

Key key_of(const Gemm& gemm) {
    return {gemm.a.rows,
            gemm.a.cols,
            gemm.b.cols,
            gemm.a.row_stride,
            gemm.a.col_stride,
            gemm.b.row_stride,
            gemm.b.col_stride,
            gemm.c.row_stride,
            static_cast<std::int64_t>(gemm.a.dtype),
            static_cast<std::int64_t>(gemm.c.dtype),
            (gemm.accumulate ? 2 : 0) + (gemm.bias != nullptr ? 1 : 0)};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Gemm& gemm) {
    const dnnl::memory::desc a = description(gemm.a);
    const dnnl::memory::desc b = description(gemm.b);
    const dnnl::memory::desc c = description(gemm.c);
    const std::int64_t width = gemm.c.cols;
    const auto bias = gemm.bias == nullptr
                          ? dnnl::memory::desc()
                          : dnnl::memory::desc({1, width}, dnnl_type(gemm.a.dtype), {width, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
    if (gemm.accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.0f);
        attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR < 3
    return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
#else
    return {engine, a, b, bias, c, attributes};
#endif
}

std::int64_t scratch_bytes_of(const dnnl::matmul::primitive_desc& desc) {
    return static_cast<std::int64_t>(desc.scratchpad_desc().get_size());
}

// ---- parts of a GEMM -------------------------------------------------------------------------

enum class Dim { rows, cols, length };

std::int64_t size_along(Dim dim, const Gemm& gemm) {
    if (dim == Dim::length) return gemm.a.cols;
    return dim == Dim::rows ? gemm.c.rows : gemm.c.cols;
}

/// The part of the GEMM from `begin` on along `dim`. Parts are computed in ascending order.
Gemm part_of(const Gemm& gemm, Dim dim, std::int64_t begin, std::int64_t size) {
    Gemm part = gemm;
    if (dim == Dim::rows) {
        part.a = gemm.a.block(begin, size, 0, gemm.a.cols);
        part.c = gemm.c.block(begin, size, 0, gemm.c.cols);
    } else if (dim == Dim::cols) {
        part.b = gemm.b.block(0, gemm.b.rows, begin, size);
        part.c = gemm.c.block(0, gemm.c.rows, begin, size);
        if (part.bias != nullptr) part.bias += begin * size_of(gemm.a.dtype);
    } else {
        part.a = gemm.a.block(0, gemm.a.rows, begin, size);
        part.b = gemm.b.block(begin, size, 0, gemm.b.cols);
        if (begin > 0) part.bias = nullptr;
        part.accumulate = gemm.accumulate || begin > 0;
    }
    return part;
}

/// The best dim to halve a GEMM along: the one whose half needs the least scratch memory, the
/// longest if tied. Sums in two parts keep their precision only if the result is fp32.
Dim best_cut(const dnnl::engine& engine, const Gemm& gemm) {
    std::optional<Dim> best;
    std::pair<std::int64_t, std::int64_t> least;
    for (const Dim dim : {Dim::rows, Dim::cols, Dim::length}) {
        const std::int64_t size = size_along(dim, gemm);
        if (size == 1 || (dim == Dim::length && gemm.c.dtype != DType::f32)) continue;
        const Gemm half = part_of(gemm, dim, 0, size / 2);
        const std::pair cost(scratch_bytes_of(describe(engine, half)), -size);
        if (best && cost >= least) continue;
        best = dim;
        least = cost;
    }
    GPTRAIN_CHECK(best, "oneDNN needs scratch memory even for the smallest GEMM");
    return *best;
}

/// The dim along which a GEMM is faster in two parts, if any. oneDNN 2 takes its brgemm kernels,
/// except for operands and results with gaps between their rows, as parts have them: for these it
/// takes gemm:jit. That is slower for small GEMMs. But brgemm copies a transposed a, is slow to
/// copy a large b, and adds to c in a second pass.
std::optional<Dim> faster_cut(const Gemm& gemm) {
    if (DNNL_VERSION_MAJOR >= 3) return std::nullopt;
    const std::int64_t rows = gemm.c.rows;
    const std::int64_t cols = gemm.c.cols;
    const std::int64_t length = gemm.a.cols;
    // Weight gradients: 1.1 to 2 times as fast.
    const bool copies_a = gemm.a.col_stride == rows && gemm.a.row_stride == 1;
    if (copies_a && std::min(rows, cols) >= 512 && rows * cols * length >= std::int64_t{1} << 27)
        return Dim::rows;
    // Input gradients: 1.05 to 1.4 times as fast.
    const bool copies_b = gemm.b.row_stride == cols && gemm.b.col_stride == 1;
    if (copies_b && rows >= 384 && cols * length >= std::int64_t{1} << 24) return Dim::cols;
    return std::nullopt;
}

/// oneDNN uses only the calling thread, and chooses its blocks for that.
class OneThread {
public:
    OneThread() { omp_set_num_threads(1); }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;
    ~OneThread() { omp_set_num_threads(before_); }

private:
    int before_ = omp_get_max_threads();
};

/// A GEMM as oneDNN computes it, and the dim to halve it along if that needs too much memory.
struct Primitive {
    dnnl::matmul matmul;
    std::int64_t scratch_bytes;
    std::unordered_map<int, dnnl::memory> arguments;
    std::optional<Dim> cut = std::nullopt;  ///< determined on first use
};

}  // namespace

class Gemms::Primitives {
public:
    /// Valid until the next call.
    Primitive& find_or_make(const Gemm& gemm) {
        const Key key = key_of(gemm);
        if (const auto found = made_.find(key); found != made_.end()) return found->second;
        if (made_.size() >= most_kept) made_.clear();
        return made_.emplace(key, make(gemm)).first->second;
    }

    void execute(Primitive& primitive, const Gemm& gemm, std::byte* scratch) {
        auto& arguments = primitive.arguments;
        arguments.at(DNNL_ARG_SRC).set_data_handle(gemm.a.data);
        arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(gemm.b.data);
        arguments.at(DNNL_ARG_DST).set_data_handle(gemm.c.data);
        arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch);
        if (gemm.bias != nullptr) {
            arguments.at(DNNL_ARG_BIAS).set_data_handle(const_cast<std::byte*>(gemm.bias));
        }
        primitive.matmul.execute(stream_, arguments);
        stream_.wait();
    }

    Dim cut_of(Primitive& primitive, const Gemm& gemm) const {
        if (!primitive.cut) primitive.cut = best_cut(engine_, gemm);
        return *primitive.cut;
    }

    /// True if oneDNN has a primitive other than its slow reference.
    bool can_multiply(DType dtype) const {
        const std::string name = implementation(dtype);
        return !name.empty() && name.find("ref") == std::string::npos;
    }

    /// oneDNN's name of what multiplies this type; empty if nothing does.
    std::string implementation(DType dtype) const {
        std::array<std::byte, std::size_t{64} * 64 * 4> memory;
        Matrix square(reinterpret_cast<float*>(memory.data()), 64, 64);
        square.dtype = dtype;
        try {
            return describe(engine_, {.a = square, .b = square, .c = square}).impl_info_str();
        } catch (const dnnl::error& error) {
            if (error.status == dnnl_unimplemented) return {};
            throw;
        }
    }

private:
    Primitive make(const Gemm& gemm) const {
        // The library crashes if it finds no memory for the code that it generates.
        require_memory(std::int64_t{8} << 20);
        const auto memory = [&](const dnnl::memory::desc& desc) {
            return dnnl::memory(desc, engine_, nullptr);
        };
        const dnnl::matmul::primitive_desc desc = describe(engine_, gemm);
        std::unordered_map<int, dnnl::memory> arguments = {
            {DNNL_ARG_SRC, memory(desc.src_desc())},
            {DNNL_ARG_WEIGHTS, memory(desc.weights_desc())},
            {DNNL_ARG_DST, memory(desc.dst_desc())},
            {DNNL_ARG_SCRATCHPAD, memory(desc.scratchpad_desc())}};
        if (gemm.bias != nullptr) {
            arguments.emplace(DNNL_ARG_BIAS, memory(desc.bias_desc()));
        }
        return {dnnl::matmul(desc), scratch_bytes_of(desc), std::move(arguments)};
    }

    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream_{engine_};
    /// Above the number of shapes that a run has. Texts of any length would make ever more.
    static constexpr std::size_t most_kept = 512;
    std::map<Key, Primitive> made_;
};

Gemms::Gemms()
    : primitives_(std::make_unique<Primitives>()),
      bf16_(primitives_->can_multiply(DType::bf16)),
      independent_rows_(primitives_->implementation(DType::f32).find("brg") != std::string::npos) {}

Gemms::~Gemms() = default;

void Gemms::multiply(const Gemm& gemm, Scratch& scratch) {
    const std::int64_t bytes = scratch_bytes(omp_get_max_threads());
    multiply_within(gemm, {scratch.take_bytes(bytes), static_cast<std::size_t>(bytes)});
}

void Gemms::multiply_within(const Gemm& gemm, std::span<std::byte> scratch) {
    if (gemm.c.rows == 0 || gemm.c.cols == 0) return;
    std::optional<Dim> cut = faster_cut(gemm);
    if (!cut) {
        Primitive& primitive = primitives_->find_or_make(gemm);
        if (primitive.scratch_bytes <= std::ssize(scratch)) {
            primitives_->execute(primitive, gemm, scratch.data());
            return;
        }
        cut = primitives_->cut_of(primitive, gemm);
    }
    const std::int64_t size = size_along(*cut, gemm);
    multiply_within(part_of(gemm, *cut, 0, size / 2), scratch);
    multiply_within(part_of(gemm, *cut, size / 2, size - size / 2), scratch);
}

void Gemms::prepare_threads(int threads) {
    while (std::ssize(by_thread_) < threads)
        by_thread_.push_back(std::make_unique<Primitives>());
}

void Gemms::multiply_alone(int thread, const Gemm& gemm, std::byte* scratch) {
    const OneThread one_thread;
    Primitives& primitives = *by_thread_.at(static_cast<std::size_t>(thread));
    Primitive& primitive = primitives.find_or_make(gemm);
    GPTRAIN_CHECK(primitive.scratch_bytes <= scratch_bytes(1), "oneDNN needs ",
                  primitive.scratch_bytes, " bytes");
    primitives.execute(primitive, gemm, scratch);
}

std::int64_t Gemms::scratch_bytes(int threads) {
    return threads * scratch_per_thread;
}

std::string onednn_version() {
    const dnnl_version_t& version = *dnnl_version();
    return text("oneDNN ", version.major, ".", version.minor, ".", version.patch);
}

}  // namespace gptrain::cpu
