#include "host_runtime.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/probe.h"
#include "cuda/runtime/runtime.h"
#include "emulator/queue.h"

namespace gptrain {
namespace test {
namespace {

struct FakeStream {
    int number = 0;
    bool urgent = false;
    /// Events that are waited for outlive their stream.
    std::shared_ptr<emulator::Queue> queue = std::make_shared<emulator::Queue>();

    bool late() const { return pace() == (urgent ? Pace::messages_late : Pace::computation_late); }
};
const FakeStream& stream_in(const void* handle) {
    return *static_cast<const FakeStream*>(handle);
}

struct FakeEvent {
    int stream = 0;             ///< on which it was last recorded
    std::int64_t recorded = 0;  ///< after how many others
    std::shared_ptr<emulator::Queue> queue = std::make_shared<emulator::Queue>();
    std::int64_t point = 0;  ///< in the queue
};
FakeEvent& event_in(void* handle) {
    return *static_cast<FakeEvent*>(handle);
}

const std::thread::id host_thread = std::this_thread::get_id();
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

Pace& pace() {
    static Pace pace = Pace::at_once;
    return pace;
}

void issue(const void* stream, std::function<void()> work) {
    if (stream_in(stream).late()) return issue_late(stream, std::move(work));
    work();
}

void issue_late(const void* stream, std::function<void()> work) {
    if (pace() == Pace::at_once) return work();
    stream_in(stream).queue->add(std::move(work));
}

void issue_wait(const void* stream, std::function<bool()> ready, std::function<void()> hurry) {
    emulator::Queue& queue = *stream_in(stream).queue;
    queue.add({.run = [] {}, .ready = std::move(ready), .hurry = std::move(hurry)});
    if (!stream_in(stream).late()) queue.run_to(queue.end());
}

int number_of(const void* stream) {
    return stream_in(stream).number;
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
using test::stream_in;

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
    const bool urgent = priority == Priority::urgent;
    handle_ =
        reinterpret_cast<CUstream_st*>(new test::FakeStream{.number = ++streams, .urgent = urgent});
    if (urgent) test::urgent_streams().insert(streams);
}
Stream::~Stream() {
    delete &stream_in(handle_);
}
void Stream::synchronize() const {
    emulator::Queue& queue = *stream_in(handle_).queue;
    queue.run_to(queue.end());
}
void Stream::wait(const Event& event) const {
    const test::FakeEvent& awaited = event_in(event.handle());
    issued().push_back(text(stream_in(handle_).number, " waits for ", awaited.stream));
    test::issue_wait(
        handle_,
        [queue = awaited.queue, point = awaited.point] { return queue->has_reached(point); },
        [queue = awaited.queue, point = awaited.point] { queue->run_to(point); });
}

Event::Event(Purpose /*purpose*/) {
    handle_ = reinterpret_cast<CUevent_st*>(new test::FakeEvent);
}
Event::~Event() {
    if (handle_ != nullptr) delete &event_in(handle_);
}
void Event::record(const Stream& stream) const {
    const test::FakeStream& on = stream_in(stream.handle());
    event_in(handle_) = {on.number, test::events_recorded++, on.queue, on.queue->end()};
    issued().push_back(text(event_in(handle_).stream, " records"));
}
double Event::milliseconds_since(const Event& start) const {
    return static_cast<double>(event_in(handle_).recorded - event_in(start.handle()).recorded);
}
bool Event::done() const {
    const test::FakeEvent& event = event_in(handle_);
    // A host that asks again and again waits for it; a thread that watches does not.
    if (test::pace() != test::Pace::at_once && std::this_thread::get_id() == test::host_thread)
        event.queue->run_to(event.point);
    return event.recorded < test::events_passed;
}

std::byte* allocate(std::int64_t bytes, MemorySpace /*space*/) {
    return static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(bytes)));
}
void release(std::byte* data, MemorySpace /*space*/) noexcept {
    std::free(data);
}
void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream) {
    test::issue(stream.handle(), [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
}
void copy_rows(const RowCopy& rows, const Stream& stream) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
        copy(static_cast<std::byte*>(rows.to) + row * rows.to_stride,
             static_cast<const std::byte*>(rows.from) + row * rows.from_stride, rows.row_bytes,
             stream);
    }
}
void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream) {
    test::issue(stream.handle(), [=] { std::memset(to, value, static_cast<std::size_t>(bytes)); });
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
    properties.multiprocessors = 1024;  // for the messages of all ranks
    properties.uuid = text("GPU-", index);
    return properties;
}

}  // namespace cuda
}  // namespace gptrain
