#include "cuda/ops/attention.h"

#include "cuda/attention/portable.h"
#include "cuda/attention/sm90/attention.h"

namespace gptrain::cuda {

void run(const AttentionForward& args, const OpContext& context) {
    if (context.sm90_attention && sm90::covers_attention(args))
        return sm90::attention_forward(args, context);
    portable_attention_forward(args, context);
}

void run(const AttentionBackward& args, const OpContext& context) {
    if (context.sm90_attention && sm90::covers_attention(args))
        return sm90::attention_backward(args, context);
    portable_attention_backward(args, context);
}

}  // namespace gptrain::cuda
