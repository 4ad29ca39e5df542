#include "comm/mpi_call.h"

#include <array>
#include <exception>

#include "base/error.h"

namespace gptrain {
namespace {

/// `hang` for faults from outside the program, else `bug`.
ExitCode exit_code_of(int status) {
    int error_class = MPI_ERR_UNKNOWN;
    MPI_Error_class(status, &error_class);
    const bool lost = error_class == MPI_ERR_OTHER || error_class == MPI_ERR_INTERN ||
                      error_class == MPI_ERR_UNKNOWN;
    return lost ? ExitCode::hang : ExitCode::bug;
}

}  // namespace

void check_mpi(int status, std::string_view call) {
    if (status == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> message{};
    int length = 0;
    if (MPI_Error_string(status, message.data(), &length) != MPI_SUCCESS) length = 0;
    fail(exit_code_of(status), "MPI: ", call, ": ",
         std::string_view(message.data(), static_cast<std::size_t>(length)), " (", status, ")");
}

MpiHandle::MpiHandle(MPI_Comm comm) : comm_(comm) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiHandle::~MpiHandle() {
    if (comm_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

}  // namespace gptrain
