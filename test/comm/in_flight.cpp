#include "in_flight.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/text.h"

namespace gptrain::test {
namespace {

constexpr std::byte poison{0xFF};

void for_each_run(const ByteRuns& runs, const auto& f) {
    for (std::int64_t run = 0; run < runs.count; ++run)
        f(std::span(runs[run], static_cast<std::size_t>(runs.bytes)));
}

std::uint32_t checksum(const ByteRuns& runs) {
    std::uint32_t sum = 0;
    for_each_run(runs, [&](auto bytes) { sum = crc32c(bytes.data(), bytes.size(), sum); });
    return sum;
}

bool is_poisoned(const ByteRuns& runs) {
    bool all = true;
    for_each_run(runs, [&](auto bytes) {
        all = all && std::all_of(bytes.begin(), bytes.end(),
                                 [](std::byte byte) { return byte == poison; });
    });
    return all;
}

ByteRuns runs_in(const Place& place) {
    const bool none = place.tensor.empty() || place.tensor.elements() == 0;
    return none ? ByteRuns{} : runs_of(place.tensor, place.dim);
}

bool overlap(const ByteRuns& a, const ByteRuns& b) {
    if (a.total() == 0 || b.total() == 0) return false;
    const auto end = [](const ByteRuns& runs) { return runs[runs.count - 1] + runs.bytes; };
    return a.data < end(b) && b.data < end(a);
}

}  // namespace

bool overlap(const Place& a, const Place& b) {
    return overlap(runs_in(a), runs_in(b));
}

InFlight::Side::Side(const Place& place)
    : runs(runs_in(place)),
      memory(static_cast<std::size_t>(runs.total())),
      copy(memory.data(), place.tensor.dtype(), place.tensor.shape()) {}

InFlight::InFlight(std::string name, const Place& source, const Place& target)
    : name_(std::move(name)), source_(source), target_(target) {
    if (overlap(source_.runs, target_.runs)) read();
    for_each_run(target_.runs, [](auto bytes) { std::fill(bytes.begin(), bytes.end(), poison); });
    checksum_ = checksum(source_.runs);
}

const Tensor& InFlight::read() {
    if (!std::exchange(has_read_, true)) copy_runs(source_.own(), source_.runs);
    return source_.copy;
}

void InFlight::land(std::string_view where) {
    const auto refuse = [&](std::string_view what) {
        const std::string message =
            text(name_, ": ", what, " before its wait", where.empty() ? "" : " in ", where);
        // A dropped message is waited for by a destructor, whose Error would not be reported.
        warn(message);
        fail(ExitCode::bug, message);
    };
    if (!is_poisoned(target_.runs)) refuse("memory that it writes was written");
    if (checksum(source_.runs) != checksum_) refuse("memory that it reads was written");
    copy_runs(target_.runs, target_.own());
}

}  // namespace gptrain::test
