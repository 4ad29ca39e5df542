#include "host_runtime.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/runtime.h"

namespace gptrain {
namespace test {
namespace {

/// The number of a stream, or of the stream on which an event was last recorded.
int& number_in(void* handle) {
    return *static_cast<int*>(handle);
}

}  // namespace

std::vector<std::string>& issued() {
    static std::vector<std::string> all;
    return all;
}

int number_of(const void* stream) {
    return *static_cast<const int*>(stream);
}

std::function<void()>& asked_while_waiting() {
    static std::function<void()> poll;
    return poll;
}

int& fake_devices() {
    static int count = 2;
    return count;
}

}  // namespace test

namespace cuda {

using test::issued;
using test::number_in;

const Stream* compute_stream(const Backend& /*backend*/) {
    static const Stream stream;
    return &stream;
}

void set_wait_callback(Backend& /*backend*/, std::function<void()> poll) {
    test::asked_while_waiting() = std::move(poll);
}

Stream::Stream(Priority /*priority*/) {
    static int streams = 0;
    handle_ = reinterpret_cast<CUstream_st*>(new int(++streams));
}
Stream::~Stream() {
    delete &number_in(handle_);
}
void Stream::synchronize() const {}
void Stream::wait(const Event& event) const {
    issued().push_back(text(number_in(handle_), " waits for ", number_in(event.handle())));
}

Event::Event(Purpose /*purpose*/) {
    handle_ = reinterpret_cast<CUevent_st*>(new int(0));
}
Event::~Event() {
    delete &number_in(handle_);
}
void Event::record(const Stream& stream) const {
    number_in(handle_) = number_in(stream.handle());
    issued().push_back(text(number_in(handle_), " records"));
}
bool Event::done() const {
    return true;
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

int visible_device_count() {
    return test::fake_devices();
}
DeviceProperties open_device(int index) {
    if (index >= test::fake_devices()) fail(ExitCode::usage, "no device ", index);
    DeviceProperties properties;
    properties.index = index;
    properties.uuid = text("GPU-", index);
    return properties;
}

}  // namespace cuda
}  // namespace gptrain
