// MPI's C interface, with errors as exceptions. Private to this room.
#pragma once

#include <mpi.h>
#include <string_view>
#include <utility>

namespace gptrain {

/// Throws an Error with MPI's message if a call failed: `bug` if the call was wrong, `hang` if a
/// rank or the connection to it was lost.
void check_mpi(int status, std::string_view call);

/// Owns an MPI communicator whose functions return their errors.
class MpiHandle {
public:
    MpiHandle() = default;
    /// Takes ownership of a newly created communicator.
    explicit MpiHandle(MPI_Comm comm);
    MpiHandle(MpiHandle&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
    MpiHandle& operator=(MpiHandle&& other) noexcept {
        std::swap(comm_, other.comm_);
        return *this;
    }
    /// Frees it, except during exception unwinding: other ranks may never reach the call.
    ~MpiHandle();

    MPI_Comm comm() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace gptrain
