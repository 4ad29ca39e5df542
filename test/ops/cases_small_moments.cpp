// AdamW with moments in bf16 or 8 bits, and with bf16 main parameters. Every rounding is part of
// the contract, so the reference computes in fp32 and nothing may differ.
#include <algorithm>
#include <bit>
#include <cmath>

#include "cases.h"

namespace gptrain {
namespace {

constexpr std::int64_t block = 256;
constexpr std::uint64_t rounding_seed = 77;
constexpr std::int64_t step_number = 5;

/// The tensors that an op updates, and where their elements are in the whole tensor.
struct SmallPiece {
    Shape global;
    Box box;
    std::int64_t flat_begin, flat_end;
    bool decay = true;
    std::int64_t gap = 0;  ///< elements before it in its storages, which decides their alignment
    Operand main_param = none, main_grad = none, exp_avg = none, exp_avg_sq = none, weight = none;
    Operand exp_avg_scales = none, exp_avg_sq_scales = none;
    std::int64_t length() const { return flat_end - flat_begin; }
    std::int64_t blocks() const { return (length() + block - 1) / block; }
    Shard shard() const { return {"h.3.mlp.fc.weight", global, box, flat_begin, flat_end, true}; }
};

SmallPiece flat(std::int64_t length, std::int64_t gap = 0, bool decay = true) {
    return {{length}, {{0}, {length}}, 0, length, decay, gap};
}

/// The 256 values, in order; found here by their definition.
std::vector<float> values_of(bool with_sign) {
    std::vector<float> values = {0, 1};
    for (int decade = 0; decade < 7; ++decade) {
        const int parts = with_sign ? 1 << decade : 2 << decade;
        for (int k = 0; k < parts; ++k) {
            const double value = std::pow(10, decade - 6) * (0.1 + 0.9 * (k + 0.5) / parts);
            values.push_back(static_cast<float>(value));
            if (with_sign) values.push_back(-static_cast<float>(value));
        }
    }
    std::sort(values.begin(), values.end());
    return values;
}

/// The nearest value of the same sign.
double nearest_code(const std::vector<float>& values, float x) {
    if (x == 0)
        return static_cast<double>(std::find(values.begin(), values.end(), 0.0f) - values.begin());
    std::size_t best = 0;
    double distance = INFINITY;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::signbit(values[i]) != std::signbit(x) || values[i] == 0) continue;
        const double other = std::abs(static_cast<double>(values[i]) - static_cast<double>(x));
        if (other >= distance) continue;
        best = i;
        distance = other;
    }
    return static_cast<double>(best);
}

/// The random word of an element.
std::uint32_t word_of(const SmallPiece& piece, std::int64_t i, std::uint32_t use) {
    const auto element =
        static_cast<std::uint64_t>(piece.shard().global_index(piece.flat_begin + i));
    const PhiloxKey key = philox_stream(rounding_seed, name_hash(piece.shard().name), 1, 0);
    return philox({static_cast<std::uint32_t>(element / 4),
                   static_cast<std::uint32_t>(element / 4 >> 32), step_number, use},
                  key)[element % 4];
}

float rounded_up_or_down(float x, std::uint32_t random) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + random) & 0xffff0000u);
}

/// The moments of a piece as fp32, and what is stored of them.
class ReferenceMoment {
public:
    ReferenceMoment(Array& stored, Array& scales, bool with_sign)
        : stored_(stored), scales_(scales), values_(values_of(with_sign)) {}

    float load(std::int64_t i) const {
        const auto value = static_cast<float>(stored_(i).value);
        if (stored_.dtype() != DType::u8) return value;
        return values_[static_cast<std::size_t>(value)] *
               static_cast<float>(scales_(i / block).value);
    }
    /// `bits`: of each element's word, from there on.
    void store(const SmallPiece& piece, const std::vector<float>& x, int bits) {
        for (std::int64_t begin = 0; begin < piece.length(); begin += block) {
            const std::int64_t end = std::min(begin + block, piece.length());
            const auto of = [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
            float scale = 0;
            for (std::int64_t i = begin; i < end; ++i)
                scale = std::max(scale, std::abs(of(i)));
            if (stored_.dtype() == DType::u8) scales_(begin / block) = scale;
            for (std::int64_t i = begin; i < end; ++i) {
                const std::uint32_t random = word_of(piece, i, 1) >> bits & 0xffffu;
                stored_(i) = stored_.dtype() == DType::f32 ? of(i)
                             : stored_.dtype() == DType::bf16
                                 ? rounded_up_or_down(of(i), random)
                                 : nearest_code(values_, scale == 0 ? 0 : of(i) / scale);
            }
        }
    }

private:
    Array& stored_;
    Array& scales_;
    std::vector<float> values_;
};

void update(const SmallPiece& piece, Arrays& at, const AdamWConstants& constants,
            const StepState& state) {
    const auto updates = static_cast<double>(state.updates);
    const auto rate =
        static_cast<float>(state.learning_rate / (1 - std::pow(constants.beta1, updates)));
    const auto correction = static_cast<float>(std::sqrt(1 - std::pow(constants.beta2, updates)));
    const auto decay =
        static_cast<float>(piece.decay ? 1 - state.learning_rate * constants.weight_decay : 1.0);
    ReferenceMoment averages(at[piece.exp_avg], at[piece.exp_avg_scales], true);
    ReferenceMoment squares(at[piece.exp_avg_sq], at[piece.exp_avg_sq_scales], false);
    std::vector<float> m;
    std::vector<float> v;
    for (std::int64_t i = 0; i < piece.length(); ++i) {
        const float g = static_cast<float>(at[piece.main_grad](i).value) *
                        static_cast<float>(state.grad_factor);
        m.push_back(std::fma(static_cast<float>(constants.beta1), averages.load(i),
                             static_cast<float>(1 - constants.beta1) * g));
        v.push_back(std::fma(static_cast<float>(constants.beta2), squares.load(i),
                             static_cast<float>(1 - constants.beta2) * g * g));
        Bounded& param = at[piece.main_param](i);
        const float moved =
            static_cast<float>(param.value) * decay -
            rate * m.back() /
                (std::sqrt(v.back()) / correction + static_cast<float>(constants.eps));
        param = at[piece.main_param].dtype() == DType::bf16
                    ? rounded_up_or_down(moved, word_of(piece, i, 2) & 0xffffu)
                    : moved;
    }
    averages.store(piece, m, 0);
    squares.store(piece, v, 16);
}

OpCase small_adamw(std::vector<SmallPiece> pieces, DType moments, DType main, DType weight,
                   bool skip) {
    OpLimits limits;
    limits.compute = main == DType::f32 ? weight : main;
    OpCase op(
        text("adamw of ", name_of(moments), " moments, ", name_of(main), " main, ", name_of(weight),
             ", pieces ", pieces.size(), " first of ", pieces[0].length(), skip ? " skip" : ""),
        limits);
    op.state.updates = 3;
    op.state.step = step_number;
    op.state.learning_rate = 0.013;
    op.state.grad_factor = 0.37;
    op.state.skip = skip ? Skip::not_finite : Skip::none;
    for (SmallPiece& piece : pieces) {
        const std::int64_t length = piece.length();
        op.large |= length > 1000000;
        const auto part = [&](Role role, DType dtype, const Values& values,
                              std::int64_t padding = 0) {
            return op.part(
                role, op.storage(dtype, {piece.gap + length + padding}),
                [=, gap = piece.gap](const Tensor& whole) {
                    return whole.slice(0, gap, length + padding);
                },
                values);
        };
        piece.main_param = part(Role::updated, main, random_values());
        // Some blocks are of zeros, and some elements are far smaller than the rest.
        piece.main_grad = part(Role::input, DType::f32,
                               [normal = random_values(0.1)](std::int64_t i, PhiloxKey stream) {
                                   return normal(i, stream) * std::pow(10.0, -(i % 11)) *
                                          (i / block % 3 == 1 ? 0 : 1);
                               });
        if (moments == DType::u8) {
            const std::int64_t padding = piece.blocks() * block - length;
            const auto codes = [](std::int64_t least) {
                return [=, any = random_integers(0, 256)](std::int64_t i, PhiloxKey stream) {
                    return i / block % 3 == 1 ? static_cast<double>(least) : any(i, stream);
                };
            };
            piece.exp_avg = part(Role::updated, DType::u8, codes(127), padding);
            piece.exp_avg_sq = part(Role::updated, DType::u8, codes(0), padding);
            const Values scales = [normal = random_values(0.03)](std::int64_t i, PhiloxKey stream) {
                return std::abs(normal(i, stream));
            };
            piece.exp_avg_scales = op.updated(DType::f32, {piece.blocks()}, scales);
            piece.exp_avg_sq_scales = op.updated(DType::f32, {piece.blocks()}, scales);
        } else {
            piece.exp_avg = part(Role::updated, moments, random_values(0.03));
            piece.exp_avg_sq =
                part(Role::updated, moments,
                     [normal = random_values(0.03)](std::int64_t i, PhiloxKey stream) {
                         return normal(i, stream) * normal(i, stream);
                     });
        }
        if (main == DType::f32 && weight != DType::f32)
            piece.weight = part(Role::updated, weight, random_values());
    }
    const AdamWConstants constants = {0.87, 0.96, 1e-6, 0.2};
    op.run = [=](Backend& backend, const Tensors& at) {
        std::vector<AdamWPiece> views;
        for (const SmallPiece& piece : pieces) {
            views.push_back({at[piece.main_param], at[piece.main_grad], at[piece.exp_avg],
                             at[piece.exp_avg_sq], at[piece.weight], piece.decay,
                             at[piece.exp_avg_scales], at[piece.exp_avg_sq_scales], piece.shard()});
        }
        backend.run(
            AdamW{.pieces = views, .constants = constants, .step = at.step, .seed = rounding_seed});
    };
    op.reference = [=, state = op.state](Arrays& at) {
        for (const SmallPiece& piece : pieces) {
            if (!skip) update(piece, at, constants, state);
            if (piece.weight != none) at[piece.weight].values() = at[piece.main_param].values();
        }
    };
    return op;
}

}  // namespace

std::vector<OpCase> small_moment_cases() {
    // Parts of matrices that tp cuts in rows and in columns, and that owners cut anywhere.
    const SmallPiece rows = {{8, 96}, {{4, 0}, {4, 96}}, 64, 355};
    const SmallPiece columns = {{9, 10}, {{0, 5}, {9, 5}}, 3, 44};
    const SmallPiece blocks = {{4, 1024}, {{0, 512}, {4, 512}}, 256, 1536};
    std::vector<OpCase> cases;
    struct Formats {
        DType moments, main, weight;
    };
    constexpr Formats all[] = {
        {DType::u8, DType::f32, DType::f32},   {DType::u8, DType::f32, DType::bf16},
        {DType::u8, DType::f32, DType::f16},   {DType::u8, DType::bf16, DType::bf16},
        {DType::bf16, DType::f32, DType::f32}, {DType::bf16, DType::f32, DType::bf16},
        {DType::bf16, DType::f32, DType::f16}, {DType::bf16, DType::bf16, DType::bf16},
        {DType::f32, DType::bf16, DType::bf16}};
    for (const auto& [moments, main, weight] : all) {
        cases.push_back(small_adamw({flat(1)}, moments, main, weight, false));
        cases.push_back(
            small_adamw({flat(5003), flat(7, 3, false), blocks}, moments, main, weight, false));
        cases.push_back(small_adamw({flat(700)}, moments, main, weight, true));
        if (moments != DType::u8)
            cases.push_back(
                small_adamw({rows, columns, flat(515, 1)}, moments, main, weight, false));
        cases.push_back(small_adamw({flat(38597376)}, moments, main, weight, false));
    }
    cases.push_back(small_adamw(std::vector<SmallPiece>(60, flat(300)), DType::u8, DType::f32,
                                DType::bf16, false));
    return cases;
}

}  // namespace gptrain
