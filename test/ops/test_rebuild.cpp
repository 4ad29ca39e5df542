// The values that a recompute mode rebuilds have the same bits as before.
#include "backends.h"
#include "cases.h"
#include "catch.h"

namespace gptrain {
namespace {

struct NormRun {
    HostTensor r_out, n, rstd;
};

/// The sum and its norm; then the norm alone from the sum as stored.
void check_norm(Backend& backend, DType dtype, bool rms, float dropout, const Shape& shape) {
    const DeviceTensor r(backend, HostTensor(dtype, shape, random_values(), 1));
    const DeviceTensor y(backend, HostTensor(dtype, shape, random_values(), 2));
    const DeviceTensor weight(backend, HostTensor(dtype, {shape[1]}, random_values(), 3));
    const DeviceTensor bias(backend, HostTensor(dtype, {shape[1]}, random_values(), 4));
    const DeviceTensor r_out(backend, HostTensor(dtype, shape));
    const DeviceTensor state(backend, to_host(initial_step_state(1)));
    const DeviceTensor first_sequence(backend, HostTensor(DType::i64, {1}, constant(0)));
    const auto run = [&](bool with_sum) {
        const DeviceTensor n(backend, HostTensor(dtype, shape));
        const DeviceTensor mean(backend, HostTensor(DType::f32, {shape[0]}));
        const DeviceTensor rstd(backend, HostTensor(DType::f32, {shape[0]}));
        ResidualNormForward args;
        args.r = with_sum ? r.tensor() : r_out.tensor();
        args.y = with_sum ? y.tensor() : Tensor();
        args.dropout.probability = dropout;
        args.dropout.step = {state.tensor(), first_sequence.tensor(), 0};
        args.r_out = with_sum ? r_out.tensor() : Tensor();
        args.norm = {rms, 1e-5f, weight.tensor(), bias.tensor()};
        args.n = n.tensor();
        args.mean = rms ? Tensor() : mean.tensor();
        args.rstd = rstd.tensor();
        args.seq_length = shape[0];
        backend.run(args);
        return NormRun{r_out.download(), n.download(), rstd.download()};
    };
    const NormRun first = run(true);
    const NormRun rebuilt = run(false);
    CHECK(rebuilt.r_out == first.r_out);
    CHECK(rebuilt.n == first.n);
    CHECK(rebuilt.rstd == first.rstd);
}

}  // namespace

TEST_CASE("a norm is rebuilt from the stored sum bit for bit") {
    for (const auto& backend : built_backends()) {
        for (const DType dtype : compute_dtypes) {
            for (const bool rms : {false, true}) {
                for (const float dropout : {0.0f, 0.1f}) {
                    CAPTURE(backend->name(), name_of(dtype), rms, dropout);
                    check_norm(*backend, dtype, rms, dropout, {5, 7});
                    check_norm(*backend, dtype, rms, dropout, {37, 771});
                }
            }
        }
    }
}

}  // namespace gptrain
