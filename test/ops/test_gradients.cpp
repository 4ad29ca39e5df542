// The reference's backward formulas are the derivatives of its forward ones, by central differences
// in double. Backends agree with the reference (test_cases.cpp), so theirs are as well.
#include <cmath>

#include "catch.h"
#include "host_tensor.h"
#include "reference.h"

namespace gptrain {
namespace {

using Arrays = std::vector<Array>;
/// Outputs from inputs; gradients of the inputs from inputs and the gradient of the output.
using Forward = std::function<Array(const Arrays&)>;
using Backward = std::function<Arrays(const Arrays&, const Array&)>;

constexpr double step = 1e-4;

Array random_array(const Shape& shape, std::uint32_t stream, double deviation = 1,
                   double mean = 0) {
    return to_array(HostTensor(DType::f64, shape, random_values(deviation, mean), stream).tensor());
}

double inner(const Array& a, const Array& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.values().size(); ++i)
        sum += a.values()[i].value * b.values()[i].value;
    return sum;
}

/// Derivative of <d_out, forward(inputs)> by one element, from the values at distance h on both
/// sides.
double difference(const Forward& forward, Arrays inputs, const Array& d_out, std::size_t which,
                  std::size_t element, double h) {
    double& x = inputs[which].values()[element].value;
    const double middle = x;
    x = middle + h;
    const double above = inner(d_out, forward(inputs));
    x = middle - h;
    const double below = inner(d_out, forward(inputs));
    return (above - below) / (2 * h);
}

/// The difference with step h is off by c h^2 + O(h^4), so at most twice as far as it is from the
/// difference with step h / 2. Rounding of the two values comes on top.
void check_gradients(const Forward& forward, const Backward& backward, const Arrays& inputs,
                     std::size_t checked_inputs) {
    const Array out = forward(inputs);
    const Array d_out = random_array(out.shape(), 77);
    const Arrays gradients = backward(inputs, d_out);
    double size = 0;
    for (std::size_t i = 0; i < out.values().size(); ++i) {
        size += std::abs(out.values()[i].value * d_out.values()[i].value);
    }
    const double rounding = 64 * 0x1p-53 * size / step;
    for (std::size_t which = 0; which < checked_inputs; ++which) {
        for (std::size_t i = 0; i < inputs[which].values().size(); ++i) {
            CAPTURE(which, i);
            const double coarse = difference(forward, inputs, d_out, which, i, step);
            const double fine = difference(forward, inputs, d_out, which, i, step / 2);
            const double error = std::abs(gradients[which].values()[i].value - fine);
            CHECK(error <= std::abs(coarse - fine) + rounding);
        }
    }
}

}  // namespace

TEST_CASE("gradient of linear with GELU before it") {
    const Arrays inputs = {random_array({3, 4}, 1), random_array({5, 4}, 2), random_array({5}, 3)};
    const auto forward = [](const Arrays& in) {
        Array x(in[0].shape()), y({3, 5});
        reference::activation_forward(Activation::gelu, in[0], x);
        reference::linear_forward(x, in[1], in[2], y);
        return y;
    };
    const auto backward = [](const Arrays& in, const Array& dy) {
        Array x(in[0].shape()), du(in[0].shape()), dweight({5, 4}), dbias({5});
        reference::activation_forward(Activation::gelu, in[0], x);
        reference::linear_input_grad(dy, in[1], in[0], du);
        reference::linear_weight_grad(x, dy, dweight, dbias);
        return Arrays{du, dweight, dbias};
    };
    check_gradients(forward, backward, inputs, 3);
}

TEST_CASE("gradient of activation functions") {
    for (const auto activation : {Activation::gelu, Activation::gelu_erf, Activation::swiglu,
                                  Activation::clamped_swiglu, Activation::relu}) {
        CAPTURE(activation);
        // Wide enough that some are clamped.
        const double deviation = activation == Activation::clamped_swiglu ? 8 : 2;
        const Arrays inputs = {random_array({2, input_width(activation, 5)}, 1, deviation)};
        const auto forward = [=](const Arrays& in) {
            Array y({2, 5});
            reference::activation_forward(activation, in[0], y);
            return y;
        };
        const auto backward = [=](const Arrays& in, const Array& dy) {
            Array du(in[0].shape());
            reference::activation_backward(activation, in[0], dy, du);
            return Arrays{du};
        };
        check_gradients(forward, backward, inputs, 1);
    }
}

TEST_CASE("gradient of norms behind a sum with dropout") {
    reference::Mask mask;
    mask.dropout.probability = 0.3f;
    for (const bool rms : {false, true}) {
        CAPTURE(rms);
        const reference::NormKind kind = {rms, 1e-3f};
        const Arrays inputs = {random_array({4, 7}, 1, 1, 2), random_array({4, 7}, 2),
                               random_array({7}, 3, 0.5, 1), random_array({7}, 4)};
        const auto sum = [=](const Arrays& in) {
            Array branch = in[1];
            reference::dropout(mask, 2, branch);
            for (std::size_t i = 0; i < branch.values().size(); ++i) {
                branch.values()[i] += in[0].values()[i];
            }
            return branch;
        };
        const auto forward = [=](const Arrays& in) {
            Array n({4, 7}), mean({4}), rstd({4});
            reference::norm_forward(kind, sum(in), in[2], in[3], n, mean, rstd);
            return n;
        };
        const auto backward = [=](const Arrays& in, const Array& dn) {
            Array n({4, 7}), mean({4}), rstd({4}), dr({4, 7}), dweight({7}), dbias({7});
            const Array r = sum(in);
            reference::norm_forward(kind, r, in[2], in[3], n, mean, rstd);
            reference::norm_backward(dn, r, in[2], rms ? Array() : mean, rstd, dr, dweight, dbias);
            Array dy = dr;
            reference::dropout(mask, 2, dy);
            return Arrays{dr, dy, dweight, dbias};
        };
        check_gradients(forward, backward, inputs, 4);
    }
}

TEST_CASE("gradient of norms of heads") {
    const Arrays inputs = {random_array({3, 2, 5}, 1), random_array({5}, 2, 0.5, 1)};
    const auto forward = [](const Arrays& in) {
        Array y({3, 2, 5});
        reference::head_norm_forward(1e-3f, in[0], in[1], y);
        return y;
    };
    const auto backward = [](const Arrays& in, const Array& dy) {
        Array dx({3, 2, 5}), dweight({5});
        reference::head_norm_backward(1e-3f, dy, in[0], in[1], dx, dweight);
        return Arrays{dx, dweight};
    };
    check_gradients(forward, backward, inputs, 2);
}

TEST_CASE("gradient of embedding and rope") {
    const Array ids = to_array(HostTensor(DType::i32, {6}, random_integers(0, 3)).tensor());
    Array positions({2, 3});
    for (std::int64_t i = 0; i < 6; ++i) {
        positions.values()[static_cast<std::size_t>(i)] = static_cast<double>(7 * i);
    }
    const Shape heads = {2, 3, 2, 4};
    const auto rotate = [=](const Array& x, const Shape& shape, bool inverse) {
        Array rotated(shape), result(x.shape().rank() == 2 ? heads : Shape{6, 8});
        Array in_heads(heads);
        in_heads.values() = x.values();
        Rope how;
        how.theta = 100;
        how.inverse = inverse;
        how.scaling = RopeScaling{
            .kind = RopeScalingKind::yarn, .factor = 2, .original_max_position_embeddings = 100};
        reference::rope(in_heads, positions, how);
        rotated.values() = in_heads.values();
        return rotated;
    };
    const auto forward = [=](const Arrays& in) {
        Array x({6, 8});
        reference::embedding_forward(ids, in[0], 0, x);
        return rotate(x, heads, false);
    };
    const auto backward = [=](const Arrays& in, const Array& dx) {
        Array dweight(in[0].shape());
        reference::embedding_backward(ids, rotate(dx, {6, 8}, true), 0, dweight);
        return Arrays{dweight};
    };
    check_gradients(forward, backward, {random_array({3, 8}, 1)}, 1);
}

TEST_CASE("gradient of attention") {
    const auto rule = GENERATE(reference::ScoreRule{}, reference::ScoreRule{.softcap = 1.5},
                               reference::ScoreRule{.alibi = {.heads = 6, .head_begin = 1}},
                               reference::ScoreRule{.softcap = 3, .alibi = {.heads = 4}});
    reference::Mask mask;
    mask.dropout.probability = 0.3f;
    reference::Visibility visibility;
    visibility.q_begin = 4;
    visibility.k_begin = 2;
    visibility.first_visible =
        to_array(HostTensor(DType::i32, {2, 5}, random_integers(0, 6)).tensor());
    const auto input = [=](const Arrays& in) {
        return reference::AttentionInput{in[0], in[1], in[2], visibility, mask, rule};
    };
    const auto forward = [=](const Arrays& in) {
        Array o(in[0].shape()), lse({2, 4, 5});
        reference::attention_forward(input(in), o, lse);
        reference::sink_forward(in[3], o, lse);
        return o;
    };
    const auto backward = [=](const Arrays& in, const Array& d_o) {
        Array o(in[0].shape()), lse({2, 4, 5});
        Array dq(in[0].shape()), dk(in[1].shape()), dv(in[2].shape());
        Array dsinks(in[3].shape());
        reference::attention_forward(input(in), o, lse);
        reference::sink_forward(in[3], o, lse);
        reference::attention_backward(input(in), o, lse, d_o, dq, dk, dv);
        reference::sink_backward(in[3], o, lse, d_o, dsinks);
        return Arrays{dq, dk, dv, dsinks};
    };
    check_gradients(forward, backward,
                    {random_array({2, 5, 4, 3}, 1), random_array({2, 6, 2, 3}, 2),
                     random_array({2, 6, 2, 3}, 3), random_array({4}, 4)},
                    4);
}

TEST_CASE("gradient of cross-entropy") {
    const double softcap = GENERATE(0, 3);
    const Array targets = to_array(HostTensor(DType::i32, {4}, given({2, -9, 0, 6})).tensor());
    const Array weights = to_array(HostTensor(DType::f32, {4}, given({1, 0, 0.5, 2})).tensor());
    const auto forward = [=](const Arrays& in) {
        Array logits = in[0], loss({1});
        if (softcap > 0) reference::soft_cap(logits, softcap);
        reference::cross_entropy(logits, targets, weights, false, 1, loss(0));
        return loss;
    };
    const auto backward = [=](const Arrays& in, const Array& d_loss) {
        Array logits = in[0];
        Bounded loss;
        if (softcap > 0) reference::soft_cap(logits, softcap);
        reference::cross_entropy(logits, targets, weights, true, d_loss(0).value, loss, softcap);
        return Arrays{logits};
    };
    check_gradients(forward, backward, {random_array({4, 7}, 1, 2)}, 1);
}

}  // namespace gptrain
