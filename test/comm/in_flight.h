// The memory of a message from its issue to its wait.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/byte_runs.h"

namespace gptrain::test {

/// A tensor that a message reads or writes, strided along `dim` at most; none by default.
struct Place {
    Tensor tensor;
    int dim = 0;
};

/// True if they share memory.
bool overlap(const Place& a, const Place& b);

/// Shows when a buffer is used under a message. Until the message lands, the memory that it writes
/// is filled with bytes of 0xFF, NaN in every float type, so that early readers compute with NaN.
/// Data travels between copies, and a buffer that changed meanwhile is an Error (bug).
class InFlight {
public:
    /// All places are in host memory. `name` is for errors.
    InFlight(std::string name, const Place& source, const Place& target);

    /// A copy of the source, made at the first call, or by the constructor if source and target
    /// overlap.
    const Tensor& read();
    /// Memory for the data of the target.
    const Tensor& arrived() const { return target_.copy; }
    /// Checks that nobody has used the buffers, and puts what has arrived in its place. `where` is
    /// for errors.
    void land(std::string_view where = {});

private:
    struct Side {
        explicit Side(const Place& place);
        ByteRuns own() { return contiguous_runs(memory.data(), runs); }

        ByteRuns runs;
        std::vector<std::byte> memory;
        Tensor copy;
    };

    std::string name_;
    Side source_;
    Side target_;
    bool has_read_ = false;
    std::uint32_t checksum_ = 0;  ///< of the source, after the target was filled
};

}  // namespace gptrain::test
