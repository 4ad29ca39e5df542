// A stand-in for the CUDA runtime that computes nothing: its streams are numbers, its memory is
// host memory. It records calls, so that tests can check the order of streams. From one recorded
// event to the next its clock advances by 1 ms.
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
