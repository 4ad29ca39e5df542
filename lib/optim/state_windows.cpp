#include "optim/state_windows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/dynamic8.h"

namespace gptrain {
namespace {

/// Elements of parameters in a window: an eighth of all, so that copies overlap in small models
/// too, and few enough that two windows need little memory, but copies of them run at full speed.
constexpr std::int64_t most_elements = std::int64_t{1} << 21;
constexpr std::int64_t fewest_parts = 8;
/// Pieces are cut at multiples of it: between blocks of 8-bit moments.
constexpr std::int64_t cut_elements = moment_block;

std::int64_t elements_of(const AdamWPiece& piece) {
    return piece.main_grad.elements();
}

std::int64_t elements_of(const std::vector<AdamWPiece>& adamw) {
    std::int64_t sum = 0;
    for (const AdamWPiece& piece : adamw)
        sum += elements_of(piece);
    return sum;
}

/// Calls use(tensor) with each tensor of the piece that waits in host memory.
void for_held(AdamWPiece& piece, HeldOnHost held, const auto& use) {
    if (held.main_params) use(piece.main_param);
    if (!held.moments) return;
    for (Tensor* x :
         {&piece.exp_avg, &piece.exp_avg_sq, &piece.exp_avg_scales, &piece.exp_avg_sq_scales})
        if (!x->empty()) use(*x);
}
void for_held(MuonPiece& piece, HeldOnHost held, const auto& use) {
    if (held.main_params) use(piece.main_param);
    if (held.moments) use(piece.momentum);
}
void for_held(StateWindows::Part& part, HeldOnHost held, const auto& use) {
    for (AdamWPiece& piece : part.adamw)
        for_held(piece, held, use);
    for (MuonPiece& piece : part.muon)
        for_held(piece, held, use);
}

/// Elements [begin, begin + count) of the piece, from the start of a block on.
AdamWPiece cut(const AdamWPiece& piece, std::int64_t begin, std::int64_t count) {
    const auto slice = [&](const Tensor& x) { return x.empty() ? x : x.slice(0, begin, count); };
    // Codes are padded to whole blocks.
    const auto moment = [&](const Tensor& x) {
        return x.dtype() == DType::u8 ? x.slice(0, begin, round_up(count, moment_block)) : slice(x);
    };
    const auto scales = [&](const Tensor& x) {
        return x.empty() ? x : x.slice(0, begin / moment_block, div_ceil(count, moment_block));
    };
    AdamWPiece part = piece;
    part.main_param = slice(piece.main_param);
    part.main_grad = slice(piece.main_grad);
    part.exp_avg = moment(piece.exp_avg);
    part.exp_avg_sq = moment(piece.exp_avg_sq);
    part.weight = slice(piece.weight);
    part.exp_avg_scales = scales(piece.exp_avg_scales);
    part.exp_avg_sq_scales = scales(piece.exp_avg_sq_scales);
    part.shard.flat_begin = piece.shard.flat_begin + begin;
    part.shard.flat_end = part.shard.flat_begin + count;
    return part;
}

/// Divides the pieces into parts of at most `capacity` elements.
std::vector<StateWindows::Part> parts_of(const std::vector<AdamWPiece>& adamw,
                                         std::int64_t capacity) {
    std::vector<StateWindows::Part> parts;
    std::int64_t room = 0;
    for (const AdamWPiece& piece : adamw) {
        const std::int64_t elements = elements_of(piece);
        for (std::int64_t begin = 0; begin < elements;) {
            if (room == 0) {
                parts.emplace_back();
                room = capacity;
            }
            const std::int64_t count = std::min(room, elements - begin);
            parts.back().adamw.push_back(cut(piece, begin, count));
            begin += count;
            // The rest of the room begins where the next piece may be cut.
            room = (room - count) / cut_elements * cut_elements;
        }
    }
    return parts;
}

std::int64_t bytes_in_window(const Tensor& x) {
    return round_up(x.bytes(), Arena::alignment);
}

}  // namespace

StateWindows::StateWindows(Backend& backend, Arena& workspace, HeldOnHost held,
                           const std::vector<AdamWPiece>& adamw, const std::vector<MuonPiece>& muon)
    : backend_(backend), workspace_(workspace), held_(held) {
    const std::int64_t eighth = div_ceil(elements_of(adamw), fewest_parts);
    parts_ = parts_of(adamw, std::min(round_up(eighth, cut_elements), most_elements));
    for (const MuonPiece& piece : muon)
        parts_.push_back({.adamw = {}, .muon = {piece}});
    for (Part& part : parts_) {
        std::int64_t bytes = 0;
        for_held(part, held_, [&](const Tensor& x) { bytes += bytes_in_window(x); });
        window_bytes_ = std::max(window_bytes_, bytes);
    }
}

StateWindows::Visit StateWindows::visit(const Part& part, const Tensor& window) const {
    Visit visit = {.part = part, .twins = {}};
    std::byte* next = window.data();
    for_held(visit.part, held_, [&](Tensor& x) {
        const Tensor here(next, x.dtype(), x.shape());
        next += bytes_in_window(x);
        visit.twins.push_back({.device = here, .host = x});
        x = here;
    });
    return visit;
}

void StateWindows::update(const std::function<void(const Part&)>& update) const {
    if (parts_.empty()) return;
    const ArenaFrame frame(workspace_);
    const std::array<Tensor, 2> windows = {workspace_.allocate(DType::u8, {window_bytes_}),
                                           workspace_.allocate(DType::u8, {window_bytes_})};
    Visit next = visit(parts_.front(), windows.front());
    std::int64_t fetched = backend_.fetch(next.twins);
    std::optional<std::int64_t> stored;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const Visit now = std::exchange(next, {});
        const std::int64_t arriving = fetched;
        // The part before has left the other window, which the next one takes.
        if (stored) backend_.join(*stored);
        if (i + 1 < parts_.size()) {
            next = visit(parts_[i + 1], windows[(i + 1) % windows.size()]);
            fetched = backend_.fetch(next.twins);
        }
        backend_.join(arriving);
        update(now.part);
        stored = backend_.store(now.twins);
    }
    backend_.join(*stored);
}

}  // namespace gptrain
