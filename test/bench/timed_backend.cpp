#include "timed_backend.h"

namespace gptrain::bench {

std::map<std::string, double> TimedBackend::take_times() {
    synchronize();
    std::map<std::string, double> times;
    for (std::size_t i = 0; i < used_; ++i)
        times[intervals_[i].op] += intervals_[i].end.milliseconds_since(intervals_[i].start);
    used_ = 0;
    return times;
}

void TimedBackend::copy(const Tensor& to, const Tensor& from) {
    run("copy", [&] { inner_.copy(to, from); });
}
void TimedBackend::upload(const Tensor& to, std::span<const std::byte> from) {
    run("upload", [&] { inner_.upload(to, from); });
}
void TimedBackend::fill(const Tensor& x, float value) {
    run("fill", [&] { inner_.fill(x, value); });
}
void TimedBackend::cast(const Tensor& to, const Tensor& from) {
    run("cast", [&] { inner_.cast(to, from); });
}
void TimedBackend::init_normal(const Tensor& x, const Shard& shard, std::uint64_t seed, float std) {
    run("init_normal", [&] { inner_.init_normal(x, shard, seed, std); });
}
void TimedBackend::update_amax(const Tensor& x, const Tensor& amax) {
    run("update_amax", [&] { inner_.update_amax(x, amax); });
}
void TimedBackend::to_fp8(const ToFp8& args) {
    run("to_fp8", [&] { inner_.to_fp8(args); });
}
void TimedBackend::linear_forward(const LinearForward& args) {
    // A gelu behind it is timed as what it is.
    LinearForward product = args;
    product.gelu = {};
    run("linear_forward", [&] { inner_.linear_forward(product); });
    if (!args.gelu.empty()) activation_forward({.u = args.y, .y = args.gelu});
}
void TimedBackend::linear_input_grad(const LinearInputGrad& args) {
    run("linear_input_grad", [&] { inner_.linear_input_grad(args); });
}
void TimedBackend::linear_weight_grad(const LinearWeightGrad& args) {
    run("linear_weight_grad", [&] { inner_.linear_weight_grad(args); });
}
void TimedBackend::bias_grad(const Tensor& dy, const Tensor& dbias) {
    run("bias_grad", [&] { inner_.bias_grad(dy, dbias); });
}
void TimedBackend::add_bias(const Tensor& y, const Tensor& bias) {
    run("add_bias", [&] { inner_.add_bias(y, bias); });
}
void TimedBackend::residual_norm_forward(const ResidualNormForward& args) {
    run("residual_norm_forward", [&] { inner_.residual_norm_forward(args); });
}
void TimedBackend::residual_norm_backward(const ResidualNormBackward& args) {
    run("residual_norm_backward", [&] { inner_.residual_norm_backward(args); });
}
void TimedBackend::dropout_backward(const DropoutBackward& args) {
    run("dropout_backward", [&] { inner_.dropout_backward(args); });
}
void TimedBackend::activation_forward(const ActivationForward& args) {
    run("activation_forward", [&] { inner_.activation_forward(args); });
}
void TimedBackend::activation_backward(const ActivationBackward& args) {
    run("activation_backward", [&] { inner_.activation_backward(args); });
}
void TimedBackend::embedding_forward(const EmbeddingForward& args) {
    run("embedding_forward", [&] { inner_.embedding_forward(args); });
}
void TimedBackend::embedding_backward(const EmbeddingBackward& args) {
    run("embedding_backward", [&] { inner_.embedding_backward(args); });
}
void TimedBackend::position_forward(const PositionForward& args) {
    run("position_forward", [&] { inner_.position_forward(args); });
}
void TimedBackend::position_backward(const PositionBackward& args) {
    run("position_backward", [&] { inner_.position_backward(args); });
}
void TimedBackend::rope(const Rope& args) {
    run("rope", [&] { inner_.rope(args); });
}
void TimedBackend::attention_forward(const AttentionForward& args) {
    run("attention_forward", [&] { inner_.attention_forward(args); });
}
void TimedBackend::attention_backward(const AttentionBackward& args) {
    run("attention_backward", [&] { inner_.attention_backward(args); });
}
void TimedBackend::merge_attention(const MergeAttention& args) {
    run("merge_attention", [&] { inner_.merge_attention(args); });
}
void TimedBackend::cross_entropy(const CrossEntropy& args) {
    run("cross_entropy", [&] { inner_.cross_entropy(args); });
}
void TimedBackend::vocab_parallel_maximum(const VocabParallelCrossEntropy& args) {
    run("vocab_parallel_maximum", [&] { inner_.vocab_parallel_maximum(args); });
}
void TimedBackend::vocab_parallel_sums(const VocabParallelCrossEntropy& args) {
    run("vocab_parallel_sums", [&] { inner_.vocab_parallel_sums(args); });
}
void TimedBackend::vocab_parallel_gradient(const VocabParallelCrossEntropy& args) {
    run("vocab_parallel_gradient", [&] { inner_.vocab_parallel_gradient(args); });
}
void TimedBackend::begin_step(const StepRef& step, const StepState& given) {
    run("begin_step", [&] { inner_.begin_step(step, given); });
}
void TimedBackend::check_loss(const StepRef& step) {
    run("check_loss", [&] { inner_.check_loss(step); });
}
void TimedBackend::checksum(const Tensor& x, const Tensor& sum) {
    run("checksum", [&] { inner_.checksum(x, sum); });
}
void TimedBackend::sum_rows(const Tensor& to, const Tensor& rows) {
    run("sum_rows", [&] { inner_.sum_rows(to, rows); });
}
void TimedBackend::square_sum(std::span<const Tensor> tensors, const Tensor& total) {
    run("square_sum", [&] { inner_.square_sum(tensors, total); });
}
void TimedBackend::decide_step(const StepRef& step, const StepPolicy& policy) {
    run("decide_step", [&] { inner_.decide_step(step, policy); });
}
void TimedBackend::find_not_finite(std::span<const Tensor> tensors, const StepRef& step) {
    run("find_not_finite", [&] { inner_.find_not_finite(tensors, step); });
}
void TimedBackend::adamw(std::span<const AdamWPiece> pieces, const AdamWConstants& constants,
                         const StepRef& step) {
    run("adamw", [&] { inner_.adamw(pieces, constants, step); });
}

}  // namespace gptrain::bench
