// MPI's C interface with errors as exceptions. Seen by the sources of this room only.
#pragma once

#include <mpi.h>
#include <string_view>
#include <utility>

namespace gptrain {

/// A call of MPI that failed is an Error with MPI's own words: `bug` where the call was wrong,
/// `hang` where a rank or the connection to it was lost.
void check_mpi(int status, std::string_view call);

/// Owns a communicator of MPI whose functions return their errors.
class MpiHandle {
public:
    MpiHandle() = default;
    /// Takes over a communicator that was just made.
    explicit MpiHandle(MPI_Comm comm);
    MpiHandle(MpiHandle&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
    MpiHandle& operator=(MpiHandle&& other) noexcept {
        std::swap(comm_, other.comm_);
        return *this;
    }
    /// Gives it back, except while an exception flies: other ranks may not come this far.
    ~MpiHandle();

    MPI_Comm comm() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace gptrain
