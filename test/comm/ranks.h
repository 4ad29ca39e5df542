// Helpers that the communication tests share: the ranks of this test run, their watchdog, and a
// backend.
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

/// All ranks that the launcher started; a world of one rank without a launcher.
const MpiSession& session();

/// This rank's progress, for the watchdog that ends a test run if nothing moves for 60 seconds
/// (GPTRAIN_TEST_HANG_SECONDS). It learns the name of each test case as the case begins.
Progress& progress();

/// A communicator of all ranks made by `make`, watched as axis tp.
std::unique_ptr<Communicator> watched(const CommunicatorFactory& make);

/// One way in which messages can travel, and how to connect all ranks by it.
struct Way {
    std::string name;
    std::function<std::unique_ptr<Communicator>(Backend& backend)> connect;
};

// Each test executable defines these three in one of its sources.
/// The backend whose memory is sent.
std::unique_ptr<Backend> make_backend();
std::vector<Way> ways();
/// Why the tests cannot run here; empty if they can.
std::string why_not_run();

/// Sets element i of a tensor, in row-major order, to value(i).
void put(Backend& backend, const Tensor& x, const std::function<double(std::int64_t i)>& value);
/// A tensor's elements in row-major order.
std::vector<double> values_of(Backend& backend, const Tensor& x);

/// A tensor that owns its memory.
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
