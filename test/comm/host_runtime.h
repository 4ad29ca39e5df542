// A stand-in for the CUDA runtime that computes nothing: its streams are numbers, its memory is the
// host's. It keeps what was asked of it, for tests of the order of streams.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gptrain::test {

/// What was issued, in order: "1 records" an event on stream 1 (the first stream is 1), "2 waits
/// for 1", and what else was added.
std::vector<std::string>& issued();
/// The number of a stream from its handle.
int number_of(const void* stream);
/// What the backend was told to ask while it waits.
std::function<void()>& asked_while_waiting();
/// The devices that a process sees; the UUID of device i is "GPU-i".
int& fake_devices();

}  // namespace gptrain::test
