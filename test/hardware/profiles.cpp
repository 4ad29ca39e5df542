// Reading hardware profiles: the program's own, and mistakes in others.
#include "base/error.h"
#include "catch.h"
#include "hardware/load_profile.h"
#include "hardware/message_time.h"
#include "hardware/op_time.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

const std::string least = R"(name: mine
kind: cuda
device:
  memory: 80e9
  memory_bandwidth: 2e12
  peak_flops: {fp32: 1e13, bf16: 3e14}
  attention: [{head_dim: 64, forward: 1e14, backward: 1e14}]
node:
  devices: 8
  link: {bandwidth: 2e11, latency: 3e-6}
)";

std::string mistake(const std::string& yaml) {
    try {
        parse_profile(yaml, "mine.yaml");
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::usage);
        return error.what();
    }
    return "none";
}

std::string with(const std::string& old_text, const std::string& new_text) {
    std::string yaml = least;
    return yaml.replace(yaml.find(old_text), old_text.size(), new_text);
}

}  // namespace

TEST_CASE("the profiles of the program can be read") {
    const auto names = profile_names();
    const std::vector<std::string_view> all = {"a100-40gb", "a100-80gb", "b200",     "cpu",
                                               "h100-pcie", "h100-sxm",  "h200-sxm", "l40s",
                                               "rtx-3090",  "rtx-4090",  "rtx-5090"};
    CHECK(names == all);
    for (const std::string_view name : names) {
        CAPTURE(name);
        const HardwareProfile profile = load_profile(std::string(name));
        CHECK(profile.name == name);
        CHECK(profile.device.peak_flops.of(DType::bf16) *
                  profile.device.gemm_efficiency.of(DType::bf16) >
              0);
        CHECK(profile.node.network);
        CHECK_FALSE(profile.calibrated);
        CHECK(profile.assumed == std::vector<std::string>());
    }
}

TEST_CASE("a part of a profile's name means it") {
    CHECK(profile_meant("h100-sxm") == "h100-sxm");
    CHECK(profile_meant("h100") == "h100-sxm");
    CHECK(profile_meant("A100") == "a100-80gb");
    CHECK(profile_meant("CPU") == "cpu");
    CHECK(profile_meant("H100-PCIe") == "h100-pcie");
    CHECK(profile_meant("RTX-3090") == "rtx-3090");
    CHECK(profile_meant("4090") == "rtx-4090");
    for (const char* unknown : {"h1", "h100-", "h100-nvl", "sxm", "rtx", "409", "", "mine.yaml"}) {
        CAPTURE(unknown);
        CHECK(profile_meant(unknown).empty());
    }
    CHECK(profiles_by_kind("h100-sxm") ==
          "GPUs a100-40gb, a100-80gb, b200, h100-pcie, h200-sxm, l40s, rtx-3090, rtx-4090, "
          "rtx-5090; CPUs cpu");
}

TEST_CASE("no profile of the program promises what no device can do") {
    // FP8 takes at least half the time of bf16, fp32 more than bf16, attention more than GEMMs, and
    // a byte over a link more than a byte of memory.
    for (const std::string_view name : profile_names()) {
        CAPTURE(name);
        const HardwareProfile profile = load_profile(std::string(name));
        const DeviceProfile& device = profile.device;
        CHECK(device.peak_flops.fp32 < device.peak_flops.bf16);
        CHECK(device.peak_flops.fp8 < 2.1 * device.peak_flops.bf16);
        CHECK(profile.node.link.bandwidth < device.memory_bandwidth);
        CHECK(profile.watts > 0);
        for (const AttentionRate& rate : device.attention) {
            CHECK(rate.backward <= rate.forward);
            CHECK(rate.forward < device.peak_flops.bf16);
        }
    }
}

TEST_CASE("a GPU without FP8 has no time for it") {
    const OpWork gemm = {.kind = OpWork::Kind::gemm,
                         .dtype = DType::f8e4m3,
                         .name = "linear_forward",
                         .rows = 4096,
                         .cols = 4096,
                         .length = 4096,
                         .flops = 2.0 * 4096 * 4096 * 4096};
    for (const char* ampere : {"a100-40gb", "a100-80gb", "rtx-3090"}) {
        CAPTURE(ampere);
        CHECK_THROWS_WITH(op_seconds(load_profile(ampere).device, gemm),
                          contains_text("the profile's device has no GEMMs in "));
    }
    const double ada = op_seconds(load_profile("rtx-4090").device, gemm);
    CHECK(ada == Approx(2.0 * 4096 * 4096 * 4096 / 300e12).epsilon(0.2));
}

TEST_CASE("efficiencies that a profile leaves out get cautious values") {
    const HardwareProfile profile = parse_profile(
        with("  peak_flops", "  gemm_efficiency: {bf16: 0.9}\n  peak_flops"), "mine.yaml");
    CHECK(profile.assumed == std::vector<std::string>{
                                 "device.memory_efficiency 0.75", "device.gemm_efficiency.fp32 0.6",
                                 "device.op_seconds 4e-06", "device.issue_seconds 6e-06"});
    CHECK(profile.device.memory_efficiency == 0.75);
    CHECK(profile.device.gemm_efficiency.fp32 == 0.6);
    CHECK(profile.device.gemm_efficiency.bf16 == 0.9);
    CHECK(profile.device.op_seconds == 4e-6);
    CHECK(profile.device.issue_seconds == 6e-6);
    CHECK(parse_profile(with("kind: cuda", "kind: cpu"), "mine.yaml").device.issue_seconds == 0);
    // Measured ops have no efficiencies.
    const HardwareProfile measured = parse_profile(
        with("node:", "  measured: [{op: rope, bytes: 8, seconds: 1e-6}]\nnode:"), "mine.yaml");
    CHECK(measured.calibrated);
    CHECK(measured.assumed.empty());
    CHECK(measured.device.memory_efficiency == 1);
}

TEST_CASE("the program's profile for CPUs is corrected for the cores used") {
    HardwareProfile used = load_profile("cpu");
    used.node.devices = 2;
    used.node.network.reset();
    used.device.memory = 3e9;
    const HardwareProfile learned =
        parse_profile(corrected_profile("cpu", 1.5, "measured here", used), "learned.yaml");
    CHECK(learned.calibrated);
    CHECK(learned.correction == 1.5);
    CHECK(learned.node.devices == 2);
    CHECK(learned.device.memory == 3e9);
    CHECK_FALSE(learned.node.network);
}

TEST_CASE("the keys that are left out have their defaults") {
    const HardwareProfile profile = parse_profile(least, "mine.yaml");
    CHECK(profile.device.memory == 80e9);
    CHECK(profile.node.link.latency == 3e-6);
    CHECK(!profile.node.network);
    CHECK(profile.software.in_order);
    CHECK(profile.device.peak_flops.of(DType::f8e5m2) == 0);
}

TEST_CASE("a mistake in a profile is named with its place") {
    CHECK(
        mistake(with("memory: 80e9", "memory: big")) ==
        "mine.yaml:4:11: device.memory: found big, must be a number above 0 to 1e+30; write plain "
        "decimal digits");
    CHECK(mistake(with("  peak_flops", "  memory_efficiency: 88\n  peak_flops")) ==
          "mine.yaml:6:22: device.memory_efficiency: found 88, must be a number above 0 to 1");
    for (const char* share : {"gemm_efficiency: {bf16: 80}", "spread: 1.5",
                              "gemm_tiles: [{rows: 128, cols: 64, speed: 95}]"})
        CHECK_THAT(mistake(with("  peak_flops", text("  ", share, "\n  peak_flops"))),
                   contains_text("mine.yaml:6:") && contains_text("found "));
    CHECK_THAT(mistake(with("latency: 3e-6", "latency: 3e-6, reduction: 76")),
               contains_text("node.link.reduction: found 76"));
    CHECK_THAT(mistake(least + "software: {speed: 90}\n"), contains_text("software.speed"));
    CHECK_THAT(mistake(least + "software: {slowdown: 18}\n"), contains_text("software.slowdown"));
    CHECK_THAT(mistake(with("memory_bandwidth", "memory_bandwith")),
               contains_text("mine.yaml:5:3: device.memory_bandwith: unknown key; nearest: "
                             "device.memory_bandwidth"));
    CHECK_THAT(mistake(with("kind: cuda", "kind: auto")), contains_text("cpu or cuda"));
    CHECK_THAT(mistake(with("  devices: 8\n", "")), contains_text("node.devices: missing key"));
    CHECK_THAT(mistake(""), contains_text("mine.yaml:1:1: name: missing key"));
}

TEST_CASE("an unknown name lists the profiles") {
    try {
        load_profile("h1000");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK_THAT(error.what(),
                   contains_text("--hardware h1000") &&
                       contains_text("GPUs a100-40gb, a100-80gb, b200, h100-pcie, h100-sxm, "
                                     "h200-sxm, l40s, rtx-3090, rtx-4090, rtx-5090; CPUs cpu"));
    }
}

TEST_CASE("a correction makes everything take longer, and replaces the one before") {
    const HardwareProfile plain = parse_profile(least, "mine.yaml");
    const HardwareProfile slow = parse_profile(least + "correction: 2\n", "mine.yaml");
    const OpWork gemm = {.kind = OpWork::Kind::gemm,
                         .dtype = DType::bf16,
                         .name = "linear_forward",
                         .rows = 4096,
                         .cols = 4096,
                         .length = 4096,
                         .flops = 2.0 * 4096 * 4096 * 4096,
                         .bytes = 3.0 * 2 * 4096 * 4096};
    CHECK(op_seconds(slow.device, gemm) == Approx(2 * op_seconds(plain.device, gemm)));
    const GroupLayout group = {.size = 8, .per_node = 8};
    CHECK(message_seconds(slow.node, group, "all_reduce", 1e6) ==
          Approx(2 * message_seconds(plain.node, group, "all_reduce", 1e6)));
    CHECK(slow.device.peak_flops.bf16 == plain.device.peak_flops.bf16);

    const std::string once = corrected_profile("a100-80gb", 1.5, "measured here");
    CHECK(once.find("# correction: measured here\ncorrection: 1.5000\n") != std::string::npos);
    const TempFolder folder;
    const auto file = folder.path() / "mine.yaml";
    fill(file, once);
    const std::string twice = corrected_profile(file.string(), 1.25, "measured there");
    CHECK(twice.find("measured here") == std::string::npos);
    CHECK(parse_profile(twice, "twice.yaml").correction == 1.25);

    const std::string in_braces =
        R"({name: mine, kind: cuda, correction: 3, node: {devices: 8, link: {bandwidth: 2e11, latency: 3e-6}},
device: {memory: 80e9, memory_bandwidth: 2e12, peak_flops: {fp32: 1e13},
attention: [{head_dim: 64, forward: 1e14, backward: 1e14}]}})";
    for (const std::string& before :
         {least + "correction : 2\n", least + "\"correction\": 2\n", least + "correction:\n  2\n",
          "correction: 2 # high\n" + least, least, "# mine\n" + in_braces,
          "{\n" + in_braces.substr(1)}) {
        CAPTURE(before);
        fill(file, before);
        const std::string after = corrected_profile(file.string(), 1.5, "measured here");
        const HardwareProfile read = parse_profile(after, "after.yaml");
        CHECK(read.correction == 1.5);
        CHECK(read.name == "mine");
        CHECK(read.node.link.latency == Approx(1.5 * 3e-6));
    }
}

}  // namespace gptrain::test
