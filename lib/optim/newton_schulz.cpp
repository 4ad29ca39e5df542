#include "optim/newton_schulz.h"

#include <algorithm>

namespace gptrain {
namespace {

constexpr int iterations = 5;
constexpr float linear_term = 3.4445f;
constexpr float cubic_term = -4.7750f;
constexpr float quintic_term = 2.0315f;

/// The iteration on a wide matrix, or on a tall one.
class NewtonSchulz {
public:
    NewtonSchulz(Backend& backend, Arena& workspace, const Tensor& x)
        : backend_(backend), x_(x), tall_(x.size(0) > x.size(1)) {
        const std::int64_t k = std::min(x.size(0), x.size(1));
        if (tall_) sums_ = workspace.allocate(DType::f32, {k, k});
        gram_ = workspace.allocate(x.dtype(), {k, k});
        polynomial_ = workspace.allocate(x.dtype(), {k, k});
        product_ = workspace.allocate(x.dtype(), x.shape());
    }

    void iterate() {
        find_gram();
        // The Gram matrix is symmetric.
        multiply(gram_, gram_, polynomial_);
        backend_.run(Combine{.x = polynomial_, .y = gram_, .a = quintic_term, .b = cubic_term});
        if (tall_) {
            multiply(x_, polynomial_, product_);
        } else {
            backend_.run(
                LinearInputGrad{.dy = polynomial_, .weight = x_, .gelu_input = {}, .dx = product_});
        }
        backend_.run(Combine{.x = x_, .y = product_, .a = linear_term, .b = 1});
    }

private:
    /// y = x weight^T
    void multiply(const Tensor& x, const Tensor& weight, const Tensor& y) {
        backend_.run(LinearForward{.x = x, .weight = weight, .bias = {}, .y = y});
    }
    /// gram = X X^T, or X^T X of a tall matrix
    void find_gram() {
        if (!tall_) return multiply(x_, x_, gram_);
        backend_.run(LinearWeightGrad{
            .x = x_, .dy = x_, .dweight = sums_, .dbias = {}, .accumulate = false});
        backend_.run(Cast{.to = gram_, .from = sums_});
    }

    Backend& backend_;
    Tensor x_;
    bool tall_;
    Tensor sums_;  ///< fp32
    Tensor gram_;
    Tensor polynomial_;
    Tensor product_;
};

}  // namespace

void orthogonalise(Backend& backend, Arena& workspace, const Tensor& x) {
    const ArenaFrame frame(workspace);
    NewtonSchulz newton_schulz(backend, workspace, x);
    for (int i = 0; i < iterations; ++i)
        newton_schulz.iterate();
}

}  // namespace gptrain
