// Optimizer state in host memory, which visits the device for its update: the state lives in pinned
// host memory, and the device updates it part by part in two windows, as LLMQ does (arXiv
// 2512.15306). An update of the device's own state has the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "optim/muon.h"

namespace gptrain {

/// The parts of the state that wait in host memory.
struct HeldOnHost {
    bool main_params = false;
    bool moments = false;
    bool any() const { return main_params || moments; }
};

class StateWindows {
public:
    /// All that is updated on a rank; what of it waits in host memory is there. The references must
    /// outlive this.
    StateWindows(Backend& backend, Arena& workspace, HeldOnHost held,
                 const std::vector<AdamWPiece>& adamw, const std::vector<MuonPiece>& muon);

    /// Pieces for AdamW, cut to what a window holds, or a matrix for Muon.
    struct Part {
        std::vector<AdamWPiece> adamw;
        std::vector<MuonPiece> muon;
    };
    /// Calls `update` with each part, whose tensors are all on the device. While one part is
    /// updated, the next one comes and the one before returns. All are back when work issued later
    /// runs. Takes workspace memory for two windows.
    void update(const std::function<void(const Part&)>& update) const;

private:
    /// The part with its held tensors in the window, and where these come from.
    struct Visit {
        Part part;
        std::vector<HostTwin> twins;
    };
    Visit visit(const Part& part, const Tensor& window) const;

    Backend& backend_;
    Arena& workspace_;
    HeldOnHost held_;
    std::vector<Part> parts_;
    std::int64_t window_bytes_ = 0;
};

}  // namespace gptrain
