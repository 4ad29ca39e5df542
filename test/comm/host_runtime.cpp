#include "host_runtime.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/probe.h"
#include "cuda/runtime/runtime.h"

namespace gptrain {
namespace test {
namespace {

int& number_in(void* handle) {
    return *static_cast<int*>(handle);
}

struct FakeEvent {
    int stream = 0;             ///< on which it was last recorded
    std::int64_t recorded = 0;  ///< after how many others
};
FakeEvent& event_in(void* handle) {
    return *static_cast<FakeEvent*>(handle);
}

std::int64_t events_recorded = 0;
std::int64_t events_before_hold = 0;
std::atomic<std::int64_t> events_passed = std::numeric_limits<std::int64_t>::max();

}  // namespace

void hold_device_at(std::int64_t events) {
    events_passed = events_before_hold + events;
}
void let_device_run() {
    events_before_hold = events_recorded;
    events_passed = std::numeric_limits<std::int64_t>::max();
}

std::vector<std::string>& issued() {
    static std::vector<std::string> all;
    return all;
}

int number_of(const void* stream) {
    return *static_cast<const int*>(stream);
}

std::set<int>& urgent_streams() {
    static std::set<int> numbers;
    return numbers;
}

std::function<void()>& asked_while_waiting() {
    static std::function<void()> poll;
    return poll;
}

std::function<bool()>& messages_in_flight() {
    static std::function<bool()> ask;
    return ask;
}

int& fake_devices() {
    static int count = 2;
    return count;
}

}  // namespace test

namespace cuda {

using test::event_in;
using test::issued;
using test::number_in;

const Stream* compute_stream(const Backend& /*backend*/) {
    static const Stream stream;
    return &stream;
}

int device_index(const Backend& /*backend*/) {
    return 0;
}

void set_wait_callback(Backend& /*backend*/, std::function<void()> poll) {
    test::asked_while_waiting() = std::move(poll);
}

void set_messages_in_flight(Backend& /*backend*/, std::function<bool()> in_flight) {
    test::messages_in_flight() = std::move(in_flight);
}

Stream::Stream(Priority priority) {
    static int streams = 0;
    handle_ = reinterpret_cast<CUstream_st*>(new int(++streams));
    if (priority == Priority::urgent) test::urgent_streams().insert(streams);
}
Stream::~Stream() {
    delete &number_in(handle_);
}
void Stream::synchronize() const {}
void Stream::wait(const Event& event) const {
    issued().push_back(text(number_in(handle_), " waits for ", event_in(event.handle()).stream));
}

Event::Event(Purpose /*purpose*/) {
    handle_ = reinterpret_cast<CUevent_st*>(new test::FakeEvent);
}
Event::~Event() {
    if (handle_ != nullptr) delete &event_in(handle_);
}
void Event::record(const Stream& stream) const {
    event_in(handle_) = {number_in(stream.handle()), test::events_recorded++};
    issued().push_back(text(event_in(handle_).stream, " records"));
}
double Event::milliseconds_since(const Event& start) const {
    return static_cast<double>(event_in(handle_).recorded - event_in(start.handle()).recorded);
}
bool Event::done() const {
    return event_in(handle_).recorded < test::events_passed;
}

std::byte* allocate(std::int64_t bytes, MemorySpace /*space*/) {
    return static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(bytes)));
}
void release(std::byte* data, MemorySpace /*space*/) noexcept {
    std::free(data);
}
void set_bytes(void* to, int value, std::int64_t bytes, const Stream& /*stream*/) {
    std::memset(to, value, static_cast<std::size_t>(bytes));
}

int driver_version() {
    return 13000;
}
int visible_device_count() {
    return test::fake_devices();
}
DeviceProperties open_device(int index) {
    if (index >= test::fake_devices()) fail(ExitCode::usage, "no device ", index);
    DeviceProperties properties;
    properties.index = index;
    properties.multiprocessors = 132;
    properties.uuid = text("GPU-", index);
    return properties;
}

}  // namespace cuda
}  // namespace gptrain
