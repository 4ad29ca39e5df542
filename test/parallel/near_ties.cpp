// Meshes round in other places than one rank does. Where that changes a router's choice, a token
// goes to another expert, which moves results by far more than rounding.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/passing_backend.h"
#include "base/log.h"
#include "base/philox.h"
#include "catch.h"
#include "compare.h"
#include "cpu/cpu_backend.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// Whenever a router has chosen, lets it choose again from logits that are off by 2^-20 of the
/// token's largest, up or down.
class TieFinder final : public EachOp<PassingBackend, TieFinder> {
public:
    explicit TieFinder(Backend& inner) : EachOp<PassingBackend, TieFinder>(inner) {}

    std::int64_t choices = 0;
    std::int64_t near_ties = 0;  ///< choices that were another one then

    template <class Op>
    void on(const Op& op) {
        inner().run(op);
    }
    void on(const RouterForward& op) {
        inner().run(op);
        const auto tokens = static_cast<std::size_t>(op.chosen.size(0));
        const auto per_token = static_cast<std::size_t>(op.chosen.size(1));
        const auto experts = static_cast<std::size_t>(op.logits.size(1));
        std::vector<float> logits(op.logits.as<float>(), op.logits.as<float>() + tokens * experts);
        for (std::size_t t = 0; t < tokens; ++t)
            disturb(std::span(logits).subspan(t * experts, experts));
        std::vector<std::int32_t> chosen(tokens * per_token);
        std::vector<float> weights(chosen.size());
        RouterForward other = op;
        other.logits = in_memory(logits, op.logits);
        other.chosen = in_memory(chosen, op.chosen);
        other.weights = in_memory(weights, op.weights);
        inner().run(other);
        const auto* before = op.chosen.as<std::int32_t>();
        for (auto now = chosen.begin(); now != chosen.end(); now += op.chosen.size(1)) {
            if (!std::equal(before, before + per_token, now)) ++near_ties;
            before += per_token;
        }
        choices += op.chosen.size(0);
    }

private:
    template <class T>
    static Tensor in_memory(std::vector<T>& values, const Tensor& like) {
        return {reinterpret_cast<std::byte*>(values.data()), like.dtype(), like.shape()};
    }
    void disturb(std::span<float> logits) {
        float largest = 0;
        for (const float logit : logits)
            largest = std::max(largest, std::abs(logit));
        for (float& logit : logits) {
            const PhiloxBlock words = philox({drawn_++, 0, 0, 0}, philox_stream(1, 0, 0, 0));
            logit += (words[0] % 2 == 0 ? 0x1p-20F : -0x1p-20F) * largest;
        }
    }

    std::uint32_t drawn_ = 0;
};

}  // namespace

TEST_CASE("No choice of an expert lies within rounding of a tie where meshes are compared") {
    // The choices are those of one rank, whatever the mesh.
    if (session().size() != 2 || session().rank() != 0) return;
    for (const Model& model : models()) {
        if (!model.spec.model.experts) continue;
        const auto cpu = cpu::make_backend();
        auto made = std::make_unique<TieFinder>(*cpu);
        const TieFinder& found = *made;
        TinyRun run(model.spec, std::move(made));
        run.engine().listen(progress());
        StepResults results;
        take_steps(run, compared_steps, 0, results);
        print(model.name, ": ", found.near_ties, " of ", found.choices,
              " choices lie within rounding of a tie");
        CHECK(found.choices > 0);
        CHECK(found.near_ties == 0);
    }
}

}  // namespace gptrain::test
