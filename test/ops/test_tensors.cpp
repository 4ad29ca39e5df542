// The tensors that ops declare.
#include "cases.h"
#include "catch.h"
#include "support/host_backend.h"

namespace gptrain {
namespace {

/// Notes what ops list, and computes nothing.
class TensorRecorder final : public EachOp<HostBackend, TensorRecorder> {
public:
    template <class Op>
    void on(const Op& op) {
        visit_tensors(op, [&](const Tensor& tensor, Access access) {
            listed.push_back({tensor, access});
        });
    }
    std::vector<ListedTensor> listed;
};

}  // namespace

TEST_CASE("ops list the tensors that they use") {
    for (const auto& cases :
         {linear_cases(), fp8_cases(), fp8_block_cases(), int8_cases(), nf4_cases(), norm_cases(),
          head_norm_cases(), row_norm_cases(), activation_cases(), embedding_cases(),
          attention_cases(), loss_cases(), router_cases(), expert_cases(), grouped_linear_cases(),
          optimizer_cases(), muon_cases(), small_moment_cases()}) {
        for (const OpCase& op : cases) {
            if (op.large) continue;
            INFO(op.name);
            TensorRecorder recorder;
            ScratchMemory scratch(recorder);
            OpRun run(recorder, op, scratch);
            run.run();
            CHECK(run.listing_faults(recorder.listed) == "");
        }
    }
}

}  // namespace gptrain
