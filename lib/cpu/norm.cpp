#include "cpu/norm.h"

#include <vector>

#include "cpu/dropout_mask.h"
#include "cpu/fp8.h"
#include "cpu/parallel.h"
#include "cpu/row_blocks.h"
#include "cpu/row_kernels.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// r_out = round(r + dropout(y)) for rows of the residual stream.
template <class T>
class ResidualSum {
public:
    /// Has no sum if y is empty.
    ResidualSum(const Tensor& y, const Dropout& dropout, std::int64_t seq_length,
                const Tensor& r_out)
        : y_(pointer_or_null<T>(y)),
          r_out_(pointer_or_null<T>(r_out)),
          mask_(dropout),
          seq_length_(seq_length) {}

    /// Returns row t of the sum, or of r if there is no sum.
    const T* row(const T* r, std::int64_t t, std::int64_t hidden) const {
        const std::int64_t at = t * hidden;
        if (y_ == nullptr) return r + at;
        if (!mask_.on()) {
            row_kernels<T>().add(r + at, y_ + at, r_out_ + at, hidden);
            return r_out_ + at;
        }
        for_dropped_vectors(mask_, t, seq_length_, 0, hidden,
                            [&](std::int64_t h, auto lanes, Vec8 factor) {
                                const Vec8 branch = load(y_ + at + h, lanes) * factor;
                                store(r_out_ + at + h, load(r + at + h, lanes) + branch, lanes);
                            });
        return r_out_ + at;
    }

private:
    const T* y_;
    T* r_out_;
    DropoutMask mask_;
    std::int64_t seq_length_;
};

template <class T>
void forward(const ResidualNormForward& args) {
    const std::int64_t hidden = args.r.size(1);
    const ResidualSum<T> sum(args.y, args.dropout, args.seq_length, args.r_out);
    const T* r = args.r.as<T>();
    T* n = pointer_or_null<T>(args.n);
    const T* weight = args.norm.weight.as<T>();
    const T* bias = pointer_or_null<T>(args.norm.bias);
    float* mean = pointer_or_null<float>(args.mean);
    auto* rstd = args.rstd.as<float>();
    const RowKernels<T>& kernels = row_kernels<T>();

    parallel_ranges(args.r.size(0), 4 * hidden, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<T> own(static_cast<std::size_t>(n == nullptr ? hidden : 0));
        for (std::int64_t t = begin; t < end; ++t) {
            const T* row = sum.row(r, t, hidden);
            const Moments moments = kernels.moments(row, hidden, args.norm.rms, args.norm.eps);
            if (mean != nullptr) mean[t] = moments.mean;
            rstd[t] = moments.rstd;
            T* to = n == nullptr ? own.data() : n + t * hidden;
            kernels.normalise(row, moments, weight, bias, to, hidden);
            if (!args.n8.empty()) to_fp8_row(to, args.n8, t);
        }
    });
}

/// One row of the backward pass, and where its parts of dweight and dbias go.
template <class T>
struct BackwardRow {
    const T* dn;
    const T* r;
    const T* weight;
    Moments moments;
    float* dweight;
    float* dbias;  ///< may be null

    Vec8 normalised(std::int64_t h, auto lanes) const {
        return (load(r + h, lanes) - Vec8(moments.mean)) * Vec8(moments.rstd);
    }

    struct Means {
        float gradient;    ///< of dn weight
        float projection;  ///< of dn weight times the normalised input
    };

    /// Adds to dweight and dbias. Returns means of the row.
    Means add_parameters(std::int64_t hidden) const {
        Vec8 gradients = 0.0f;
        Vec8 projections = 0.0f;
        for_vectors(0, hidden, [&](std::int64_t h, auto lanes) {
            const Vec8 x = normalised(h, lanes);
            const Vec8 g = load(dn + h, lanes);
            const Vec8 gw = g * load(weight + h, lanes);
            gradients = gradients + gw;
            projections = fma(gw, x, projections);
            store(dweight + h, fma(g, x, load(dweight + h, lanes)), lanes);
            if (dbias != nullptr) store(dbias + h, g + load(dbias + h, lanes), lanes);
        });
        const auto count = static_cast<float>(hidden);
        return {gradients.sum() / count, projections.sum() / count};
    }
};

template <class T>
void backward(const ResidualNormBackward& args, Scratch& scratch) {
    const std::int64_t tokens = args.r.size(0);
    const std::int64_t hidden = args.r.size(1);
    const DropoutMask mask(args.dropout);
    const T* dn = args.dn.as<T>();
    const T* r = args.r.as<T>();
    const T* weight = args.norm.weight.as<T>();
    const float* mean = args.norm.rms ? nullptr : args.mean.as<float>();
    const float* rstd = args.rstd.as<float>();
    T* dr = args.dr.as<T>();
    T* dy = pointer_or_null<T>(args.dy);
    const bool with_bias = !args.dbias.empty();
    const std::int64_t blocks = row_blocks(tokens);
    auto* parts = scratch.take<float>(blocks * 2 * hidden);

    parallel_items(blocks, tokens / blocks * hidden * 4, [&](std::int64_t block) {
        float* dweight = parts + block * 2 * hidden;
        float* dbias = dweight + hidden;
        std::fill(dweight, dweight + 2 * hidden, 0.0f);
        for (std::int64_t t = tokens * block / blocks; t < tokens * (block + 1) / blocks; ++t) {
            const std::int64_t at = t * hidden;
            const Moments moments = {mean == nullptr ? 0 : mean[t], rstd[t]};
            const BackwardRow<T> row = {dn + at, r + at,  weight,
                                        moments, dweight, with_bias ? dbias : nullptr};
            const auto means = row.add_parameters(hidden);
            const Vec8 shift = args.norm.rms ? 0.0f : means.gradient;
            const Vec8 projection = means.projection;
            for_dropped_vectors(
                mask, t, args.seq_length, 0, hidden, [&](std::int64_t h, auto lanes, Vec8 factor) {
                    const Vec8 gw = load(dn + at + h, lanes) * load(weight + h, lanes);
                    const Vec8 along = row.normalised(h, lanes) * projection;
                    const Vec8 own = Vec8(moments.rstd) * (gw - shift - along);
                    const Vec8 sum = args.accumulate ? load(dr + at + h, lanes) + own : own;
                    store(dr + at + h, sum, lanes);
                    if (dy != nullptr) {
                        store(dy + at + h, stored_as<T>(sum) * factor, lanes);
                    }
                });
        }
    });
    if (!args.dweight.empty())
        add_parts(parts, blocks, 2 * hidden, hidden, args.dweight.as<float>());
    if (with_bias) {
        add_parts(parts + hidden, blocks, 2 * hidden, hidden, args.dbias.as<float>());
    }
}

}  // namespace

void run(const ResidualAdd& args) {
    const std::int64_t hidden = args.r.size(1);
    with_compute_type(args.r.dtype(), [&](auto type) {
        using T = decltype(type);
        const ResidualSum<T> sum(args.y, args.dropout, args.seq_length, args.r_out);
        const T* r = args.r.as<T>();
        parallel_ranges(args.r.size(0), 4 * hidden, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t t = begin; t < end; ++t)
                sum.row(r, t, hidden);
        });
    });
}

void run(const ResidualNormForward& args) {
    with_compute_type(args.r.dtype(), [&](auto type) { forward<decltype(type)>(args); });
    if (!args.amax.empty()) run(UpdateAmax{.x = args.n, .amax = args.amax});
}

void run(const ResidualNormBackward& args, Scratch& scratch) {
    with_compute_type(args.r.dtype(), [&](auto type) { backward<decltype(type)>(args, scratch); });
    const Tensor& dy = args.dy.empty() ? args.dr : args.dy;
    if (!args.amax.empty()) run(UpdateAmax{.x = dy, .amax = args.amax});
    if (!args.dy8.empty()) run(ToFp8Rows{.x = dy, .out = args.dy8});
}

void run(const ApplyDropout& args) {
    const std::int64_t hidden = args.x.size(1);
    const DropoutMask mask(args.dropout);
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const T* x = args.x.as<T>();
        T* y = args.y.as<T>();
        parallel_ranges(args.x.size(0), 4 * hidden, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t t = begin; t < end; ++t) {
                for_dropped_vectors(mask, t, args.seq_length, 0, hidden,
                                    [&](std::int64_t h, auto lanes, Vec8 factor) {
                                        const Vec8 value = load(x + t * hidden + h, lanes);
                                        store(y + t * hidden + h, value * factor, lanes);
                                    });
            }
        });
    });
    if (!args.amax.empty()) run(UpdateAmax{.x = args.y, .amax = args.amax});
}

std::int64_t norm_scratch_bytes(std::int64_t tokens, std::int64_t hidden) {
    return Scratch::bytes_of<float>(row_blocks(tokens) * 2 * hidden);
}

}  // namespace gptrain::cpu
