#include "stored/upcycling.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::string_view experts_part = ".experts.";
/// Elements that get their noise at a time.
constexpr std::int64_t noise_elements = std::int64_t{1} << 20;

bool is_of_experts(const std::string& name) {
    return name.find(experts_part) != name.npos;
}

bool is_matrix(const NamedState& state) {
    return state.shard.global.rank() == 3;
}

bool is_of_router(const std::string& name) {
    return name.find(".router.") != name.npos;
}

std::string dense_name(std::string name) {
    return name.replace(name.find(experts_part), experts_part.size(), ".mlp.");
}

/// The parts of a state of all experts that lie in one expert each, as states of the dense matrix
/// or bias.
void visit_copies(const NamedState& state, const StateVisitor& visitor) {
    const Shard& shard = state.shard;
    const auto of_one = [&](const Shape& shape) {
        return is_matrix(state) ? Shape({shape[1], shape[2]}) : Shape({shape[1]});
    };
    const Box box = {.offset = of_one(shard.box.offset), .extent = of_one(shard.box.extent)};
    const std::int64_t each = box.extent.elements();
    for (std::int64_t begin = shard.flat_begin; begin < shard.flat_end;) {
        const std::int64_t expert = begin / each * each;
        const std::int64_t end = std::min(shard.flat_end, expert + each);
        visitor({.group = state.group,
                 .shard = {.name = dense_name(shard.name),
                           .global = of_one(shard.global),
                           .box = box,
                           .flat_begin = begin - expert,
                           .flat_end = end - expert,
                           .owned = shard.owned},
                 .values = state.values.slice(0, begin - shard.flat_begin, end - begin)});
        begin = end;
    }
}

}  // namespace

ModelShape dense_form(const ModelShape& model, const std::string& source) {
    const ExpertsSpec& experts = *model.experts;
    const auto check = [&](bool possible, const auto&... reason) {
        if (!possible)
            fail(ExitCode::usage, "init_from: ", source,
                 ": has no experts, and those of this run cannot be copies of its mlps: ",
                 reason...);
    };
    check(!experts.shared, "model.experts.shared has to be none");
    check(experts.ffn_hidden_size == model.ffn, "model.experts.ffn_hidden_size is ",
          experts.ffn_hidden_size, ", and has to be model.ffn_hidden_size, ", model.ffn);
    check(experts.bias == model.bias, "model.experts.bias is ", experts.bias,
          ", and has to be model.bias, ", model.bias);
    ModelShape dense = model;
    dense.experts.reset();
    return dense;
}

StateSource as_dense(const StateSource& weights) {
    return [weights](const StateVisitor& visitor) {
        weights([&](const NamedState& state) {
            if (is_of_router(state.shard.name)) return;
            is_of_experts(state.shard.name) ? visit_copies(state, visitor) : visitor(state);
        });
    };
}

void add_noise(Backend& backend, const StateSource& weights, std::uint64_t seed, double std) {
    const std::int64_t bytes = noise_elements * size_of(DType::f32);
    Buffer buffer;
    weights([&](const NamedState& state) {
        if (!is_of_experts(state.shard.name) || !is_matrix(state)) return;
        if (buffer.data() == nullptr) buffer = backend.allocate(2 * bytes, MemorySpace::device);
        for (std::int64_t begin = 0; begin < state.shard.elements(); begin += noise_elements) {
            Shard part = state.shard;
            part.flat_begin += begin;
            part.flat_end = std::min(part.flat_begin + noise_elements, state.shard.flat_end);
            const Tensor values = state.values.slice(0, begin, part.elements());
            const Tensor noise(buffer.data(), DType::f32, {part.elements()});
            backend.run(InitNormal{
                .x = noise, .shard = part, .seed = seed, .std = static_cast<float>(std)});
            Tensor added = noise;
            if (values.dtype() != DType::f32) {
                added = Tensor(buffer.data() + bytes, values.dtype(), {part.elements()});
                backend.run(Cast{.to = added, .from = noise});
            }
            backend.run(Add{.x = values, .y = added});
        }
    });
    backend.synchronize();
}

}  // namespace gptrain
