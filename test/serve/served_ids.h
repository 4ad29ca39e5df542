// A model without a tokenizer, which reads and writes token ids: "5 6 7 ". Token 2 ends a text, and
// the vocabulary has 40.
#pragma once

#include "cpu/cpu_backend.h"
#include "infer/prompt_codec.h"
#include "spec/make_plan.h"
#include "stored/model_source.h"

namespace gptrain::test {

constexpr std::int64_t served_vocab = 40;

class ServedIds {
public:
    const PromptCodec& codec() const { return codec_; }

private:
    MpiSession ranks_;
    Watchdog watchdog_{ranks_, {.hang_seconds = 0}};
    Observers observers_{watchdog_};
    ModelSource source_{GPTRAIN_MODEL, ranks_};
    RunSpec spec_ = inference_spec(source_, {"device=cpu"});
    RunPlan plan_ = make_plan(spec_, {});
    std::unique_ptr<Backend> backend_ = cpu::make_backend();
    Mesh mesh_ = one_rank_mesh();
    RunTokenizer tokenizer_{source_, spec_, {}, ranks_};
    PromptCodec codec_{{.source = source_,
                        .tokenizer = tokenizer_,
                        .plan = plan_,
                        .backend = *backend_,
                        .mesh = mesh_,
                        .ranks = ranks_,
                        .observers = observers_}};
};

/// The one of this process.
inline const PromptCodec& served_codec() {
    static const ServedIds served;
    return served.codec();
}

}  // namespace gptrain::test
