#include "engine/logit_rows.h"

namespace gptrain {

LogitRows::LogitRows(Arena& arena, const ModelContext& context, std::int64_t rows)
    : context_(&context) {
    const Shape shape = {rows, context.mesh.tp().size() * context.shape.vocab};
    logits_ = arena.allocate(context.compute, shape);
    f32_ = arena.allocate(DType::f32, shape);
}

Tensor LogitRows::own(std::int64_t rows) const {
    return logits_.slice(0, 0, rows).slice(1, context_->vocab_begin(), context_->shape.vocab);
}

Tensor LogitRows::gather(std::int64_t rows) const {
    Communicator& tp = context_->mesh.tp();
    tp.all_gather(logits_.slice(0, 0, rows), own(rows), 1).wait();
    if (tp.rank() != 0) return {};
    const Tensor all = f32_.slice(0, 0, rows);
    context_->backend.run(Cast{.to = all, .from = logits_.slice(0, 0, rows)});
    return all;
}

}  // namespace gptrain
