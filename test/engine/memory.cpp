#include <functional>
#include <string>
#include <vector>

#include "catch.h"
#include "engine/memory_check.h"
#include "spec/fit_advice.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::fill;
using test::TempFolder;

void fill_below(const TempFolder& root, const std::string& path, const std::string& contents) {
    const std::filesystem::path file = root.path() / path;
    std::filesystem::create_directories(file.parent_path());
    fill(file, contents);
}

std::int64_t available(const std::vector<MemoryLimit>& limits, const std::string& words) {
    for (const MemoryLimit& limit : limits)
        if (test::contains(limit.name, words)) return limit.available;
    return -1;
}

TEST_CASE("memory is bounded by the machine and by control groups of version 2") {
    const TempFolder root;
    fill_below(root, "proc/meminfo", "MemTotal: 100 kB\nMemAvailable:      64 kB\n");
    fill_below(root, "proc/self/cgroup", "0::/job/step\n");
    fill_below(root, "sys/fs/cgroup/job/memory.max", "50000\n");
    fill_below(root, "sys/fs/cgroup/job/memory.current", "30000\n");
    fill_below(root, "sys/fs/cgroup/job/memory.stat",
               "anon 1\ninactive_file 4000\nactive_file 100\n");
    fill_below(root, "sys/fs/cgroup/job/step/memory.max", "max\n");
    fill_below(root, "sys/fs/cgroup/job/step/memory.current", "30000\n");
    const auto limits = host_memory_limits(root.path());
    CHECK(available(limits, "MemAvailable") == 64 * 1024);
    CHECK(available(limits, "cgroup/job") == 50000 - 30000 + 4100);
    CHECK(available(limits, "job/step") == -1);
}

TEST_CASE("control groups of version 1 bound memory, whose path may be that outside a container") {
    const TempFolder root;
    fill_below(root, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/outside/job\n0::/\n");
    const std::string mount = "sys/fs/cgroup/memory/";
    fill_below(root, mount + "memory.limit_in_bytes", "1000\n");
    fill_below(root, mount + "memory.usage_in_bytes", "900\n");
    fill_below(root, mount + "memory.stat", "inactive_file 7\ntotal_inactive_file 300\n");
    CHECK(available(host_memory_limits(root.path()), "memory.limit_in_bytes") == 400);
    fill_below(root, mount + "memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(available(host_memory_limits(root.path()), "memory.limit_in_bytes") == -1);
    fill_below(root, mount + "memory.limit_in_bytes", "500\n");
    CHECK(available(host_memory_limits(root.path()), "memory.limit_in_bytes") == 0);
}

TEST_CASE("a device keeps memory for its libraries, however much they have taken") {
    constexpr std::int64_t mib = std::int64_t{1} << 20;
    CHECK(device_reserve(1024 * mib, 300 * mib) == 724 * mib);
    CHECK(device_reserve(1024 * mib, 900 * mib) == 256 * mib);
    CHECK(device_reserve(1024 * mib, 3000 * mib) == 256 * mib);
}

TEST_CASE("ranks share the memory of their machine, and have their own limits alone") {
    const MemoryLimit machine = {"machine", 100, false};
    const MemoryLimit own = {"own", 50, true};
    const auto rank = [&](int node, std::int64_t bytes) {
        return RankClaims{node, "host" + std::to_string(node), {{machine, bytes}, {own, bytes}}};
    };
    CHECK_FALSE(find_shortage(std::vector{rank(0, 50), rank(0, 50), rank(2, 50)}));
    const auto machine_short =
        find_shortage(std::vector{rank(0, 50), rank(1, 40), rank(1, 30), rank(1, 45)});
    REQUIRE(machine_short);
    CHECK(machine_short->limit == "machine");
    CHECK(machine_short->host == "host1");
    CHECK(machine_short->ranks == 3);
    CHECK(machine_short->needed == 115);
    CHECK(machine_short->available == 100);
    const auto own_short = find_shortage(std::vector{rank(0, 20), rank(0, 51)});
    REQUIRE(own_short);
    CHECK(own_short->limit == "own");
    CHECK(own_short->ranks == 1);
}

TEST_CASE("the largest number that fits is found in few tries") {
    int tries = 0;
    const auto up_to = [&](std::int64_t most) {
        return largest_that_fits(1, 100'000, [&](std::int64_t number) {
            ++tries;
            return number <= most;
        });
    };
    for (const std::int64_t most : {0, 1, 2, 777, 99'999, 100'000})
        CHECK(up_to(most) == most);
    CHECK(up_to(200'000) == 100'000);
    CHECK(tries <= 7 * 17);
}

RunSpec spec_of(std::int64_t micro_batch_size, const std::string& more) {
    return parse_run_spec(
        "name: a\noutput_dir: b\nmodel: {num_layers: 4, hidden_size: 8, num_attention_heads: 2, "
        "vocab_size: 16}\ndata: {train: [{prefix: c}]}\ntraining: {steps: 1, seq_length: 4, "
        "micro_batch_size: " +
            std::to_string(micro_batch_size) + more + "}\n",
        "spec");
}

TEST_CASE("what would fit keeps the global batch, or recomputes more") {
    const auto up_to = [](std::int64_t most, std::int64_t most_full) {
        return [=](const RunPlan& plan) {
            return plan.micro_batch_size <= (plan.recompute == Recompute::full ? most_full : most);
        };
    };
    CHECK(fit_advice(spec_of(100, ""), {}, up_to(37, 37)) ==
          "what would fit: training.micro_batch_size 37, or training.micro_batch_size 37 with "
          "recompute full");
    CHECK(fit_advice(spec_of(100, ", global_batch_size: 200"), {}, up_to(39, 100)) ==
          "what would fit: training.micro_batch_size 25, or recompute full");
    CHECK(fit_advice(spec_of(4, ""), {}, up_to(0, 1)) ==
          "what would fit: training.micro_batch_size 1 with recompute full");
    CHECK(test::contains(fit_advice(spec_of(4, ""), {}, up_to(0, 0)), "nothing would fit"));
}

}  // namespace
}  // namespace gptrain
