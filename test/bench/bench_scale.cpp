// The work that grows with the number of ranks, done for real by rank 0 and by one other rank, with
// what all other ranks send or write made by the code that they would run: seconds and bytes.
//
// Arguments: FOLDER RANKS...
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <malloc.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cuda/needs.h"
#include "data/gpt_dataset.h"
#include "data/index_cache.h"
#include "engine/measure.h"
#include "planner/mesh_cost.h"
#include "planner/shipped_plan.h"
#include "scale_rows.h"
#include "schedule/stage_plan.h"
#include "timing.h"

namespace gptrain::bench {

std::int64_t held_bytes() {
    const struct mallinfo2 now = mallinfo2();
    return static_cast<std::int64_t>(now.uordblks + now.hblkhd);
}

void print_row(std::int64_t ranks, std::string_view what, double seconds, std::int64_t bytes) {
    std::printf("{\"ranks\":%lld,\"what\":\"%s\",\"seconds\":%.3e,\"bytes\":%lld}\n",
                static_cast<long long>(ranks), std::string(what).c_str(), seconds,
                static_cast<long long>(bytes));
    std::fflush(stdout);
}

int exit_code_of(const std::function<void()>& work) {
    try {
        work();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_scale: %s\n", error.what());
        return 1;
    }
}

void in_child(const std::function<void()>& work) {
    const pid_t child = ::fork();
    if (child < 0) fail_errno(errno, "fork");
    if (child == 0) ::_exit(exit_code_of(work));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail_errno(errno, "waitpid");
    if (status != 0) fail(ExitCode::bug, "a part ended with status ", status);
}

namespace {

namespace fs = std::filesystem;

/// GPT-3 175B, with as many data ranks as there are.
RunPlan plan_for(std::int64_t ranks) {
    RunSpec spec = test::shipped_spec("gpt175b");
    spec.parallel.tensor = 8;
    spec.parallel.pipeline = std::min<std::int64_t>(ranks / 8, 8);
    spec.parallel.virtual_stages = 1;
    spec.parallel.layers = {};
    spec.parallel.schedule = ScheduleKind::one_f_one_b;
    spec.training.global_batch_size = 1536;
    return make_plan(spec, {.world_size = ranks, .cuda = true, .dry_run = true});
}

/// A start plans what the rank will do, and a dry run what all will.
RunPlan bench_plan(std::int64_t ranks) {
    const std::int64_t before = held_bytes();
    std::optional<RunPlan> plan;
    std::optional<Mesh> mesh;
    const double own = seconds_of([&] {
        plan = plan_for(ranks);
        mesh.emplace(plan->mesh, place_of(0, plan->mesh), mesh_connections(*plan),
                     meter_communicators());
        measure_run(*plan, mesh->place(), cuda::backend_memory());
    });
    print_row(ranks, "start, every rank: plans its steps and communicators", own, 0);
    print_row(ranks, "memory, every rank: its plan and communicators", 0, held_bytes() - before);
    const double all = seconds_of([&] { measure_mesh(*plan, cuda::backend_memory()); });
    print_row(ranks, "a dry run: plans the steps of all ranks", all, 0);
    return std::move(*plan);
}

/// Writes an index of `documents` documents of 100 tokens, and a .bin of that size without data.
void write_index(const fs::path& prefix, std::int64_t documents) {
    constexpr std::int64_t tokens = 100;
    std::string idx("MMIDIDX\0\0", 9);
    const auto put = [&](auto value) {
        idx.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    put(std::uint64_t{1});
    put(std::uint8_t{8});
    put(documents);
    put(documents + 1);
    for (std::int64_t i = 0; i < documents; ++i)
        put(static_cast<std::int32_t>(tokens));
    for (std::int64_t i = 0; i < documents; ++i)
        put(i * tokens * 2);
    for (std::int64_t i = 0; i <= documents; ++i)
        put(i);
    File(prefix.string() + ".idx", File::Mode::create).write(idx);
    File(prefix.string() + ".bin", File::Mode::create).truncate(documents * tokens * 2);
}

/// The order of one pass over the documents, as rank 0 keeps it for later starts.
fs::path write_order(const fs::path& prefix, const fs::path& cache) {
    const auto tokens = std::make_shared<const IndexedDataset>(prefix);
    const OrderOptions options = {.seq_length = 2048, .num_samples = tokens->num_tokens() / 2048};
    const GptDataset order(tokens, {0, tokens->num_sequences()}, options, {cache});
    for (const fs::directory_entry& file : fs::directory_iterator(cache))
        if (file.path().extension() == ".index") return file.path();
    fail(ExitCode::bug, cache.string(), ": no order was kept");
}

void bench_data(const TokenIndex& index, const MappedFile& order, std::int64_t ranks) {
    const Share share = {0, ranks};
    const double documents = least_seconds_of([&] { index.check(share); });
    print_row(ranks, "start, every rank: checks its share of 10 M documents", documents,
              std::ssize(index.idx().bytes()) / ranks);
    const double samples = least_seconds_of([&] { index_crc(order.bytes(), share); });
    print_row(ranks, "start, every rank: checks its share of their sample order", samples,
              std::ssize(order.bytes()) / ranks);
}

void run(int argc, char** argv) {
    const fs::path folder = argv[1];
    write_index(folder / "text", 10'000'000);
    const MappedFile order(write_order(folder / "text", folder / "cache"));
    const TokenIndex index(folder / "text");
    for (int i = 2; i < argc; ++i) {
        const std::int64_t ranks = parse_int(argv[i]).value();
        in_child([&] {
            const RunPlan plan = bench_plan(ranks);
            bench_data(index, order, ranks);
            bench_checkpoint(folder, plan);
        });
    }
}

}  // namespace
}  // namespace gptrain::bench

int main(int argc, char** argv) {
    return gptrain::bench::exit_code_of([&] { gptrain::bench::run(argc, argv); });
}
