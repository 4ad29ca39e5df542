// Staged copies, and those of what waits on the host, in parallel with computation. The emulator's
// streams do their work as late as possible, so a forgotten event shows in the values.
#include <cstring>
#include <numeric>
#include <vector>

#include "catch.h"
#include "cuda/runtime/side_copies.h"
#include "cuda/runtime/staging.h"

namespace gptrain::cuda {
namespace {

/// Owns emulated memory, which starts as NaN in every type.
class Memory {
public:
    explicit Memory(std::int64_t bytes)
        : data_(allocate(bytes, MemorySpace::device)), bytes_(bytes) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { release(data_, MemorySpace::device); }

    std::byte* data() const { return data_; }
    Tensor tensor() const { return {data_, DType::u8, {bytes_}}; }

private:
    std::byte* data_;
    std::int64_t bytes_;
};

class StagedCopies {
public:
    StagedCopies() {
        staging_.use_host(host_.tensor());
        staging_.use_device(device_.tensor());
    }
    void upload(const Memory& to, std::span<const std::int64_t> values) {
        staging_.upload(to.data(), std::as_bytes(values), compute);
    }
    void upload(const Memory& to, std::int64_t value) { upload(to, {&value, 1}); }
    std::vector<std::int64_t> download(const Memory& from, std::int64_t count) {
        std::vector<std::int64_t> values(static_cast<std::size_t>(count));
        staging_.download(std::as_writable_bytes(std::span(values)), from.data(), compute);
        return values;
    }
    Stream compute;

private:
    Memory host_{Staging::all_bytes};
    Memory device_{Staging::all_bytes};
    Staging staging_;
};

constexpr std::int64_t value_bytes = sizeof(std::int64_t);

TEST_CASE("uploads and downloads keep the order of computation", "[copies]") {
    // Cycles through all buffers several times.
    constexpr std::int64_t count = 5 * Staging::buffers;
    StagedCopies copies;
    const Memory batch(value_bytes);
    const Memory seen(count * value_bytes);
    for (std::int64_t i = 0; i < count; ++i) {
        copies.upload(batch, i);
        copy(seen.data() + i * value_bytes, batch.data(), value_bytes, copies.compute);
    }
    std::vector<std::int64_t> right(count);
    std::iota(right.begin(), right.end(), 0);
    CHECK(copies.download(seen, count) == right);
}

TEST_CASE("computation waits for what is uploaded before it", "[copies]") {
    StagedCopies copies;
    const Memory batch(value_bytes);
    copies.upload(batch, 7);
    // Not through a download, which the other stream does after its uploads.
    copies.compute.synchronize();
    std::int64_t value = 0;
    std::memcpy(&value, batch.data(), sizeof value);
    CHECK(value == 7);
}

TEST_CASE("uploads overlap with the computation before them", "[copies]") {
    StagedCopies copies;
    const Memory batch(value_bytes);
    bool computed = false;
    copies.compute.issue([&] { computed = true; });
    // The host waits only until a piece has left its memory, which needs no computation.
    for (std::int64_t i = 0; i <= Staging::buffers; ++i)
        copies.upload(batch, i);
    CHECK_FALSE(computed);
    CHECK(copies.download(batch, 1).front() == Staging::buffers);
    CHECK(computed);
}

TEST_CASE("copies of many buffers arrive whole", "[copies]") {
    constexpr std::int64_t count = (3 * Staging::all_bytes + 24) / value_bytes;
    StagedCopies copies;
    const Memory there(count * value_bytes);
    std::vector<std::int64_t> values(count);
    std::iota(values.begin(), values.end(), 7);
    copies.upload(there, values);
    CHECK(copies.download(there, count) == values);
}

using Direction = SideCopies::Direction;

void set(const Stream& compute, const Memory& memory, std::int64_t value) {
    compute.issue([=, data = memory.data()] { std::memcpy(data, &value, sizeof value); });
}

TEST_CASE("copies beside computation run after what was issued before, and before what joins them",
          "[copies]") {
    for (const emulator::Haste haste : {emulator::Haste::none, emulator::Haste::all}) {
        emulator::haste() = haste;
        const Stream compute;
        SideCopies copies;
        const Memory window(value_bytes);
        constexpr std::int64_t count = 20;
        const Memory host(count * value_bytes);
        const Memory seen(count * value_bytes);
        const auto twin = [&](std::int64_t i) {
            return HostTwin{window.tensor(), host.tensor().slice(0, i * value_bytes, value_bytes)};
        };
        for (std::int64_t i = 0; i < count; ++i) {
            set(compute, window, i);
            const HostTwin leaving = twin(i);
            copies.join(copies.start(Direction::to_host, {&leaving, 1}, compute), compute);
        }
        for (std::int64_t i = count; i-- > 0;) {
            const HostTwin arriving = twin(i);
            copies.join(copies.start(Direction::to_device, {&arriving, 1}, compute), compute);
            copy(seen.data() + i * value_bytes, window.data(), value_bytes, compute);
        }
        compute.synchronize();
        std::vector<std::int64_t> values(count);
        std::memcpy(values.data(), seen.data(), count * value_bytes);
        std::vector<std::int64_t> right(count);
        std::iota(right.begin(), right.end(), 0);
        CHECK(values == right);
    }
    emulator::haste() = emulator::Haste::none;
}

TEST_CASE("computation goes on beside copies, and directions beside each other", "[copies]") {
    const Stream compute;
    SideCopies copies;
    const Memory one(value_bytes);
    const Memory other(value_bytes);
    const Memory host(2 * value_bytes);
    set(compute, one, 1);
    const HostTwin leaving = {one.tensor(), host.tensor().slice(0, 0, value_bytes)};
    const std::int64_t stored = copies.start(Direction::to_host, {&leaving, 1}, compute);
    const std::int64_t two = 2;
    std::memcpy(host.data() + value_bytes, &two, sizeof two);
    const HostTwin arriving = {other.tensor(), host.tensor().slice(0, value_bytes, value_bytes)};
    const std::int64_t fetched = copies.start(Direction::to_device, {&arriving, 1}, compute);
    const auto value_of = [](const std::byte* data) {
        std::int64_t value = 0;
        std::memcpy(&value, data, sizeof value);
        return value;
    };
    compute.synchronize();
    CHECK(value_of(host.data()) == -1);
    CHECK(value_of(other.data()) == -1);
    copies.join(fetched, compute);
    compute.synchronize();
    CHECK(value_of(other.data()) == 2);
    CHECK(value_of(host.data()) == -1);
    copies.join(stored, compute);
    compute.synchronize();
    CHECK(value_of(host.data()) == 1);
    CHECK(copies.take_waited() > 0);
    CHECK(copies.take_waited() == 0);
}

}  // namespace
}  // namespace gptrain::cuda
