#include "engine/logit_rows.h"

#include <vector>

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

void LogitRows::download(std::int64_t rows, std::int64_t vocab, const Take& take) const {
    const Tensor all = gather(rows);
    if (all.empty()) return;
    std::vector<float> values(static_cast<std::size_t>(all.elements()));
    context_->backend.download(std::as_writable_bytes(std::span(values)), all);
    const auto padded = static_cast<std::size_t>(all.size(1));
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
        take(row, std::span(values).subspan(row * padded, static_cast<std::size_t>(vocab)));
}

}  // namespace gptrain
