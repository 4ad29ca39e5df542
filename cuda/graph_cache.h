// CUDA graphs: capture work that was issued to a stream and launch it again with one call. The
// emulator has a twin of this file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

class GraphCache {
public:
    GraphCache();
    ~GraphCache();

    /// The first call with a key runs `work`, which loads kernels and chooses GEMM algorithms. The
    /// second call captures what `work` issues to the stream; it and all later calls launch the
    /// captured graph. `work` must issue the same operations each time, to this stream only, and
    /// must not wait.
    void run(std::int64_t key, const std::function<void()>& work, const Stream& stream);
    /// Forgets all keys. No graph may be running.
    void clear();

private:
    class Graph;
    std::map<std::int64_t, std::unique_ptr<Graph>> graphs_;  ///< null after the first call
};

}  // namespace gptrain::cuda
