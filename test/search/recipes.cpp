// Settings that change results, which a search varies only where it is asked to.
#include <catch.h>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "search/space.h"

namespace gptrain::test {

TEST_CASE("recipes of FP8 are compared where they are asked for") {
    RunSpec spec;
    spec.model.num_layers = 4;
    spec.model.hidden_size = 256;
    spec.training.global_batch_size = 8;
    spec.precision.compute = Precision::fp8;
    RunSpec blocks = spec;
    blocks.precision.fp8_recipe = Fp8Recipe::block;
    RunSpec bf16 = spec;
    bf16.precision.compute = Precision::bf16;
    const auto counted = [&](const SearchSpace& space) {
        std::map<std::pair<Precision, std::optional<Fp8Recipe>>, std::size_t> counts;
        for (const std::vector<Choices>& group : candidate_groups(space, spec, 1)) {
            for (const Choices& choices : group) {
                const PrecisionSpec precision = with_choices(spec, choices).precision;
                ++counts[{*precision.compute, precision.fp8_recipe}];
            }
        }
        return counts;
    };
    SearchSpace space = whole_space(spec);
    CHECK(counted(space).size() == 1);
    fix(space, "precision.compute", {spec, bf16});
    fix(space, "precision.fp8_recipe", {spec, blocks});
    auto counts = counted(space);
    CHECK(counts.size() == 3);
    CHECK(counts[{Precision::bf16, {}}] > 0);
    CHECK(counts[{Precision::fp8, {}}] == counts[{Precision::bf16, {}}]);
    CHECK(counts[{Precision::fp8, Fp8Recipe::block}] == counts[{Precision::bf16, {}}]);
}

}  // namespace gptrain::test
