#include "spec/layer_split.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "spec/model_cost.h"

namespace gptrain {
namespace {

/// In units of the mean layer.
struct ModelWork {
    std::vector<double> layers;
    double head = 0;
};

ModelWork work_of(const ModelShape& model, std::int64_t seq_length) {
    std::array<double, 2> of_kind{};  // without experts, with them
    double mean = 0;
    for (const LayerKind& kind : layer_kinds(model)) {
        const double flops = layer_flops(model, kind, seq_length);
        of_kind[kind.experts ? 1 : 0] = flops;
        mean += kind.share * flops;
    }
    ModelWork work;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        work.layers.push_back(of_kind[model.has_experts(layer) ? 1 : 0] / mean);
    work.head = head_flops(model) / mean;
    return work;
}

/// Fills chunks up to `most` work from the model's end on. The first one takes what is left.
std::vector<std::int64_t> filled_chunks(const ModelWork& work, double most, std::int64_t chunks) {
    std::vector<std::int64_t> layers(static_cast<std::size_t>(chunks));
    std::int64_t left = std::ssize(work.layers);
    double done = work.head;
    for (std::int64_t chunk = chunks - 1; chunk > 0; --chunk, done = 0) {
        std::int64_t& own = layers[static_cast<std::size_t>(chunk)];
        for (; left > chunk; --left, ++own) {
            done += work.layers[static_cast<std::size_t>(left - 1)];
            if (own > 0 && done > most) break;
        }
    }
    layers.front() = left;
    return layers;
}

double most_work(const ModelWork& work, const std::vector<std::int64_t>& layers) {
    double most = 0;
    auto next = work.layers.begin();
    for (std::size_t chunk = 0; chunk < layers.size(); ++chunk) {
        const auto end = next + layers[chunk];
        const double head = chunk + 1 == layers.size() ? work.head : 0;
        most = std::max(most, std::accumulate(next, end, head));
        next = end;
    }
    return most;
}

}  // namespace

std::vector<std::int64_t> split_by_work(const ModelShape& model, std::int64_t seq_length,
                                        std::int64_t chunks) {
    const ModelWork work = work_of(model, seq_length);
    double enough = std::accumulate(work.layers.begin(), work.layers.end(), work.head);
    double too_little = 0;
    std::vector<std::int64_t> best = filled_chunks(work, enough, chunks);
    constexpr int halvings = 50;
    for (int i = 0; i < halvings; ++i) {
        const double most = (enough + too_little) / 2;
        std::vector<std::int64_t> layers = filled_chunks(work, most, chunks);
        const bool fits = most_work(work, layers) <= most;
        (fits ? enough : too_little) = most;
        if (fits) best = std::move(layers);
    }
    return best;
}

}  // namespace gptrain
