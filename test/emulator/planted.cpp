#include "emulator/planted.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "emulator/grid.h"

namespace gptrain::test {

using namespace cuda;

namespace {

/// Floats that kernels can access.
class DeviceFloats {
public:
    explicit DeviceFloats(std::int64_t count)
        : count_(count),
          data_(reinterpret_cast<float*>(allocate(count * 4, MemorySpace::device))) {}
    DeviceFloats(const DeviceFloats&) = delete;
    DeviceFloats& operator=(const DeviceFloats&) = delete;
    ~DeviceFloats() { release(reinterpret_cast<std::byte*>(data_), MemorySpace::device); }
    float* data() const { return data_; }
    std::vector<float> values() const { return {data_, data_ + count_}; }

private:
    std::int64_t count_;
    float* data_;
};

/// The results of a kernel that maps `in` to `out` in the orders in which it does not fail, and the
/// messages of the others.
struct Outcome {
    std::vector<std::vector<float>> results;
    std::vector<std::string> errors;
};

Outcome run(Kernel kernel, Version version, const LaunchShape& shape, bool races = true,
            int major = 9) {
    Outcome outcome;
    for (const auto order :
         {emulator::Order::ascending, emulator::Order::descending, emulator::Order::shuffled}) {
        emulator::settings() = {
            .order = order, .major = major, .minor = 0, .shared_bytes = 227 << 10, .races = races};
        const DeviceFloats in(4096);
        const DeviceFloats out(4096);
        for (int i = 0; i < 4096; ++i)
            in.data()[i] = static_cast<float>(i % 61 - 30);
        std::memset(out.data() + counter_place, 0, 2 * sizeof(float));
        try {
            const Stream stream;
            launch(stream, shape, kernel, version, in.data(), out.data());
            stream.synchronize();
        } catch (const Error& error) {
            outcome.errors.emplace_back(error.what());
            continue;
        }
        outcome.results.push_back(out.values());
    }
    return outcome;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool orders_agree(const Outcome& outcome) {
    return same_bits(outcome.results[0], outcome.results[1]) &&
           same_bits(outcome.results[0], outcome.results[2]);
}

/// The correct version runs, gives the same results in all orders, and writes numbers.
void check_right(Kernel kernel, const LaunchShape& shape) {
    const Outcome outcome = run(kernel, Version::right, shape);
    REQUIRE(outcome.errors == std::vector<std::string>());
    CHECK(orders_agree(outcome));
    CHECK(std::isfinite(outcome.results[0][0]));
}

}  // namespace

std::string error_of(Kernel kernel, Version version, const LaunchShape& shape, int major) {
    const std::vector<std::string> errors = run(kernel, version, shape, true, major).errors;
    return errors.empty() ? "" : errors[0];
}

void check_visible(Kernel kernel, const LaunchShape& shape) {
    check_right(kernel, shape);
    const std::vector<float> expected = run(kernel, Version::right, shape).results[0];
    const Outcome outcome = run(kernel, Version::planted, shape, false);
    REQUIRE(outcome.errors == std::vector<std::string>());
    bool differs = false;
    for (const auto& result : outcome.results)
        differs = differs || !same_bits(result, expected);
    CHECK(differs);
}

void check_refused(Kernel kernel, const LaunchShape& shape, const std::string& words) {
    check_right(kernel, shape);
    const Outcome outcome = run(kernel, Version::planted, shape);
    CAPTURE(outcome.errors);
    REQUIRE(outcome.results.empty());
    CHECK(outcome.errors[0].find(words) != std::string::npos);
}

void check_race(Kernel kernel, const LaunchShape& shape, const std::string& words) {
    if (emulator::sees_plain_accesses()) check_refused(kernel, shape, words);
}

}  // namespace gptrain::test
