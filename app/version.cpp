#include "version.h"

#include "base/text.h"
#include "checkpoint/describe.h"
#include "codec/decompressor.h"
#include "comm/mpi_session.h"
#include "cpu/gemm.h"
#include "cuda/runtime/versions.h"
#include "device.h"
#include "serve/http_server.h"

namespace gptrain {
namespace {

/// Libraries that report their version at run time, then those whose version the build knew.
std::string libraries() {
    std::string all = text(mpi_version(), ", ", cpu::onednn_version(), ", ", hdf5_version(), ", ",
                           decompressor_versions(), ", ", microhttpd_version(), GPTRAIN_LIBRARIES);
    if (const std::string cuda = cuda::library_versions(); !cuda.empty()) all += text(", ", cuda);
    return all;
}

}  // namespace

std::string version_text() {
    return text("gptrain ", GPTRAIN_VERSION, " (", built_backends(), ")");
}

std::string version_report() {
    return text(version_text(), "\ncommit:    ", built_commit(), "\ncompiler:  ", GPTRAIN_COMPILER,
                "\nlibraries: ", libraries());
}

}  // namespace gptrain
