#include "reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gptrain::reference {

Bounded logistic(const Bounded& x) {
    return 1.0 / (1.0 + exp(-x));
}

namespace {

/// sqrt(2 / pi) (u + 0.044715 u^3)
Bounded gelu_argument(const Bounded& u) {
    return rounded(std::sqrt(2 / std::numbers::pi)) * (u + rounded(0.044715) * u * u * u);
}

Bounded gelu(const Bounded& u) {
    return 0.5 * u * (1.0 + tanh(gelu_argument(u)));
}

/// `tanh_roundoff`: the tanh's error in addition to fp32's own.
Bounded gelu_slope(const Bounded& u, double tanh_roundoff = 0) {
    Bounded t = tanh(gelu_argument(u));
    t.bound += tanh_roundoff * std::abs(t.value);
    const Bounded argument_slope =
        rounded(std::sqrt(2 / std::numbers::pi)) * (1.0 + rounded(3 * 0.044715) * u * u);
    return 0.5 * (1.0 + t) + 0.5 * u * (1.0 - t * t) * argument_slope;
}

/// The normal distribution.
Bounded normal(const Bounded& u) {
    return 0.5 * erfc(-u * rounded(std::numbers::sqrt2 / 2));
}

/// Values of an activation without a gate.
Bounded ungated(Activation activation, const Bounded& u) {
    if (activation == Activation::relu) return u.value > 0 ? u : Bounded(0);
    if (activation == Activation::relu2) return u.value > 0 ? u * u : Bounded(0);
    return activation == Activation::gelu_erf ? u * normal(u) : gelu(u);
}

Bounded ungated_slope(Activation activation, const Bounded& u) {
    if (activation == Activation::relu) return Bounded(u.value > 0 ? 1 : 0);
    if (activation == Activation::relu2) return u.value > 0 ? 2.0 * u : Bounded(0);
    if (activation != Activation::gelu_erf) return gelu_slope(u);
    const Bounded density =
        rounded(std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2) * exp(-(0.5 * u * u));
    return normal(u) + u * density;
}

/// An activation with a gate, and its slopes in both inputs.
struct Gated {
    Bounded value;
    Bounded up_slope;
    Bounded gate_slope;
};

Gated swiglu(const Bounded& up, const Bounded& gate) {
    const Bounded s = logistic(gate);
    return {gate * s * up, gate * s, up * (s * (1.0 + gate * (1.0 - s)))};
}

Gated clamped_swiglu(const Bounded& up, const Bounded& gate) {
    const Bounded u = std::clamp(up.value, -7.0, 7.0);
    const Bounded g = std::min(gate.value, 7.0);
    const Bounded steep = rounded(1.702) * g;
    const Bounded s = logistic(steep);
    const bool passes_up = std::abs(up.value) <= 7;
    const bool passes_gate = gate.value <= 7;
    return {g * s * (u + 1.0), passes_up ? g * s : Bounded(0),
            passes_gate ? (u + 1.0) * (s * (1.0 + steep * (1.0 - s))) : Bounded(0)};
}

Gated geglu(const Bounded& up, const Bounded& gate) {
    const Bounded of_gate = gelu(gate);
    return {of_gate * up, of_gate, up * gelu_slope(gate)};
}

Gated with_gate(Activation activation, const Bounded& up, const Bounded& gate) {
    if (activation == Activation::geglu) return geglu(up, gate);
    return activation == Activation::swiglu ? swiglu(up, gate) : clamped_swiglu(up, gate);
}

}  // namespace

// ---- linear layers ----

void linear_forward(const Array& x, const Array& weight, const Array& bias, Array& y,
                    Result result) {
    for (std::int64_t t = 0; t < y.size(0); ++t) {
        for (std::int64_t o = 0; o < y.size(1); ++o) {
            Sum sum;
            if (result == Result::added) sum.add(y(t, o));
            for (std::int64_t i = 0; i < x.size(1); ++i)
                sum.add(x(t, i) * weight(o, i));
            if (!bias.empty()) sum.add(bias(o));
            y(t, o) = sum.result();
        }
    }
}

void linear_input_grad(const Array& dy, const Array& weight, const Array& gelu_input, Array& dx,
                       Result result) {
    for (std::int64_t t = 0; t < dx.size(0); ++t) {
        for (std::int64_t i = 0; i < dx.size(1); ++i) {
            Sum sum;
            if (result == Result::added) sum.add(dx(t, i));
            for (std::int64_t o = 0; o < dy.size(1); ++o)
                sum.add(dy(t, o) * weight(o, i));
            dx(t, i) = sum.result();
            if (gelu_input.empty()) continue;
            const bool narrow = size_of(dx.dtype()) < 4;
            const double tanh_roundoff = narrow ? library_tanh_roundoff : 0;
            const Bounded product = narrow ? stored(dx(t, i), dx.dtype()) : dx(t, i);
            dx(t, i) = product * gelu_slope(gelu_input(t, i), tanh_roundoff);
        }
    }
}

void linear_weight_grad(const Array& x, const Array& dy, Array& dweight, Array& dbias,
                        Result result) {
    for (std::int64_t o = 0; o < dy.size(1); ++o) {
        for (std::int64_t i = 0; i < x.size(1); ++i) {
            Sum sum;
            if (result == Result::added) sum.add(dweight(o, i));
            for (std::int64_t t = 0; t < x.size(0); ++t)
                sum.add(dy(t, o) * x(t, i));
            dweight(o, i) = sum.result();
        }
    }
    if (!dbias.empty()) bias_grad(dy, dbias);
}

void bias_grad(const Array& dy, Array& dbias) {
    for (std::int64_t o = 0; o < dy.size(1); ++o) {
        Sum sum;
        sum.add(dbias(o));
        for (std::int64_t t = 0; t < dy.size(0); ++t)
            sum.add(dy(t, o));
        dbias(o) = sum.result();
    }
}

void add_bias(Array& y, const Array& bias) {
    for (std::int64_t t = 0; t < y.size(0); ++t) {
        for (std::int64_t h = 0; h < y.size(1); ++h)
            y(t, h) += bias(h);
    }
}

// ---- dropout ----

Bounded Mask::factor(std::int64_t sequence, std::int64_t position, std::int64_t head,
                     std::int64_t index) const {
    if (dropout.probability == 0) return 1.0;
    const PhiloxKey key = dropout_key(dropout.seed, step, dropout.site, dropout.layer);
    const PhiloxBlock words = dropout_words(key, first_sequence + sequence, position,
                                            dropout.head_begin + head, index / 4);
    if (words[static_cast<std::size_t>(index % 4)] < dropout_threshold(dropout.probability))
        return 0.0;
    return rounded(1 / (1 - static_cast<double>(dropout.probability)));
}

void dropout(const Mask& mask, std::int64_t seq_length, Array& x) {
    if (mask.dropout.probability == 0) return;
    for (std::int64_t t = 0; t < x.size(0); ++t) {
        const std::int64_t position = mask.dropout.rows.position(t % seq_length);
        for (std::int64_t h = 0; h < x.size(1); ++h) {
            const Bounded factor =
                mask.factor(t / seq_length, position, 0, mask.dropout.feature_begin + h);
            x(t, h) = factor.value == 0 ? Bounded(0.0) : x(t, h) * factor;
        }
    }
}

// ---- norms ----

void norm_forward(const NormKind& kind, const Array& r, const Array& weight, const Array& bias,
                  Array& n, Array& mean, Array& rstd) {
    const Bounded hidden = static_cast<double>(r.size(1));
    for (std::int64_t t = 0; t < r.size(0); ++t) {
        Sum sum;
        for (std::int64_t h = 0; h < r.size(1); ++h)
            sum.add(r(t, h));
        const Bounded center = kind.rms ? Bounded(0.0) : sum.result() / hidden;
        Sum squares;
        for (std::int64_t h = 0; h < r.size(1); ++h) {
            const Bounded d = r(t, h) - center;
            squares.add(d * d);
        }
        const Bounded scale =
            1.0 / sqrt(squares.result() / hidden + Bounded(static_cast<double>(kind.eps)));
        for (std::int64_t h = 0; h < r.size(1); ++h) {
            n(t, h) = (r(t, h) - center) * scale * weight(h);
            if (!bias.empty()) n(t, h) += bias(h);
        }
        if (!kind.rms) mean(t) = center;
        rstd(t) = scale;
    }
}

void norm_backward(const Array& dn, const Array& r, const Array& weight, const Array& mean,
                   const Array& rstd, Array& dr, Array& dweight, Array& dbias) {
    const std::int64_t hidden = r.size(1);
    const Bounded count = static_cast<double>(hidden);
    std::vector<Sum> dweight_sums(static_cast<std::size_t>(hidden));
    std::vector<Bounded> x(
        static_cast<std::size_t>(hidden));  // the norm's input, centred and scaled
    for (std::int64_t t = 0; t < r.size(0); ++t) {
        Sum gradients;
        Sum projections;
        for (std::int64_t h = 0; h < hidden; ++h) {
            const auto at = static_cast<std::size_t>(h);
            x[at] = (mean.empty() ? r(t, h) : r(t, h) - mean(t)) * rstd(t);
            gradients.add(dn(t, h) * weight(h));
            projections.add(dn(t, h) * weight(h) * x[at]);
            dweight_sums[at].add(dn(t, h) * x[at]);
        }
        const Bounded shift = mean.empty() ? Bounded(0.0) : gradients.result() / count;
        const Bounded projection = projections.result() / count;
        for (std::int64_t h = 0; h < hidden; ++h) {
            const Bounded along = x[static_cast<std::size_t>(h)] * projection;
            dr(t, h) += rstd(t) * (dn(t, h) * weight(h) - shift - along);
        }
    }
    for (std::int64_t h = 0; h < hidden && !dweight.empty(); ++h) {
        Sum& sum = dweight_sums[static_cast<std::size_t>(h)];
        sum.add(dweight(h));
        dweight(h) = sum.result();
    }
    if (!dbias.empty()) bias_grad(dn, dbias);
}

namespace {

Bounded head_rstd(const Array& x, float eps, std::int64_t t, std::int64_t n) {
    Sum squares;
    for (std::int64_t i = 0; i < x.size(2); ++i)
        squares.add(x(t, n, i) * x(t, n, i));
    const Bounded count = static_cast<double>(x.size(2));
    return 1.0 / sqrt(squares.result() / count + Bounded(static_cast<double>(eps)));
}

}  // namespace

void head_norm_forward(float eps, const Array& x, const Array& weight, Array& y) {
    for (std::int64_t t = 0; t < x.size(0); ++t) {
        for (std::int64_t n = 0; n < x.size(1); ++n) {
            const Bounded rstd = head_rstd(x, eps, t, n);
            for (std::int64_t i = 0; i < x.size(2); ++i)
                y(t, n, i) = x(t, n, i) * rstd * weight(i);
        }
    }
}

void head_norm_backward(float eps, const Array& dy, const Array& x, const Array& weight, Array& dx,
                        Array& dweight) {
    const std::int64_t dim = x.size(2);
    std::vector<Sum> sums(static_cast<std::size_t>(dim));
    for (std::int64_t t = 0; t < x.size(0); ++t) {
        for (std::int64_t n = 0; n < x.size(1); ++n) {
            const Bounded rstd = head_rstd(x, eps, t, n);
            Sum projections;
            for (std::int64_t i = 0; i < dim; ++i) {
                const Bounded normalised = x(t, n, i) * rstd;
                projections.add(dy(t, n, i) * weight(i) * normalised);
                sums[static_cast<std::size_t>(i)].add(dy(t, n, i) * normalised);
            }
            const Bounded projection = projections.result() / Bounded(static_cast<double>(dim));
            for (std::int64_t i = 0; i < dim; ++i)
                dx(t, n, i) = rstd * (dy(t, n, i) * weight(i) - x(t, n, i) * rstd * projection);
        }
    }
    for (std::int64_t i = 0; i < dim && !dweight.empty(); ++i) {
        sums[static_cast<std::size_t>(i)].add(dweight(i));
        dweight(i) = sums[static_cast<std::size_t>(i)].result();
    }
}

// ---- activation functions ----

void activation_forward(Activation activation, const Array& u, Array& y) {
    const std::int64_t ffn = y.size(1);
    for (std::int64_t t = 0; t < y.size(0); ++t) {
        for (std::int64_t f = 0; f < ffn; ++f) {
            y(t, f) = gated(activation) ? with_gate(activation, u(t, f), u(t, ffn + f)).value
                                        : ungated(activation, u(t, f));
        }
    }
}

void activation_backward(Activation activation, const Array& u, const Array& dy, Array& du) {
    const std::int64_t ffn = dy.size(1);
    for (std::int64_t t = 0; t < dy.size(0); ++t) {
        for (std::int64_t f = 0; f < ffn; ++f) {
            const Bounded gradient = dy(t, f);
            if (!gated(activation)) {
                du(t, f) = gradient * ungated_slope(activation, u(t, f));
                continue;
            }
            const Gated at = with_gate(activation, u(t, f), u(t, ffn + f));
            du(t, f) = gradient * at.up_slope;
            du(t, ffn + f) = gradient * at.gate_slope;
        }
    }
}

// ---- embeddings and positions ----

void embedding_forward(const Array& ids, const Array& weight, std::int64_t vocab_begin, Array& x) {
    for (std::int64_t t = 0; t < x.size(0); ++t) {
        const std::int64_t row = ids.integer(t) - vocab_begin;
        const bool local = row >= 0 && row < weight.size(0);
        for (std::int64_t h = 0; h < x.size(1); ++h)
            x(t, h) = local ? weight(row, h) : Bounded(0.0);
    }
}

void embedding_backward(const Array& ids, const Array& dx, std::int64_t vocab_begin,
                        Array& dweight) {
    for (std::int64_t row = 0; row < dweight.size(0); ++row) {
        for (std::int64_t h = 0; h < dweight.size(1); ++h) {
            Sum sum;
            sum.add(dweight(row, h));
            for (std::int64_t t = 0; t < dx.size(0); ++t) {
                if (ids.integer(t) - vocab_begin == row) sum.add(dx(t, h));
            }
            dweight(row, h) = sum.result();
        }
    }
}

void rope(Array& x, const Array& positions, const Rope& how) {
    const std::int64_t half = x.size(3) / 2;
    const RopeAngles angles(how.theta, 2 * half, how.scaling);
    const double amplitude = angles.amplitude();
    for (std::int64_t b = 0; b < x.size(0); ++b) {
        for (std::int64_t s = 0; s < x.size(1); ++s) {
            for (std::int64_t i = 0; i < half; ++i) {
                const double angle = positions(b, s).value * angles.frequency(i);
                const double sign = how.inverse ? -1 : 1;
                const Bounded cosine = rounded(amplitude * std::cos(angle));
                const Bounded sine = rounded(amplitude * sign * std::sin(angle));
                for (std::int64_t n = 0; n < x.size(2); ++n) {
                    const Bounded first = x(b, s, n, i);
                    const Bounded second = x(b, s, n, i + half);
                    x(b, s, n, i) = first * cosine - second * sine;
                    x(b, s, n, i + half) = second * cosine + first * sine;
                }
            }
        }
    }
}

}  // namespace gptrain::reference
