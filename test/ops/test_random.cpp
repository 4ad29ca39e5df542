// A run's random numbers on every backend: compared with independently computed values
// (make_random_fixture.py) and with each other; no two streams may be alike.
#include <cmath>
#include <string>
#include <vector>

#include "backends.h"
#include "catch.h"
#include "expected_random.h"
#include "op_case.h"

namespace gptrain {
namespace {

/// The step state and the rows of slots that a dropout of this step and sequence reads.
class StepOf {
public:
    StepOf(Backend& backend, std::int64_t step, std::int64_t first_sequence)
        : state_(backend,
                 [&] {
                     StepState state = initial_step_state(1);
                     state.step = step;
                     return to_host(state);
                 }()),
          rows_(backend,
                HostTensor(DType::i64, {2}, given({-1, static_cast<double>(first_sequence)}))) {}
    StepRef ref() const { return {state_.tensor(), rows_.tensor(), 1}; }

private:
    DeviceTensor state_;
    DeviceTensor rows_;
};

/// '1' for every element that is not 0.
std::string kept(const HostTensor& values) {
    std::string bits;
    for (std::int64_t i = 0; i < values.shape().elements(); ++i)
        bits += values[i] == 0 ? '0' : '1';
    return bits;
}

/// The mask over [tokens, features].
std::string feature_mask(Backend& backend, const Dropout& dropout, const Shape& shape,
                         std::int64_t seq_length) {
    const DeviceTensor dr(backend, HostTensor(DType::f32, shape, constant(1)));
    const DeviceTensor dy(backend, HostTensor(DType::f32, shape));
    backend.run(ApplyDropout{
        .x = dr.tensor(), .dropout = dropout, .y = dy.tensor(), .seq_length = seq_length});
    return kept(dy.download());
}

struct Attention {
    std::int64_t sequences, heads, queries, keys, first_query;
};

/// The mask over [sequences, heads, queries, keys]; '.' if a query does not see a key. All keys
/// have the same weight, and the value of key j is 1 in feature j only, so the output shows the
/// mask.
std::string attention_mask(Backend& backend, const Dropout& dropout, const Attention& of) {
    const std::int64_t dim = 32;
    OpLimits limits;
    limits.sequences = of.sequences;
    limits.seq_length = of.keys;
    limits.heads = limits.groups = of.heads;
    limits.head_dim = dim;
    ScratchMemory scratch(backend);
    backend.use_scratch(scratch.take(backend.scratch_bytes(limits)));
    const Shape q_shape = {of.sequences, of.queries, of.heads, dim};
    const Shape k_shape = {of.sequences, of.keys, of.heads, dim};
    const DeviceTensor q(backend, HostTensor(DType::f32, q_shape, constant(0)));
    const DeviceTensor k(backend, HostTensor(DType::f32, k_shape, constant(0)));
    const DeviceTensor v(backend, HostTensor(DType::f32, k_shape, [&](std::int64_t i, PhiloxKey) {
                             return i / (of.heads * dim) % of.keys == i % dim ? 1.0 : 0.0;
                         }));
    const DeviceTensor o(backend, HostTensor(DType::f32, q_shape));
    const DeviceTensor lse(backend, HostTensor(DType::f32, {of.sequences, of.heads, of.queries}));
    backend.run(AttentionForward{.q = q.tensor(),
                                 .k = k.tensor(),
                                 .v = v.tensor(),
                                 .o = o.tensor(),
                                 .lse = lse.tensor(),
                                 .q_begin = of.first_query,
                                 .first_visible = {},
                                 .dropout = dropout});
    const std::string rows = kept(o.download());
    std::string mask;
    for (std::int64_t b = 0; b < of.sequences; ++b)
        for (std::int64_t n = 0; n < of.heads; ++n)
            for (std::int64_t i = 0; i < of.queries; ++i)
                for (std::int64_t j = 0; j < of.keys; ++j) {
                    const std::int64_t at = ((b * of.queries + i) * of.heads + n) * dim + j;
                    mask += j > of.first_query + i ? '.' : rows[static_cast<std::size_t>(at)];
                }
    return mask;
}

/// Counts the places in which two masks agree.
class Agreement {
public:
    void add(char a, char b) {
        if (a == '.' || b == '.') return;
        ++places_;
        agreeing_ += a == b ? 1 : 0;
    }
    void add(const std::string& a, const std::string& b) {
        for (std::size_t i = 0; i < a.size(); ++i)
            add(a[i], b[i]);
    }
    /// Half of independent fair bits agree, within five standard deviations of such a count.
    bool by_chance() const {
        const auto places = static_cast<double>(places_);
        return places_ > 0 &&
               std::abs(static_cast<double>(agreeing_) - places / 2) < 5 * std::sqrt(places) / 2;
    }

private:
    std::int64_t places_ = 0;
    std::int64_t agreeing_ = 0;
};

/// Compares rows of `width` bits with the same rows shifted by this many rows and columns.
bool independent_of_shift(const std::string& mask, std::size_t width, std::size_t rows,
                          std::size_t columns) {
    Agreement agreement;
    for (std::size_t i = 0; i + rows * width + columns < mask.size(); ++i)
        if (i % width + columns < width) agreement.add(mask[i], mask[i + rows * width + columns]);
    return agreement.by_chance();
}

/// A mask of fair bits and its coordinates.
struct Drawn {
    std::string coordinates;
    std::string mask;
};

void check_independent(const std::vector<Drawn>& masks) {
    for (std::size_t i = 0; i < masks.size(); ++i) {
        CAPTURE(masks[i].coordinates);
        // Each is fair, and no two agree.
        Agreement ones;
        ones.add(masks[i].mask, std::string(masks[i].mask.size(), '1'));
        CHECK(ones.by_chance());
        for (std::size_t j = 0; j < i; ++j) {
            CAPTURE(masks[j].coordinates);
            Agreement agreement;
            agreement.add(masks[i].mask, masks[j].mask);
            CHECK(agreement.by_chance());
        }
    }
}

/// The coordinates of a mask, each of which must change the draw.
struct Coordinates {
    std::uint64_t seed = 1234;
    std::int64_t step = 4;
    std::uint32_t site = 2;
    std::uint32_t layer = 4;
    std::int64_t sequence = 4;
    std::int64_t position = 64;
    std::int64_t head = 0;

    std::string words() const {
        return text("seed ", seed, " step ", step, " site ", site, " layer ", layer, " sequence ",
                    sequence, " position ", position, " head ", head);
    }
    Dropout dropout(const StepRef& step_ref) const {
        Dropout dropout;
        dropout.probability = 0.5f;
        dropout.seed = seed;
        dropout.site = static_cast<DropoutSite>(site);
        dropout.layer = layer;
        dropout.rows.first_begin = position;
        dropout.head_begin = head;
        dropout.step = step_ref;
        return dropout;
    }
};

/// The base and its neighbours in every coordinate; only attention has heads.
std::vector<Coordinates> neighbours(bool of_attention) {
    std::vector<Coordinates> all(1);
    if (of_attention) all[0].site = 1;
    const auto vary = [&](auto Coordinates::*member, auto... values) {
        for (const std::int64_t value : {static_cast<std::int64_t>(values)...}) {
            Coordinates other = all[0];
            other.*member = static_cast<std::remove_reference_t<decltype(other.*member)>>(value);
            all.push_back(other);
        }
    };
    vary(&Coordinates::seed, 1235, 1236, 1234 + (std::int64_t{1} << 32));
    vary(&Coordinates::step, 0, 1, 2, 3, 5, 6, 7, 4 + (std::int64_t{1} << 32));
    vary(&Coordinates::layer, 0, 1, 2, 3, 5, 6, 7);
    vary(&Coordinates::sequence, 0, 1, 2, 3, 5, 6, 7);
    if (of_attention) {
        vary(&Coordinates::head, 4, 8, 12);
    } else {
        vary(&Coordinates::site, 0, 1, 3);
        vary(&Coordinates::position, 0, 128, 192, 256);
    }
    return all;
}

std::vector<float> starting_weights(Backend& backend, const std::string& name, std::uint64_t seed,
                                    std::int64_t count) {
    const DeviceTensor device(backend, HostTensor(DType::f32, {count}));
    backend.run(InitNormal{
        .x = device.tensor(), .shard = Shard::whole(name, {count}), .seed = seed, .std = 1.0f});
    const HostTensor host = device.download();
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
        values.push_back(static_cast<float>(host[i]));
    return values;
}

}  // namespace

TEST_CASE("thresholds of dropout are those of an independent implementation") {
    for (const expected::Threshold& of : expected::thresholds) {
        CAPTURE(of.probability);
        CHECK(dropout_threshold(of.probability) == of.threshold);
    }
}

TEST_CASE("dropout masks are those of an independent implementation") {
    using namespace expected;
    for (const auto& backend : built_backends()) {
        INFO(backend->name());
        for (const FeatureMask& of : feature_masks) {
            CAPTURE(of.site, of.layer, of.step);
            const StepOf step(*backend, of.step, of.first_sequence);
            Dropout dropout;
            dropout.probability = of.probability;
            dropout.seed = of.seed;
            dropout.site = static_cast<DropoutSite>(of.site);
            dropout.layer = of.layer;
            dropout.rows = {of.first_begin, of.first_count, of.second_begin};
            dropout.step = step.ref();
            CHECK(feature_mask(*backend, dropout, {sequences * rows, features}, rows) == of.mask);
        }
        for (const AttentionMask& of : attention_masks) {
            CAPTURE(of.layer, of.step);
            const StepOf step(*backend, of.step, of.first_sequence);
            Dropout dropout;
            dropout.probability = of.probability;
            dropout.seed = of.seed;
            dropout.site = DropoutSite::attention;
            dropout.layer = of.layer;
            dropout.head_begin = of.first_head;
            dropout.step = step.ref();
            CHECK(attention_mask(*backend, dropout,
                                 {sequences, heads, queries, keys, first_query}) == of.mask);
        }
    }
}

TEST_CASE("starting weights are those of an independent implementation") {
    for (const auto& backend : built_backends()) {
        INFO(backend->name());
        for (const expected::Weights& of : expected::weights) {
            CAPTURE(of.name, of.first);
            const std::int64_t count = std::ssize(of.values);
            Shard shard = Shard::whole(std::string(of.name), {std::int64_t{1} << 40});
            shard.flat_begin = of.first;
            shard.flat_end = of.first + count;
            const DeviceTensor device(*backend, HostTensor(DType::f32, {count}));
            backend->run(
                InitNormal{.x = device.tensor(), .shard = shard, .seed = of.seed, .std = 0.5f});
            const HostTensor got = device.download();
            // Up to 6 standard deviations, each factor within a few ulps of fp32.
            for (std::int64_t i = 0; i < count; ++i)
                CHECK(std::abs(got[i] - 0.5 * of.values[i]) < 0.5 * 6 * 16 * 0x1p-24);
        }
    }
}

TEST_CASE("masks of different sites, layers, steps, sequences and positions are independent") {
    constexpr std::int64_t rows = 64;
    constexpr std::int64_t features = 64;
    for (const auto& backend : built_backends()) {
        INFO(backend->name());
        std::vector<Drawn> masks;
        for (const Coordinates& at : neighbours(false)) {
            const StepOf step(*backend, at.step, at.sequence);
            masks.push_back({at.words(), feature_mask(*backend, at.dropout(step.ref()),
                                                      {rows, features}, rows)});
        }
        check_independent(masks);
        for (std::size_t shift = 1; shift < 9; ++shift) {
            CAPTURE(shift);
            CHECK(independent_of_shift(masks[0].mask, features, shift, 0));
            CHECK(independent_of_shift(masks[0].mask, features, 0, shift));
        }
    }
}

TEST_CASE("masks of attention's heads, layers, steps and sequences are independent") {
    constexpr Attention whole = {1, 4, 32, 32, 0};
    constexpr std::size_t of_head = 32 * 32;
    for (const auto& backend : built_backends()) {
        INFO(backend->name());
        std::vector<Drawn> masks;
        for (const Coordinates& at : neighbours(true)) {
            const StepOf step(*backend, at.step, at.sequence);
            const std::string mask = attention_mask(*backend, at.dropout(step.ref()), whole);
            for (std::size_t head = 0; head < 4; ++head)
                masks.push_back(
                    {text(at.words(), " + ", head), mask.substr(head * of_head, of_head)});
        }
        check_independent(masks);
        for (std::size_t shift = 1; shift < 5; ++shift) {
            CAPTURE(shift);
            CHECK(independent_of_shift(masks[0].mask, 32, shift, 0));
            CHECK(independent_of_shift(masks[0].mask, 32, 0, shift));
        }
    }
}

TEST_CASE("starting weights of different tensors and seeds are independent") {
    constexpr std::int64_t count = 4096;
    const double bound = 5 * std::sqrt(static_cast<double>(count));
    std::vector<std::string> names = {"wte.weight", "wpe.weight", "head.weight"};
    for (const char* layer : {"h.0.", "h.1.", "h.10."})
        for (const char* name :
             {"attn.q", "attn.k", "attn.v", "attn.proj", "mlp.fc", "mlp.gate", "mlp.proj"})
            names.push_back(text(layer, name, ".weight"));
    for (const auto& backend : built_backends()) {
        INFO(backend->name());
        std::vector<std::vector<float>> tensors;
        for (const std::string& name : names)
            tensors.push_back(starting_weights(*backend, name, 1234, count));
        for (const std::uint64_t seed : {1235u, 1236u})
            tensors.push_back(starting_weights(*backend, names[0], seed, count));
        for (std::size_t a = 0; a < tensors.size(); ++a)
            for (std::size_t b = 0; b < a; ++b) {
                double sum = 0;  // of `count` products of variance 1
                for (std::size_t i = 0; i < count; ++i)
                    sum += static_cast<double>(tensors[a][i]) * tensors[b][i];
                CAPTURE(a, b);
                CHECK(std::abs(sum) < bound);
            }
    }
}

}  // namespace gptrain
