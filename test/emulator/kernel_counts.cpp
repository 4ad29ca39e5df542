// Counts what the hot kernels ask of shared memory and of the tensor cores, and compares it with
// the table in docs/kernels.md. More bank conflicts are a fault.
//
//   test_emulator_kernel_counts [--update]
//
// With --update it writes the table.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "cuda/attention/portable.h"
#include "cuda/attention/sm90/attention.h"
#include "cuda/norm/norm.h"
#include "cuda/ops/attention.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/linear_bias.h"
#include "cuda/ops/rope.h"
#include "emulator/counts.h"
#include "emulator/grid.h"
#include "support/doc_table.h"

namespace gptrain::cuda {
namespace {

using emulator::Counts;
using test::Row;

const Row titles = {"kernel", "size", "matrix instructions", "GFLOP", "wavefronts", "conflicts"};

/// Memory for the tensors of one op.
class Memory {
public:
    Memory() : data_(allocate(bytes, MemorySpace::device)) {
        std::memset(data_, 0, static_cast<std::size_t>(bytes));
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { release(data_, MemorySpace::device); }

    Tensor take(DType dtype, const Shape& shape) {
        const Tensor tensor(data_ + used_, dtype, shape);
        used_ += round_up(tensor.bytes(), Arena::alignment);
        GPTRAIN_CHECK(used_ <= bytes, "too little memory to count a kernel");
        return tensor;
    }
    Scratch scratch(std::int64_t size) { return {take(DType::u8, {size}).data(), size}; }

private:
    static constexpr std::int64_t bytes = std::int64_t{64} << 20;
    std::byte* data_;
    std::int64_t used_ = 0;
};

/// Runs an op on an emulated device; returns the counts of its launches.
std::vector<Counts> counts_of(bool hopper, std::int64_t scratch_bytes,
                              const std::function<void(Memory&, const OpContext&)>& op) {
    emulator::settings() = hopper ? emulator::Settings{.major = 9, .shared_bytes = 227 << 10}
                                  : emulator::Settings{.major = 8, .minor = 6};
    const DeviceProperties device = open_device(0);
    const Stream stream;
    Memory memory;
    Scratch scratch = memory.scratch(scratch_bytes);
    emulator::Counting counting;
    op(memory, {.stream = stream, .scratch = scratch, .device = device});
    stream.synchronize();
    return counting.launches;
}

Row row(const std::string& kernel, const std::string& size, const Counts& counts) {
    return {text("`", kernel, "`"),  size,
            text(counts.products),   fixed(counts.product_flops / 1e9, 6),
            text(counts.wavefronts), text(counts.conflicts)};
}

// ---- attention ----------------------------------------------------------------------------------

/// One head of one sequence.
struct Head {
    std::int64_t dim;
    std::int64_t length;
};

AttentionBackward head_op(const Head& head, Memory& memory) {
    const Shape shape = {1, head.length, 1, head.dim};
    const auto take = [&] { return memory.take(DType::bf16, shape); };
    AttentionBackward op;
    op.forward.q = take();
    op.forward.k = take();
    op.forward.v = take();
    op.forward.o = take();
    op.forward.lse = memory.take(DType::f32, {1, 1, head.length});
    op.d_o = take();
    op.dq = take();
    op.dk = take();
    op.dv = take();
    return op;
}

using RunAttention = std::function<void(const AttentionBackward&, const OpContext&)>;

/// `kernels` are those that the op launches.
void add_attention(const Head& head, bool hopper, const std::vector<std::string>& kernels,
                   const RunAttention& run, std::vector<Row>& rows) {
    const std::int64_t scratch = attention_scratch_bytes({.compute = DType::bf16,
                                                          .sequences = 1,
                                                          .seq_length = head.length,
                                                          .heads = 1,
                                                          .groups = 1,
                                                          .head_dim = head.dim});
    const auto counts = counts_of(hopper, scratch, [&](Memory& memory, const OpContext& context) {
        run(head_op(head, memory), context);
    });
    GPTRAIN_CHECK(counts.size() == kernels.size(), kernels.front(), ": ", counts.size(),
                  " launches");
    for (std::size_t i = 0; i < kernels.size(); ++i)
        rows.push_back(row(kernels[i], text(head.dim, " x ", head.length), counts[i]));
}

void add_attention(const Head& head, std::vector<Row>& rows) {
    const auto forward = [](auto kernel) {
        return [=](const AttentionBackward& op, const OpContext& context) {
            kernel(op.forward, context);
        };
    };
    add_attention(head, false, {"attention/forward.cu"}, forward(portable_attention_forward), rows);
    add_attention(
        head, false,
        {"attention/delta.cu", "attention/backward_queries.cu", "attention/backward_keys.cu"},
        portable_attention_backward, rows);
    add_attention(head, true, {"attention/sm90/forward.cu"}, forward(sm90::attention_forward),
                  rows);
    add_attention(head, true, {"attention/sm90/row_statistics.cu", "attention/sm90/backward.cu"},
                  sm90::attention_backward, rows);
}

// ---- other kernels ------------------------------------------------------------------------------

constexpr std::int64_t tokens = 256;

void add_norm(std::int64_t hidden, std::vector<Row>& rows) {
    const std::string size = text(tokens, " x ", hidden);
    const Shape shape = {tokens, hidden};
    const OpLimits limits = {.compute = DType::bf16,
                             .sequences = 1,
                             .seq_length = tokens,
                             .hidden = hidden,
                             .heads = 1,
                             .head_dim = 64,
                             .widest = hidden};
    const auto backward =
        counts_of(false, norm_scratch_bytes(limits), [&](Memory& memory, const OpContext& context) {
            ResidualNormBackward op;
            op.dn = memory.take(DType::bf16, shape);
            op.r = memory.take(DType::bf16, shape);
            op.dr = memory.take(DType::bf16, shape);
            op.norm.weight = memory.take(DType::bf16, {hidden});
            op.mean = memory.take(DType::f32, {tokens});
            op.rstd = memory.take(DType::f32, {tokens});
            op.dweight = memory.take(DType::f32, {hidden});
            op.dbias = memory.take(DType::f32, {hidden});
            run(op, context);
        });
    rows.push_back(row("norm/backward.cu", size, backward.front()));
    const auto bias =
        counts_of(false, bias_scratch_bytes(limits), [&](Memory& memory, const OpContext& context) {
            run(BiasGrad{.dy = memory.take(DType::bf16, shape),
                         .dbias = memory.take(DType::f32, {hidden})},
                context);
        });
    rows.push_back(row("ops/linear_bias.cu", size, bias.front()));
}

/// Conversion by rows and columns, which transposes tiles in shared memory.
void add_fp8(std::int64_t width, bool sums_rows, std::vector<Row>& rows) {
    const OpLimits limits = {.compute = DType::bf16,
                             .sequences = 1,
                             .seq_length = tokens,
                             .hidden = width,
                             .widest = width};
    const auto counts =
        counts_of(false, fp8_scratch_bytes(limits), [&](Memory& memory, const OpContext& context) {
            ToFp8 op;
            op.x = memory.take(DType::bf16, {tokens, width});
            op.amax = memory.take(DType::f32, {1});
            op.out.rowwise = memory.take(DType::f8e4m3, {tokens, width});
            op.out.columnwise = memory.take(DType::f8e4m3, {width, tokens});
            op.out.scale = memory.take(DType::f32, {1});
            if (sums_rows) op.row_sum = memory.take(DType::f32, {width});
            run(op, context);
        });
    rows.push_back(row(sums_rows ? "ops/fp8.cu, with the sum of rows" : "ops/fp8.cu",
                       text(tokens, " x ", width), counts.front()));
}

/// Conversion by columns, with scales for blocks.
void add_fp8_columns(std::int64_t width, std::vector<Row>& rows) {
    const auto counts = counts_of(false, 0, [&](Memory& memory, const OpContext& context) {
        ToFp8Columns op;
        op.x = memory.take(DType::bf16, {tokens, width});
        op.out.columnwise = memory.take(DType::f8e4m3, {width, tokens});
        op.out.column_scale = memory.take(DType::f32, fp8_row_scales(width, tokens));
        run(op, context);
    });
    rows.push_back(
        row("ops/fp8_blocks.cu, by columns", text(tokens, " x ", width), counts.front()));
}

void add_rope(std::int64_t heads, std::int64_t dim, std::vector<Row>& rows) {
    const auto counts = counts_of(false, 0, [&](Memory& memory, const OpContext& context) {
        run(Rope{.x = memory.take(DType::bf16, {1, tokens, heads, dim}),
                 .positions = memory.take(DType::i32, {1, tokens})},
            context);
    });
    rows.push_back(row("ops/rope.cu", text(tokens, " x ", heads * dim), counts.front()));
}

/// Compilers divide plain accesses in different ways. Matrix instructions must be equal, wavefronts
/// within 2 %, and there may be no more conflicts.
bool agree(const Row& was, const Row& now) {
    const auto number = [](const std::string& cell) { return parse_double(cell).value_or(-1); };
    const double wavefronts = number(was[4]);
    return std::equal(was.begin(), was.begin() + 4, now.begin()) &&
           std::abs(number(now[4]) - wavefronts) <= 0.02 * wavefronts &&
           number(now[5]) <= number(was[5]);
}

int check(bool update) {
    if (!emulator::sees_plain_accesses()) {
        print("not run: plain accesses are not instrumented");
        return 77;
    }
    std::vector<Row> rows;
    add_attention({.dim = 64, .length = 1024}, rows);
    add_attention({.dim = 128, .length = 2048}, rows);
    add_norm(768, rows);
    add_norm(1600, rows);
    add_fp8(3072, false, rows);
    add_fp8(3072, true, rows);
    add_fp8_columns(3072, rows);
    add_rope(32, 64, rows);
    test::DocPage page(GPTRAIN_SOURCES "/docs/kernels.md");
    if (!update) return page.compare(titles, rows, agree) ? 0 : 1;
    page.replace(titles, rows);
    page.write();
    return 0;
}

}  // namespace
}  // namespace gptrain::cuda

int main(int count, char** arguments) {
    try {
        return gptrain::cuda::check(count > 1 && std::string(arguments[1]) == "--update");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
