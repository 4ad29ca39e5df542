#include "cuda/runtime/libraries.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cuda/runtime/probe.h"

namespace gptrain::cuda {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> split_path(const char* list) {
    std::vector<fs::path> folders;
    std::string_view rest = list == nullptr ? "" : list;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        if (end > 0) folders.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return folders;
}

/// Subfolders of a folder; empty if it cannot be read.
std::vector<fs::path> subfolders(const fs::path& folder) {
    std::set<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        std::error_code unreadable;
        if (entry->is_directory(unreadable)) found.insert(entry->path());
    }
    return {found.begin(), found.end()};
}

void add_toolkit(std::vector<fs::path>& places) {
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
        const char* root = std::getenv(variable);
        if (root == nullptr || *root == '\0') continue;
        places.push_back(fs::path(root) / "lib64");
        places.push_back(fs::path(root) / "lib");
    }
    places.emplace_back(GPTRAIN_CUDA_TOOLKIT_LIBRARIES);
    places.emplace_back("/usr/local/cuda/lib64");
}

/// Adds the folders where pip installs NVIDIA's packages for a Python installed in `prefix`.
void add_packages(std::vector<fs::path>& places, const fs::path& prefix) {
    for (const fs::path& library : subfolders(prefix / "lib")) {
        if (!library.filename().string().starts_with("python3")) continue;
        for (const char* packages : {"site-packages", "dist-packages"}) {
            for (const fs::path& package : subfolders(library / packages / "nvidia"))
                places.push_back(package / "lib");
        }
    }
}

void add_python(std::vector<fs::path>& places) {
    for (const fs::path& folder : split_path(std::getenv("PATH"))) {
        std::error_code error;
        fs::path python = folder / "python3";
        if (!fs::exists(python, error)) continue;
        // Links lead from a virtual environment to its base Python, whose packages it may use, and
        // may lead to a virtual environment.
        constexpr int most_links = 16;
        fs::path searched;
        for (int links = 0; links <= most_links; ++links) {
            const fs::path prefix = python.parent_path().parent_path();
            if (prefix != searched) {
                add_packages(places, prefix);
                add_packages(places, prefix / "local");
            }
            searched = prefix;
            const fs::path target = fs::read_symlink(python, error);
            if (error) break;
            python = python.parent_path() / target;
        }
        break;
    }
    if (const char* home = std::getenv("HOME")) add_packages(places, fs::path(home) / ".local");
}

std::string joined(const std::vector<fs::path>& places) {
    std::string result;
    for (const fs::path& place : places)
        result += text(result.empty() ? "" : ", ", place.string());
    return result;
}

/// Returns null if the file does not exist. Adds an entry to `faults` if it exists but fails to
/// load.
void* open_in_folder(const fs::path& folder, const std::string& name, std::string& faults) {
    const fs::path file = folder / name;
    std::error_code error;
    if (!fs::exists(file, error)) return nullptr;
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) faults += text("; ", dlerror());
    return library;
}

/// Looks up functions of a library.
class Functions {
public:
    Functions(void* library, std::string name) : library_(library), name_(std::move(name)) {}

    template <class Function>
    void read(Function& function, const char* symbol) const {
        void* address = dlsym(library_, symbol);
        if (address == nullptr) {
            fail(ExitCode::usage, "device: cuda: ", name_, " lacks the function ", symbol,
                 ": it is too old");
        }
        function = reinterpret_cast<Function>(address);
    }

private:
    void* library_;
    std::string name_;
};

/// The CUDA version that the NCCL with this function was built for; empty if its file does not
/// state it.
std::optional<int> cuda_of_library(const void* function) {
    Dl_info place{};
    if (dladdr(function, &place) == 0 || place.dli_fname == nullptr) return {};
    try {
        const MappedFile file(place.dli_fname);
        const auto bytes = file.bytes();
        return cuda_of_nccl({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

LibraryPlaces library_places() {
    LibraryPlaces places;
    places.requested = split_path(std::getenv("GPTRAIN_CUDA_LIBS"));
    add_toolkit(places.default_paths);
    add_python(places.default_paths);
    // Several of the paths may lead to the same toolkit folder.
    std::set<fs::path> seen;
    std::erase_if(places.default_paths,
                  [&](const fs::path& place) { return !seen.insert(place).second; });
    return places;
}

void* open_library(const std::string& name, std::string_view purpose, const LibraryPlaces& places) {
    std::string faults;
    for (const fs::path& folder : places.requested) {
        if (void* library = open_in_folder(folder, name, faults)) return library;
    }
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    for (const fs::path& folder : places.default_paths) {
        if (void* library = open_in_folder(folder, name, faults)) return library;
    }
    fail(ExitCode::usage, "device: cuda: the library ", name, " (", purpose,
         ") was not found; tried: GPTRAIN_CUDA_LIBS (",
         places.requested.empty() ? "not set" : joined(places.requested), "), the loader's path, ",
         joined(places.default_paths), faults, "; set GPTRAIN_CUDA_LIBS to its folder");
}

CublasLt open_cublas_lt() {
    const std::string name = text("libcublasLt.so.", CUBLAS_VER_MAJOR);
    const Functions functions(open_library(name, "GEMMs", library_places()), name);
    CublasLt lt{};
    functions.read(lt.get_version, "cublasLtGetVersion");
    functions.read(lt.status_string, "cublasLtGetStatusString");
    functions.read(lt.create, "cublasLtCreate");
    functions.read(lt.destroy, "cublasLtDestroy");
    functions.read(lt.desc_create, "cublasLtMatmulDescCreate");
    functions.read(lt.desc_destroy, "cublasLtMatmulDescDestroy");
    functions.read(lt.desc_set, "cublasLtMatmulDescSetAttribute");
    functions.read(lt.layout_create, "cublasLtMatrixLayoutCreate");
    functions.read(lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
    functions.read(lt.preference_create, "cublasLtMatmulPreferenceCreate");
    functions.read(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
    functions.read(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
    functions.read(lt.heuristic, "cublasLtMatmulAlgoGetHeuristic");
    functions.read(lt.check, "cublasLtMatmulAlgoCheck");
    functions.read(lt.matmul, "cublasLtMatmul");
    return lt;
}

Nccl open_nccl(int driver) {
    const std::string name = text("libnccl.so.", NCCL_MAJOR);
    const Functions functions(open_library(name, "communication between GPUs", library_places()),
                              name);
    Nccl nccl{};
    functions.read(nccl.get_version, "ncclGetVersion");
    functions.read(nccl.error_string, "ncclGetErrorString");
    functions.read(nccl.last_error, "ncclGetLastError");
    functions.read(nccl.get_unique_id, "ncclGetUniqueId");
    functions.read(nccl.init_rank, "ncclCommInitRankConfig");
    functions.read(nccl.finalize, "ncclCommFinalize");
    functions.read(nccl.destroy, "ncclCommDestroy");
    functions.read(nccl.abort, "ncclCommAbort");
    functions.read(nccl.async_error, "ncclCommGetAsyncError");
    functions.read(nccl.group_start, "ncclGroupStart");
    functions.read(nccl.group_end, "ncclGroupEnd");
    functions.read(nccl.all_reduce, "ncclAllReduce");
    functions.read(nccl.reduce_scatter, "ncclReduceScatter");
    functions.read(nccl.all_gather, "ncclAllGather");
    functions.read(nccl.broadcast, "ncclBroadcast");
    functions.read(nccl.send, "ncclSend");
    functions.read(nccl.recv, "ncclRecv");
    int version = 0;
    nccl.get_version(&version);
    require_nccl(version);
    require_launch_order(cuda_of_library(reinterpret_cast<const void*>(nccl.get_version)), driver);
    return nccl;
}

void require_nccl(int version) {
    constexpr int oldest = NCCL_VERSION(2, 26, 0);
    if (version >= oldest) return;
    fail(ExitCode::usage, "device: cuda: NCCL ", nccl_version_text(version),
         " is too old; install 2.26 or newer, or set GPTRAIN_CUDA_LIBS to its folder");
}

std::optional<int> cuda_of_nccl(std::string_view file) {
    constexpr std::string_view name = "NCCL version ";
    constexpr std::string_view suffix = "+cuda";
    constexpr std::string_view ends("\0 \n", 3);
    for (std::size_t at = file.find(name); at != file.npos; at = file.find(name, at + 1)) {
        const std::string_view rest = file.substr(at + name.size());
        std::string_view version = rest.substr(0, rest.find_first_of(ends));
        const std::size_t cuda = version.find(suffix);
        if (cuda == version.npos) continue;
        version.remove_prefix(cuda + suffix.size());
        const std::size_t point = std::min(version.find('.'), version.size());
        const auto major = parse_int(version.substr(0, point));
        const auto minor = parse_int(version.substr(std::min(point + 1, version.size())));
        if (major && minor) return static_cast<int>(1000 * *major + 10 * *minor);
    }
    return {};
}

void require_launch_order(std::optional<int> nccl_cuda, int driver) {
    constexpr int oldest = 12030;
    constexpr std::string_view why = ", but the order of messages is kept from CUDA 12.3 on";
    if (nccl_cuda.value_or(oldest) < oldest) {
        fail(ExitCode::usage, "device: cuda: NCCL was built for CUDA ",
             cuda_version_text(*nccl_cuda), why,
             "; install one for CUDA 12.3 or newer, or set GPTRAIN_CUDA_LIBS to its folder");
    }
    if (driver < oldest) {
        fail(ExitCode::usage, "device: cuda: the NVIDIA driver supports CUDA ",
             cuda_version_text(driver), why, "; install a newer driver");
    }
}

}  // namespace gptrain::cuda
