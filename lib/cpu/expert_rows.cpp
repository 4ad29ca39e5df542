#include "cpu/expert_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/at.h"
#include "cpu/parallel.h"
#include "cpu/router_scores.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Calls f(i) for each of `count` rows of `width` elements, on all threads.
void for_rows(std::int64_t count, std::int64_t width, const auto& f) {
    parallel_ranges(count, width, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            f(i);
    });
}

template <class T>
void combine(const CombineRows& args) {
    const std::int64_t per_token = args.places.size(1);
    const std::int64_t width = args.y.size(1);
    const Rows<T> rows(args.rows);
    const Rows<T> y(args.y);
    const auto* places = args.places.as<std::int32_t>();
    const auto* weights = pointer_or_null<float>(args.weights);
    for_rows(args.y.size(0), (per_token + 1) * width, [&](std::int64_t t) {
        for_vectors(0, width, [&](std::int64_t h, auto lanes) {
            Vec8 sum = 0.0f;
            for (std::int64_t slot = t * per_token; slot < (t + 1) * per_token; ++slot) {
                if (places[slot] < 0) continue;
                const Vec8 weight = weights == nullptr ? 1.0f : weights[slot];
                sum = fma(weight, load(rows[places[slot]] + h, lanes), sum);
            }
            if (args.accumulate) sum = sum + load(y[t] + h, lanes);
            store(y[t] + h, sum, lanes);
        });
    });
}

/// row = factor row
template <class T>
void scale(const T* row, float factor, T* to, std::int64_t count) {
    for_vectors(0, count, [&](std::int64_t i, auto lanes) {
        store(to + i, Vec8(factor) * load(row + i, lanes), lanes);
    });
}

template <class T>
void weight_rows(const WeightRows& args) {
    const std::int64_t per_token = args.places.size(1);
    const std::int64_t width = args.a.size(1);
    const Rows<T> a(args.a);
    const Rows<T> da(args.da);
    const auto* places = args.places.as<std::int32_t>();
    const auto* weights = args.weights.as<float>();
    auto* dweights = args.dweights.as<float>();
    const Tensor& bias = args.added.bias;
    const auto of_bias = [&](std::int64_t row, std::int64_t t) {
        const Tensor& offsets = args.added.offsets;
        const auto* begins = offsets.template as<std::int32_t>();
        const auto* after = std::upper_bound(begins, begins + offsets.elements(), row);
        return dot(bias.at(after - begins - 1).template as<T>(),
                   args.added.dy.at(t).template as<T>(), bias.size(1));
    };
    for_rows(args.places.size(0), 4 * per_token * width, [&](std::int64_t t) {
        for (std::int64_t slot = t * per_token; slot < (t + 1) * per_token; ++slot) {
            dweights[slot] = 0;
            const std::int64_t row = places[slot];
            if (row < 0) continue;
            dweights[slot] = dot(a[row], da[row], width);
            if (!bias.empty()) dweights[slot] += of_bias(row, t);
            scale(da[row], weights[slot], da[row], width);
        }
    });
}

float sigmoid(float x) {
    return 1 / (1 + std::exp(-x));
}

}  // namespace

void run(const GroupByExpert& args) {
    const std::int64_t experts = args.offsets.elements() - 1;
    const std::int64_t count = args.chosen.elements();
    const auto* chosen = args.chosen.as<std::int32_t>();
    auto* offsets = args.offsets.as<std::int32_t>();
    auto* slots = args.slots.as<std::int32_t>();
    auto* places = args.places.as<std::int32_t>();
    std::fill_n(offsets, experts + 1, 0);
    for (std::int64_t slot = 0; slot < count; ++slot) {
        if (chosen[slot] >= 0) ++offsets[chosen[slot] + 1];
    }
    for (std::int64_t e = 0; e < experts; ++e)
        offsets[e + 1] += offsets[e];
    // offsets[e] is the next row of e until all are placed, and then that of e + 1.
    for (std::int64_t slot = 0; slot < count; ++slot) {
        places[slot] = chosen[slot] < 0 ? -1 : offsets[chosen[slot]]++;
        if (places[slot] >= 0) slots[places[slot]] = static_cast<std::int32_t>(slot);
    }
    for (std::int64_t e = experts; e > 0; --e)
        offsets[e] = offsets[e - 1];
    offsets[0] = 0;
}

void run(const PlaceRows& args) {
    const std::int64_t ranks = args.slots.size(0);
    const std::int64_t length = args.slots.size(1);
    const auto* chosen = args.chosen.as<std::int32_t>();
    const auto* weights = args.weights.as<float>();
    auto* places = args.places.as<std::int32_t>();
    auto* slots = args.slots.as<std::int32_t>();
    auto* experts = args.experts.as<std::int32_t>();
    auto* weighted = args.weighted.as<float>();
    std::fill_n(slots, ranks * length, -1);
    std::fill_n(experts, ranks * length, -1);
    std::fill_n(weighted, ranks * length, 0.0f);
    std::vector<std::int64_t> used(static_cast<std::size_t>(ranks), 0);
    std::int64_t unplaced = 0;
    for (std::int64_t slot = 0; slot < args.chosen.elements(); ++slot) {
        places[slot] = -1;
        if (chosen[slot] < 0) continue;
        const std::int64_t rank = chosen[slot] / args.experts_per_rank;
        std::int64_t& rows = at(used, rank);
        if (rows == length) {
            ++unplaced;
            continue;
        }
        const std::int64_t place = rank * length + rows++;
        places[slot] = static_cast<std::int32_t>(place);
        slots[place] = static_cast<std::int32_t>(slot);
        experts[place] = static_cast<std::int32_t>(chosen[slot] - rank * args.experts_per_rank);
        weighted[place] = weights[slot];
    }
    if (!args.unplaced.empty()) *args.unplaced.as<double>() += static_cast<double>(unplaced);
}

void run(const GatherRows& args) {
    const std::int64_t width = args.rows.size(1);
    const auto* slots = args.slots.as<std::int32_t>();
    const std::int64_t count = args.offsets.empty()
                                   ? args.rows.size(0)
                                   : args.offsets.as<std::int32_t>()[args.offsets.elements() - 1];
    const auto* weights = pointer_or_null<float>(args.weights);
    with_compute_type(args.rows.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> x(args.x);
        const Rows<T> rows(args.rows);
        for_rows(count, width, [&](std::int64_t r) {
            if (slots[r] < 0) {
                std::fill_n(rows[r], width, T{});
                return;
            }
            const T* row = x[slots[r] / args.per_token];
            if (weights == nullptr) {
                std::memcpy(rows[r], row, static_cast<std::size_t>(width) * sizeof(T));
            } else {
                scale(row, weights[slots[r]], rows[r], width);
            }
        });
    });
}

void run(const CombineRows& args) {
    with_compute_type(args.y.dtype(), [&](auto type) { combine<decltype(type)>(args); });
}

void run(const WeightRows& args) {
    with_compute_type(args.a.dtype(), [&](auto type) { weight_rows<decltype(type)>(args); });
}

void run(const GateRows& args) {
    const std::int64_t width = args.x.size(1);
    const auto* logits = args.logits.as<float>();
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> x(args.x);
        const Rows<T> y(args.y);
        for_rows(args.x.size(0), width,
                 [&](std::int64_t t) { scale(x[t], sigmoid(logits[t]), y[t], width); });
    });
}

void run(const GateRowsBackward& args) {
    const std::int64_t width = args.x.size(1);
    const auto* logits = args.logits.as<float>();
    auto* dlogits = args.dlogits.as<float>();
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> x(args.x);
        const Rows<T> dy(args.dy);
        const Rows<T> dx(args.dx);
        for_rows(args.x.size(0), 2 * width, [&](std::int64_t t) {
            const float slope = sigmoid(logits[t]) * sigmoid(-logits[t]);
            dlogits[t] = slope * dot(x[t], dy[t], width);
            scale(dy[t], sigmoid(logits[t]), dx[t], width);
        });
    });
}

}  // namespace gptrain::cpu
