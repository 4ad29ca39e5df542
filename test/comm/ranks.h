// What the tests of messages share: the ranks of this test run, who watches them, and a backend.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"
#include "watch/progress.h"

namespace gptrain::test {

/// All ranks that the launcher started; a world of one without a launcher.
const MpiSession& session();

/// What this rank does is told here, for the watchdog that ends a test run in which nothing moves
/// for 60 seconds (GPTRAIN_TEST_HANG_SECONDS). Test cases are named to it as they begin.
Progress& progress();

/// A communicator of all ranks, of those that `make` makes, watched as the axis tp.
std::unique_ptr<Communicator> watched(const CommunicatorFactory& make);

/// A communicator of all ranks in one of the ways that messages can go.
struct Way {
    std::string name;
    std::function<std::unique_ptr<Communicator>(Backend& backend)> connect;
};

// These three are another test executable's other source.
/// Whose memory the messages come from.
std::unique_ptr<Backend> make_backend();
std::vector<Way> ways();
/// Why the tests cannot run here; empty where they can.
std::string why_not_run();

/// Sets a tensor's elements, in row-major order, to value(i).
void put(Backend& backend, const Tensor& x, const std::function<double(std::int64_t i)>& value);
/// Its elements in row-major order.
std::vector<double> values_of(Backend& backend, const Tensor& x);

/// A tensor with memory of its own.
class Array {
public:
    Array(Backend& backend, DType dtype, const Shape& shape)
        : backend_(backend),
          buffer_(backend.allocate(shape.elements() * size_of(dtype), MemorySpace::device)),
          tensor_(buffer_.data(), dtype, shape) {}
    const Tensor& operator*() const { return tensor_; }
    const Tensor* operator->() const { return &tensor_; }
    void put(const std::function<double(std::int64_t i)>& value) const {
        test::put(backend_, tensor_, value);
    }
    std::vector<double> values() const { return values_of(backend_, tensor_); }

private:
    Backend& backend_;
    Buffer buffer_;
    Tensor tensor_;
};

}  // namespace gptrain::test
