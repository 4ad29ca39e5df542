// CUDA graphs: what was issued to a stream once is issued again by a single launch. The emulator
// has a twin of this file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

class Recordings {
public:
    Recordings();
    ~Recordings();

    /// The first call with a key does `work`, which loads its kernels and chooses its products; the
    /// second records what `work` issues to the stream, and from then on the record is issued.
    /// `work` issues the same each time, to this stream alone, and waits for nothing.
    void run(std::int64_t key, const std::function<void()>& work, const Stream& stream);

private:
    class Graph;
    std::map<std::int64_t, std::unique_ptr<Graph>> graphs_;  ///< null: done once
};

}  // namespace gptrain::cuda
