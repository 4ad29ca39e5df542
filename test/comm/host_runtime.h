// A stand-in for the CUDA runtime, whose memory is host memory. It records calls, so that tests can
// check the order of streams, and its streams can be late, so that they can check what this order
// is good for. From one recorded event to the next its clock advances by 1 ms.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace gptrain::test {

/// A log of the issued calls, in order: "1 records" (an event on stream 1; streams count from 1),
/// "2 waits for 1", and whatever a test adds.
std::vector<std::string>& issued();
/// When the device works: at once; or what is issued to some streams as late as something waits
/// for it: messages, which have urgent streams, or computation.
enum class Pace { at_once, messages_late, computation_late };
Pace& pace();
/// Work for the stream with this handle, after all that was issued to it.
void issue(const void* stream, std::function<void()> work);
/// The same, done only when something waits for it, unless the device works at once.
void issue_late(const void* stream, std::function<void()> work);

/// Later work of the stream waits until `ready`, which `hurry` brings about; without it, another
/// process does. Such streams are late, or, if the device works at once, block the host.
void issue_wait(const void* stream, std::function<bool()> ready,
                std::function<void()> hurry = nullptr);

/// The number of the stream with this handle.
int number_of(const void* stream);
/// The numbers of the streams that were made urgent.
std::set<int>& urgent_streams();
/// How many of the events recorded since the last call of `let_device_run` the device has passed.
void hold_device_at(std::int64_t events);
/// The device passes all events, as at first.
void let_device_run();
/// The check that the backend was told to make while it waits.
std::function<void()>& asked_while_waiting();
/// The question about messages that the backend was told to ask.
std::function<bool()>& messages_in_flight();
/// The devices that a process sees; the UUID of device i is "GPU-i".
int& fake_devices();

}  // namespace gptrain::test
