#include "backend/passing_backend.h"

#include "catch.h"
#include "support/host_backend.h"

namespace gptrain {
namespace {

/// Answers every question differently from the defaults.
class Device final : public HostBackend {
public:
    Device() { host_memory = false; }
    std::int64_t scratch_bytes(const OpLimits&) const override { return 1; }
    std::int64_t staging_bytes() const override { return 2; }
    std::int64_t bytes_outside_arenas() const override { return 3; }
    std::int64_t reserve_bytes() const override { return 4; }
    std::optional<std::int64_t> free_bytes() const override { return 5; }
    std::int64_t row_alignment() const override { return 6; }
    std::int64_t mark() override { return 7; }
    std::int64_t fetch(std::span<const HostTwin> /*twins*/) override { return 8; }
    std::int64_t store(std::span<const HostTwin> /*twins*/) override { return 9; }
    void join(std::int64_t copies) override { joined = copies; }
    std::int64_t joined = 0;
    bool can_tune() const override { return true; }
    std::string tune(const std::function<void()>&) override { return "choices"; }
    bool set_choices(std::string_view) override { return false; }
    bool loads_code_late() const override { return true; }
};

class Watcher final : public EachOp<PassingBackend, Watcher> {
public:
    explicit Watcher(Backend& inner) : EachOp<PassingBackend, Watcher>(inner) {}
    template <class Op>
    void on(const Op& op) {
        inner().run(op);
    }
};

TEST_CASE("a backend that watches another one says of itself what the other one does") {
    Device device;
    Watcher watcher(device);
    CHECK(watcher.name() == device.name());
    const BackendMemory memory = memory_of(watcher);
    CHECK(memory.scratch({}) == 1);
    CHECK(memory.staging == 2);
    CHECK(memory.reserve == 4);
    CHECK_FALSE(memory.messages_on_host);
    CHECK(memory.row_alignment == 6);
    CHECK(watcher.bytes_outside_arenas() == 3);
    CHECK(watcher.free_bytes() == 5);
    CHECK(watcher.mark() == 7);
    CHECK(watcher.fetch({}) == 8);
    CHECK(watcher.store({}) == 9);
    watcher.join(10);
    CHECK(device.joined == 10);
    CHECK(watcher.can_tune());
    CHECK(watcher.tune({}) == "choices");
    CHECK_FALSE(watcher.set_choices(""));
    CHECK(watcher.loads_code_late());
}

}  // namespace
}  // namespace gptrain
