#include "ranks.h"

#include <cstdlib>
#include <type_traits>

#include "base/error.h"
#include "watch/watchdog.h"

namespace gptrain::test {
namespace {

/// Calls f(T{}) with the C++ type of the dtype.
void with_type(DType dtype, const auto& f) {
    switch (dtype) {
        case DType::f32: return f(float{});
        case DType::bf16: return f(Bf16{});
        case DType::f16: return f(F16{});
        case DType::f64: return f(double{});
        case DType::i32: return f(std::int32_t{});
        case DType::i64: return f(std::int64_t{});
        case DType::u8: return f(std::uint8_t{});
        default: fail(ExitCode::bug, "no values of ", name_of(dtype));
    }
}

template <class T>
constexpr bool is_16_bit_float = std::is_same_v<T, Bf16> || std::is_same_v<T, F16>;

}  // namespace

namespace {

double hang_seconds() {
    const char* seconds = std::getenv("GPTRAIN_TEST_HANG_SECONDS");
    return seconds == nullptr ? 60 : parse_double(seconds).value();
}

struct WatchedRanks {
    std::unique_ptr<Watchdog> watchdog;  // before the session, whose last call it watches
    MpiSession session;

    WatchedRanks() {
        watchdog =
            std::make_unique<Watchdog>(session, WatchdogOptions{.hang_seconds = hang_seconds(),
                                                                .mesh = {.tensor = session.size()},
                                                                .program = "test"});
        session.set_listener(&watchdog->progress());
    }
};

const WatchedRanks& watched_ranks() {
    static const WatchedRanks ranks;
    return ranks;
}

}  // namespace

const MpiSession& session() {
    return watched_ranks().session;
}

Progress& progress() {
    return watched_ranks().watchdog->progress();
}

std::unique_ptr<Communicator> watched(const CommunicatorFactory& make) {
    return observed(make, progress())({Axis::tp, 0, session().rank(), session().size()});
}

void put(Backend& backend, const Tensor& x, const std::function<double(std::int64_t i)>& value) {
    const Buffer memory = backend.allocate(x.bytes(), MemorySpace::host);
    const Tensor host(memory.data(), x.dtype(), x.shape());
    with_type(x.dtype(), [&]<class T>(T) {
        for (std::int64_t i = 0; i < x.elements(); ++i) {
            T& element = reinterpret_cast<T*>(host.data())[i];
            if constexpr (is_16_bit_float<T>) {
                element = from_float<T>(static_cast<float>(value(i)));
            } else {
                element = static_cast<T>(value(i));
            }
        }
    });
    if (x.elements() > 0) backend.copy(x, host);
    backend.synchronize();
}

std::vector<double> values_of(Backend& backend, const Tensor& x) {
    const Buffer memory = backend.allocate(x.bytes(), MemorySpace::host);
    const Tensor host(memory.data(), x.dtype(), x.shape());
    if (x.elements() > 0) backend.copy(host, x);
    backend.synchronize();
    std::vector<double> values;
    with_type(x.dtype(), [&]<class T>(T) {
        for (std::int64_t i = 0; i < x.elements(); ++i) {
            const T& element = reinterpret_cast<const T*>(host.data())[i];
            if constexpr (is_16_bit_float<T>) {
                values.push_back(to_float(element));
            } else {
                values.push_back(static_cast<double>(element));
            }
        }
    });
    return values;
}

}  // namespace gptrain::test
