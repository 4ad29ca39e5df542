// Buffers, arenas, scratch memory and plans of memory.
#include "backend/memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/scratch.h"
#include "catch.h"
#include "support/host_backend.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

std::int64_t offset(const Tensor& from, const Tensor& to) {
    return to.data() - from.data();
}

/// Has this much memory, and records what is returned.
class LimitedBackend final : public HostBackend {
public:
    explicit LimitedBackend(std::int64_t bytes) : left_(bytes) {}
    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        if (bytes > left_) fail(ExitCode::usage, "not enough memory");
        left_ -= bytes;
        return Buffer(*this, space, static_cast<std::byte*>(std::malloc(1)), bytes);
    }
    std::vector<std::pair<std::int64_t, MemorySpace>> released;

private:
    void release(std::byte* data, std::int64_t bytes, MemorySpace space) noexcept override {
        std::free(data);
        released.emplace_back(bytes, space);
    }
    std::int64_t left_;
};

}  // namespace

TEST_CASE("a buffer frees its memory once, wherever it was moved") {
    LimitedBackend backend(1000);
    {
        Buffer first = backend.allocate(10, MemorySpace::host);
        Buffer second = backend.allocate(20, MemorySpace::device);
        Buffer third = std::move(first);
        third = std::move(second);
        CHECK(third.bytes() == 20);
        CHECK(backend.released.empty());
    }
    REQUIRE(backend.released.size() == 2);
    std::sort(backend.released.begin(), backend.released.end());
    CHECK(backend.released[0] == std::pair{std::int64_t{10}, MemorySpace::host});
    CHECK(backend.released[1] == std::pair{std::int64_t{20}, MemorySpace::device});
}

TEST_CASE("an arena hands out aligned tensors up to its capacity") {
    HostBackend backend;
    Arena arena(backend, MemorySpace::device, "tested", 1024);
    const Tensor a = arena.allocate(DType::f32, {3});
    const Tensor none = arena.allocate(DType::f32, {0, 5});
    const Tensor b = arena.allocate(DType::bf16, {129});  // 258 bytes
    CHECK(offset(a, none) == 256);
    CHECK(offset(a, b) == 256);
    CHECK(arena.used() == 768);
    CHECK(contains(message_of(ExitCode::bug, [&] { (void)arena.allocate(DType::u8, {257}); }),
                   "arena 'tested' is full: 1024 bytes, 768 in use, 512 requested"));
    CHECK(offset(a, arena.allocate(DType::u8, {256})) == 768);
    CHECK(arena.used() == arena.capacity());
    // 2^64 elements, and 2^61 of 8 bytes.
    CHECK_THROWS_AS(arena.allocate(DType::u8, {INT64_MAX, 3}), Error);
    CHECK_THROWS_AS(arena.allocate(DType::f64, {std::int64_t{1} << 61}), Error);
    CHECK(arena.used() == arena.capacity());
}

TEST_CASE("an arena frame gives back what was allocated in it, and the peak stays") {
    HostBackend backend;
    Arena arena(backend, MemorySpace::device, "tested", 1024);
    const Tensor kept = arena.allocate(DType::u8, {1});
    {
        const ArenaFrame outer(arena);
        (void)arena.allocate(DType::u8, {1});
        {
            const ArenaFrame inner(arena);
            (void)arena.allocate(DType::u8, {300});
        }
        CHECK(arena.used() == 512);
    }
    CHECK(arena.used() == 256);
    CHECK(offset(kept, arena.allocate(DType::u8, {1})) == 256);
    CHECK(arena.peak() == 1024);
}

TEST_CASE("scratch memory starts over with each op, and has as much as promised") {
    std::vector<std::byte> memory(1024);
    Scratch scratch(memory.data(), std::ssize(memory));
    CHECK(Scratch::bytes_of<float>(65) == 512);
    auto* first = scratch.take<float>(65);
    auto* second = scratch.take<std::int64_t>(1);
    CHECK(reinterpret_cast<std::byte*>(first) == memory.data());
    CHECK(reinterpret_cast<std::byte*>(second) == memory.data() + 512);
    CHECK(contains(message_of(ExitCode::bug, [&] { scratch.take_bytes(257); }),
                   "an op needs 1280 bytes of scratch, but only 1024 are available"));
    scratch.reset();
    CHECK(scratch.take_bytes(1024) == memory.data());
    CHECK_THROWS_AS(Scratch().take_bytes(1), Error);
    CHECK_THROWS_AS(scratch.use(Tensor(memory.data(), DType::f32, {2})), Error);
}

TEST_CASE("a memory plan adds up the uses, on the device and on the host") {
    MemoryPlan plan;
    plan[MemoryUse::weights] = 1 << 20;
    plan[MemoryUse::saved] = 2 << 20;
    plan[MemoryUse::snapshot] = 4 << 20;
    plan[MemoryUse::messages] = 8 << 20;
    CHECK(plan.total() == 15 << 20);
    CHECK(plan.on_device() == 3 << 20);
    CHECK(to_text(plan) ==
          "weights 1.00 MiB, saved activations 2.00 MiB, host messages 8.00 MiB, checkpoint "
          "snapshot 4.00 MiB, total 3.00 MiB on the device, 12.00 MiB on the host");
    for (int i = 0; i < memory_uses; ++i)
        CHECK(name_of(static_cast<MemoryUse>(i)) != "?");
}

TEST_CASE("a run takes what its plan has for each use; too little memory names the plan") {
    MemoryPlan plan;
    plan[MemoryUse::weights] = 512;
    plan[MemoryUse::readback] = 256;
    plan[MemoryUse::messages] = 1 << 20;  // taken by communicators
    LimitedBackend enough(768);
    {
        Memory memory(enough, plan);
        CHECK(memory[MemoryUse::weights].capacity() == 512);
        CHECK(memory[MemoryUse::readback].capacity() == 256);
        CHECK(memory[MemoryUse::messages].capacity() == 0);
        (void)memory[MemoryUse::weights].allocate(DType::u8, {1});
        MemoryPlan used;
        used[MemoryUse::weights] = 256;
        CHECK(memory.peaks() == used);
    }
    for (const auto& [bytes, space] : enough.released)
        if (bytes > 0) CHECK((space == MemorySpace::host) == (bytes == 256));
    LimitedBackend little(767);
    CHECK(contains(message_of(ExitCode::usage, [&] { Memory(little, plan); }),
                   "not enough memory; the plan: weights 512 B, "));
}

}  // namespace gptrain::test
