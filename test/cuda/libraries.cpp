#include "cuda/runtime/libraries.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "catch.h"
#include "cuda/runtime/versions.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

/// Sets an environment variable until the end of the block.
class Variable {
public:
    Variable(const char* name, const std::string& value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        ::setenv(name, value.c_str(), 1);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() {
        if (before_) {
            ::setenv(name_, before_->c_str(), 1);
        } else {
            ::unsetenv(name_);
        }
    }

private:
    const char* name_;
    std::optional<std::string> before_;
};

std::string missing(const std::string& name) {
    return message_of(ExitCode::usage, [&] { open_library(name, "a test", library_places()); });
}

TEST_CASE("libraries are looked for where the user says, in the toolkit and next to python3") {
    const TempFolder folder;
    // The python3 on the PATH leads to a virtual environment, and that to its base Python.
    for (const char* prefix : {"links", "venv", "base"})
        create_folders(folder / prefix / "bin");
    for (const char* prefix : {"venv", "base"})
        create_folders(folder / prefix / "lib/python3.12/site-packages/nvidia/nccl/lib");
    test::fill(folder / "base/bin/python3.12", "");
    std::filesystem::create_symlink(folder / "base/bin/python3.12", folder / "venv/bin/python3");
    std::filesystem::create_symlink("../../venv/bin/python3", folder / "links/bin/python3");
    const Variable asked("GPTRAIN_CUDA_LIBS", "/first:/second");
    const Variable home("CUDA_HOME", (folder / "toolkit").string());
    const Variable path("PATH", (folder / "links/bin").string() + ":/usr/bin");
    const LibraryPlaces places = library_places();
    CHECK(places.requested == std::vector<std::filesystem::path>{"/first", "/second"});
    const auto at = [&](const std::filesystem::path& place) {
        const auto same = [&](const std::filesystem::path& other) {
            std::error_code missing_file;
            return other == place || std::filesystem::equivalent(other, place, missing_file);
        };
        return std::find_if(places.default_paths.begin(), places.default_paths.end(), same) -
               places.default_paths.begin();
    };
    const auto packages = at(folder / "venv/lib/python3.12/site-packages/nvidia/nccl/lib");
    const auto base = at(folder / "base/lib/python3.12/site-packages/nvidia/nccl/lib");
    CHECK(at(folder / "toolkit/lib64") < packages);
    CHECK(packages < base);
    CHECK(base < std::ssize(places.default_paths));
    const std::string message = missing("libnothing.so.1");
    CHECK(contains(message, "libnothing.so.1 (a test)"));
    for (const std::string part : {"/first, /second", "the loader's path", "toolkit/lib64",
                                   "site-packages/nvidia/nccl/lib"}) {
        CHECK(contains(message, part));
    }
}

TEST_CASE("a library that is there and cannot be loaded says why") {
    const TempFolder folder;
    test::fill(folder / "libbroken.so.1", std::string(4096, 'x'));
    const Variable asked("GPTRAIN_CUDA_LIBS", folder.path().string());
    CHECK(contains(missing("libbroken.so.1"), "invalid ELF header"));
}

TEST_CASE("the libraries of this machine have the functions that are used") {
    try {
        CHECK(open_cublas_lt().get_version() >= CUBLAS_VER_MAJOR * 10000);
        int version = 0;
        CHECK(open_nccl(13000).get_version(&version) == ncclSuccess);
        CHECK(version / 10000 == NCCL_MAJOR);
    } catch (const Error& error) {
        // A machine that only builds need not have them.
        REQUIRE(contains(error.what(), "was not found"));
        WARN("not run: " << error.what());
    }
}

TEST_CASE("the program knows for which libraries it was built") {
    const std::string versions = library_versions();
    CHECK(versions.starts_with(text("CUDA ", CUDART_VERSION / 1000, ".")));
    CHECK(contains(versions, text(", built for cuBLASLt ", CUBLAS_VER_MAJOR, ".")));
    CHECK(versions.ends_with(text(" and NCCL ", NCCL_MAJOR, ".", NCCL_MINOR, ".", NCCL_PATCH)));
}

TEST_CASE("an NCCL that does not keep the order of messages is refused") {
    CHECK_NOTHROW(require_nccl(22600));
    CHECK_NOTHROW(require_nccl(22809));
    CHECK(contains(message_of(ExitCode::usage, [] { require_nccl(22505); }),
                   "NCCL 2.25.5 is too old; install 2.26"));
}

TEST_CASE("an NCCL tells in its file which CUDA it was built for") {
    const auto found = [](std::string_view before, std::string_view line) {
        return cuda_of_nccl(text(before, line, std::string_view("\0after+cuda1.1", 15)));
    };
    CHECK(found("", "NCCL version 2.26.2+cuda12.2") == 12020);
    CHECK(found("\x7f"
                "ELF NCCL version detected : NCCL version %d. ",
                "NCCL version 2.28.9-rc1+cuda13.0\n") == 13000);
    CHECK(found("", "NCCL version 2.28.9") == std::nullopt);
    CHECK(found("", "NCCL version 2.28.9+cuda13") == std::nullopt);
    CHECK(found("", "") == std::nullopt);
    CHECK(cuda_of_nccl("NCCL version ") == std::nullopt);
    CHECK(cuda_of_nccl("NCCL version 2.30.1+cuda12.10") == 12100);
}

TEST_CASE("an NCCL that runs one operation after the other is refused") {
    CHECK_NOTHROW(require_launch_order(12030, 13000));
    CHECK_NOTHROW(require_launch_order(std::nullopt, 12030));
    CHECK(contains(message_of(ExitCode::usage, [] { require_launch_order(12020, 13000); }),
                   "NCCL was built for CUDA 12.2, but"));
    CHECK(contains(message_of(ExitCode::usage, [] { require_launch_order(13000, 12020); }),
                   "the NVIDIA driver supports CUDA 12.2, but"));
}

}  // namespace
}  // namespace gptrain::cuda
