#include "cuda/graph_cache.h"

#include "cuda/runtime/call.h"

namespace gptrain::cuda {
namespace {

/// Captures what `work` issues to the stream without running it.
cudaGraph_t capture(const std::function<void()>& work, cudaStream_t stream) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
        work();
    } catch (...) {
        // End the capture so that the stream is usable again; report the error of `work`.
        if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
        static_cast<void>(cudaGetLastError());
        throw;
    }
    check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    return graph;
}

}  // namespace

class GraphCache::Graph {
public:
    Graph(const std::function<void()>& work, const Stream& stream) {
        cudaGraph_t graph = capture(work, stream.handle());
        const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
        cudaGraphDestroy(graph);
        check_cuda(status, "cudaGraphInstantiate");
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph() { cudaGraphExecDestroy(executable_); }

    void launch(const Stream& stream) const {
        check_cuda(cudaGraphLaunch(executable_, stream.handle()), "cudaGraphLaunch");
    }

private:
    cudaGraphExec_t executable_ = nullptr;
};

GraphCache::GraphCache() = default;
GraphCache::~GraphCache() = default;

void GraphCache::run(std::int64_t key, const std::function<void()>& work, const Stream& stream) {
    const auto [entry, is_new] = graphs_.try_emplace(key);
    if (is_new) {
        work();
        return;
    }
    if (entry->second == nullptr) entry->second = std::make_unique<Graph>(work, stream);
    entry->second->launch(stream);
}

void GraphCache::clear() {
    graphs_.clear();
}

}  // namespace gptrain::cuda
