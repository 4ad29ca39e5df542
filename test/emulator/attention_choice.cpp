// Which kernels attention uses.
#include <set>
#include <utility>

#include "catch.h"
#include "cuda/attention/portable.h"
#include "cuda/attention/sm90/attention.h"
#include "cuda/attention/sm90/plan.h"
#include "cuda/attention_check.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/values.h"
#include "emulator/grid.h"

using namespace gptrain;
using namespace gptrain::cuda;

namespace {

constexpr AttentionKernels portable = {portable_attention_forward, portable_attention_backward};

/// Emulates a GPU of this compute capability until the end of the block.
class EmulatedDevice {
public:
    EmulatedDevice(int major, int minor, std::int64_t shared_bytes)
        : before_(emulator::settings()) {
        emulator::settings() = {
            .order = before_.order, .major = major, .minor = minor, .shared_bytes = shared_bytes};
        properties = open_device(0);
    }
    EmulatedDevice(const EmulatedDevice&) = delete;
    EmulatedDevice& operator=(const EmulatedDevice&) = delete;
    ~EmulatedDevice() { emulator::settings() = before_; }
    DeviceProperties properties;

private:
    emulator::Settings before_;
};

}  // namespace

TEST_CASE("scratch memory suffices for any share of the heads", "[choice]") {
    const auto [sequences, length, heads, dim] =
        GENERATE(table<std::int64_t, std::int64_t, std::int64_t, std::int64_t>(
            {{64, 2048, 12, 64}, {24, 1024, 32, 128}, {48, 1024, 16, 128}}));
    OpLimits limits;
    limits.compute = DType::bf16;
    limits.sequences = sequences;
    limits.seq_length = length;
    limits.heads = limits.groups = heads;
    limits.head_dim = dim;
    // all_to_all on two ranks of cp, in two pieces.
    const std::int64_t share = heads / 4;
    const sm90::BackwardPlan plan(sequences, length, share, share, dim);
    CHECK(plan.bytes(sequences * share) <= sm90::attention_scratch_bytes(limits));
}

TEST_CASE("backward attention ends with work for all blocks", "[choice]") {
    const std::int64_t blocks = GENERATE(1, 3, 114, 132);
    const std::int64_t length = GENERATE(100, 1024, 4096, 32768);
    const std::int64_t groups = GENERATE(1, 8, 32);
    constexpr std::int64_t sequences = 2;
    const sm90::BackwardPlan plan(sequences, length, 32, groups, 128, blocks);
    const std::int64_t all = sequences * groups;
    const std::int64_t last = all - (plan.sections * plan.section - plan.lacking);
    const std::int64_t tiles = plan.padded / sm90::key_rows;
    CHECK((last == all || (last + 1) * tiles > blocks));
    // A group that waits for its room waits for one of an earlier section.
    CHECK(plan.section <= plan.slots);
    CHECK(last <= plan.slots);
    CHECK(last >= plan.section);
    CHECK((plan.lacking >= 0 && plan.lacking < plan.section));
}

TEST_CASE("attention kernels that compute something else are found out", "[choice]") {
    const EmulatedDevice device(8, 6, 99 << 10);
    const Stream stream;
    const auto difference = [&](const AttentionKernels& kernels) {
        return attention_difference(kernels, portable, device.properties, stream);
    };

    AttentionKernels one_position_late = portable;
    one_position_late.forward = [](const AttentionForward& args, const OpContext& context) {
        AttentionForward late = args;
        late.q_begin += 1;
        portable_attention_forward(late, context);
    };
    CHECK(difference(one_position_late).find("o for head_dim 64") != std::string::npos);

    // Faults that show in different places: of o only where there are documents.
    const AttentionKernels sees_all_and_forgets = {
        .forward =
            [](const AttentionForward& args, const OpContext& context) {
                AttentionForward other = args;
                other.first_visible = {};
                portable_attention_forward(other, context);
            },
        .backward =
            [](const AttentionBackward& args, const OpContext& context) {
                AttentionBackward other = args;
                other.dk = args.dv;
                portable_attention_backward(other, context);
            },
        .serve_fp8 = true};
    const std::string all = difference(sees_all_and_forgets);
    CHECK(all.find("dk for head_dim 128, 150 queries by") != std::string::npos);
    CHECK(all.find("amax for head_dim 128") != std::string::npos);
    CHECK(all.find("o8 for head_dim 128") != std::string::npos);
    const std::size_t of_o = all.find("o for head_dim");
    REQUIRE(of_o != std::string::npos);
    CHECK(all.substr(of_o).starts_with("o for head_dim 64, 150 queries, dropout"));
}

TEST_CASE("attention kernels that lack a gradient or its amax are found out", "[choice]") {
    const EmulatedDevice device(8, 6, 99 << 10);
    const Stream stream;
    // dq shows with dropout, or in long rows. The amax lacks dq or, with heads of 128, dk.
    const AttentionKernels keeps_all_and_lacks_gradients = {
        .forward =
            [](const AttentionForward& args, const OpContext& context) {
                portable_attention_forward(args, context);
                if (!args.amax.empty()) run(UpdateAmax{.x = args.o, .amax = args.amax}, context);
                if (args.o8.empty()) return;
                run(ToFp8Rows{.x = rows_of_heads(args.o), .out = args.o8}, context);
            },
        .backward =
            [](const AttentionBackward& args, const OpContext& context) {
                AttentionBackward other = args;
                other.forward.dropout = {};
                portable_attention_backward(other, context);
                if (args.dq.size(1) > 256) run(Fill{.x = args.dq, .value = 0}, context);
                if (args.amax.empty()) return;
                for (const Tensor& x : {args.dq.size(3) == 128 ? args.dq : args.dk, args.dv})
                    run(UpdateAmax{.x = x, .amax = args.amax}, context);
            },
        .serve_fp8 = true};
    const std::string all =
        attention_difference(keeps_all_and_lacks_gradients, portable, device.properties, stream);
    CHECK(all.starts_with("dq for head_dim 64, 300 queries by"));
    CHECK(all.find("; amax for head_dim 64, 150 queries, maxima, q x 0.00390625"
                   "; amax for head_dim 128, 150 queries, maxima, q x 256"
                   "; dq for head_dim 64, 150 queries, dropout") != std::string::npos);
}

TEST_CASE("the check of the kernels reaches each plan of the backward for sm_90a", "[choice]") {
    const EmulatedDevice device(8, 6, 99 << 10);
    const Stream stream;
    // Head size; true if groups of heads share the memory of their sums.
    static std::set<std::pair<std::int64_t, bool>> reached;
    reached.clear();
    AttentionKernels noted = portable;
    noted.backward = [](const AttentionBackward& args, const OpContext& context) {
        const Tensor& q = args.forward.q;
        const std::int64_t groups = args.forward.k.size(2);
        const sm90::BackwardPlan plan(q.size(0), q.size(1), q.size(2), groups, q.size(3),
                                      context.device.multiprocessors);
        reached.emplace(q.size(3), plan.slots < q.size(0) * groups);
        portable_attention_backward(args, context);
    };
    CHECK(attention_difference(noted, portable, device.properties, stream).empty());
    CHECK(reached == std::set<std::pair<std::int64_t, bool>>{
                         {64, false}, {64, true}, {128, false}, {128, true}});
}

TEST_CASE("attention kernels for sm_90a are used where they are wanted and agree", "[choice]") {
    const EmulatedDevice hopper(9, 0, 227 << 10);
    const Stream stream;
    CHECK(sm90_attention_difference(hopper.properties, stream).empty());
    int checks = 0;
    std::string fault;
    const auto check = [&] {
        ++checks;
        return fault;
    };
    CHECK(choose_sm90_attention(AttentionChoice::sm90, hopper.properties, check));
    CHECK(choose_sm90_attention(AttentionChoice::automatic, hopper.properties, check));
    CHECK(checks == 2);
    fault = "their check was ended by signal 11";
    CHECK_THROWS_AS(choose_sm90_attention(AttentionChoice::sm90, hopper.properties, check), Error);
    CHECK_FALSE(choose_sm90_attention(AttentionChoice::automatic, hopper.properties, check));
    CHECK(checks == 4);
    CHECK_FALSE(choose_sm90_attention(AttentionChoice::portable, hopper.properties, check));

    const EmulatedDevice ampere(8, 6, 99 << 10);
    CHECK_FALSE(choose_sm90_attention(AttentionChoice::automatic, ampere.properties, check));
    CHECK_THROWS_AS(choose_sm90_attention(AttentionChoice::sm90, ampere.properties, check), Error);
    CHECK(checks == 4);
}
