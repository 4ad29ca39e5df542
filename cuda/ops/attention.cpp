#include "cuda/ops/attention.h"

#include "cuda/attention/portable.h"
#include "cuda/attention/sm90/attention.h"
#include "cuda/ops/fp8.h"

namespace gptrain::cuda {
namespace {

/// Reads the results of an op once more for its amax, if it wants one.
void read_amax(const auto& args, const OpContext& context) {
    args.each_of_amax(
        [&](const Tensor& x) { run(UpdateAmax{.x = x, .amax = args.amax}, context); });
}

}  // namespace

void run(const AttentionForward& args, const OpContext& context) {
    const bool on_sm90 = context.sm90_attention && sm90::covers_attention(args);
    on_sm90 ? sm90::attention_forward(args, context) : portable_attention_forward(args, context);
    if (on_sm90 && sm90::serves_fp8(args)) return;
    read_amax(args, context);
    if (!args.o8.empty()) run(ToFp8Rows{.x = rows_of_heads(args.o), .out = args.o8}, context);
}

void run(const AttentionBackward& args, const OpContext& context) {
    const bool on_sm90 = context.sm90_attention && sm90::covers_attention(args);
    on_sm90 ? sm90::attention_backward(args, context) : portable_attention_backward(args, context);
    if (!on_sm90 || !sm90::serves_fp8(args.forward)) read_amax(args, context);
}

}  // namespace gptrain::cuda
