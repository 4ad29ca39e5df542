// config.json of transformers, and the run spec and tensors that follow from it.
#include "fuzz/target.h"
#include "interop/foreign_tensors.h"
#include "interop/hf_config.h"

using namespace gptrain;

namespace {

constexpr std::int64_t most_layers = 100;
constexpr std::int64_t most_experts = 1000;

/// Writes what was read as a config.json, which must read back the same.
void write_and_read(const HfConfig& config) {
    const ModelShape model = shape_of(config.model);
    const bool few_experts = !model.experts || model.experts->count <= most_experts;
    if (model.layers <= most_layers && few_experts && model.head_dim > 0)
        GPTRAIN_CHECK(!hf_tensors(model, config.hf_class).empty());
    // No program rotates fewer dims; make_plan refuses them.
    if (model.position_embedding == PositionEmbedding::rope && model.rotary_dims() < 2) return;
    HfClass written{};
    if (!test::accepts(ExitCode::usage, "no class of ", [&] { written = hf_class_of(model); }))
        return;
    // It may be another class that computes the same.
    const HfConfig again = read_hf_config(hf_config(model, config.ids, DType::f32), "config.json");
    GPTRAIN_CHECK(again.hf_class == written && shape_of(again.model) == model);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    HfConfig config;
    const bool accepted = test::accepts(ExitCode::bad_input, "config.json:", [&] {
        config =
            read_hf_config(parse_json(test::as_text(bytes, size), "config.json"), "config.json");
    });
    if (accepted) write_and_read(config);
    return 0;
}
