#include "meter/meter_backend.h"

#include <algorithm>
#include <cstring>

namespace gptrain {
namespace {

double gemm_flops(std::int64_t rows, std::int64_t cols, std::int64_t length) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(cols) *
           static_cast<double>(length);
}

/// Query-key pairs that the causal mask leaves visible, in one sequence and head.
double visible_pairs(const AttentionForward& args) {
    const std::int64_t queries = args.q.size(1);
    const std::int64_t keys = args.k.size(1);
    // Query i sees n_i = clamp(q_begin + i - k_begin + 1, 0, keys) keys: a ramp, then a plateau.
    const std::int64_t ramp_start =
        std::clamp<std::int64_t>(args.k_begin - args.q_begin, 0, queries);
    const std::int64_t ramp_end =
        std::clamp<std::int64_t>(args.k_begin - args.q_begin + keys, ramp_start, queries);
    const std::int64_t first = args.q_begin + ramp_start - args.k_begin + 1;
    const std::int64_t count = ramp_end - ramp_start;
    const double ramp = static_cast<double>(count) * static_cast<double>(2 * first + count - 1) / 2;
    return ramp + static_cast<double>(queries - ramp_end) * static_cast<double>(keys);
}

double attention_flops(const AttentionForward& args, int gemms) {
    const double heads = static_cast<double>(args.q.size(0) * args.q.size(2));
    return 2.0 * gemms * heads * static_cast<double>(args.q.size(3)) * visible_pairs(args);
}

}  // namespace

Buffer MeterBackend::allocate(std::int64_t bytes, MemorySpace space) {
    // Any aligned address other than null will do: it is never dereferenced.
    return Buffer(*this, space, reinterpret_cast<std::byte*>(Arena::alignment), bytes);
}

void MeterBackend::download(std::span<std::byte> to, const Tensor& /*from*/) {
    std::memset(to.data(), 0, to.size());
}

void MeterBackend::on(const LinearForward& op) {
    linear_ops_.emplace(op);
    const std::int64_t inputs = (op.x8.empty() ? op.x : op.x8.rows).size(1);
    work_.gemms += gemm_flops(op.y.size(0), op.y.size(1), inputs);
}

void MeterBackend::on(const LinearInputGrad& op) {
    linear_ops_.emplace(op);
    const std::int64_t outputs = (op.dy8.empty() ? op.dy : op.dy8.rows).size(1);
    work_.gemms += gemm_flops(op.dx.size(0), op.dx.size(1), outputs);
}

void MeterBackend::on(const LinearWeightGrad& op) {
    linear_ops_.emplace(op);
    const std::int64_t tokens = op.x8.empty() ? op.x.size(0) : op.x8.columns.size(1);
    work_.gemms += gemm_flops(op.dweight.size(0), op.dweight.size(1), tokens);
}

void MeterBackend::on(const AttentionForward& op) {
    work_.attention += attention_flops(op, 2);
}

void MeterBackend::on(const AttentionBackward& op) {
    // Five GEMMs: scores again, dP, dQ, dK, dV.
    work_.attention += attention_flops(op.forward, 5);
}

void MeterBackend::on(const AdamW& op) {
    for (const AdamWPiece& piece : op.pieces) {
        work_.updates += static_cast<double>(piece.main_param.elements());
    }
}

}  // namespace gptrain
