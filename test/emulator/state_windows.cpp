// State in host memory that visits the device for its update. The emulator's streams do their work
// as late as they may, so an update before its part has come, a window that is used again before
// its part has left, and state that is read before it is back show in the values.
#include "optim/state_windows.h"

#include <algorithm>
#include <random>

#include "backend/step_state.h"
#include "catch.h"
#include "cuda/cuda_backend.h"
#include "emulator/queue.h"

namespace gptrain {
namespace {

constexpr std::int64_t memory_bytes = std::int64_t{1} << 20;

/// Parameters with AdamW's state, some of it in host memory.
class State {
public:
    State(Backend& backend, HeldOnHost held)
        : backend_(backend),
          held_(held),
          device_(backend, MemorySpace::device, "device", memory_bytes),
          host_(backend, MemorySpace::host, "host", memory_bytes),
          step_{.state = device_.allocate(DType::u8, {state_bytes({})}), .first_sequence = {}} {
        std::mt19937 random(1);
        for (const std::int64_t size : {700, 3, 5000, 256, 2049}) {
            const auto filled = [&](bool on_host) {
                const Tensor x = (on_host ? host_ : device_).allocate(DType::f32, {size});
                std::vector<float> values(static_cast<std::size_t>(size));
                for (float& value : values)
                    value = 0x1p-32F * static_cast<float>(random());
                backend.upload(x, std::as_bytes(std::span(values)));
                return x;
            };
            pieces_.push_back({.main_param = filled(held.main_params),
                               .main_grad = filled(false),
                               .exp_avg = filled(held.moments),
                               .exp_avg_sq = filled(held.moments),
                               .weight = device_.allocate(DType::bf16, {size}),
                               .decay = size % 2 == 0});
        }
        StepState state = initial_step_state(1);
        state.updates = 1;
        state.learning_rate = 1e-2;
        state.grad_factor = 0.5;
        backend.upload(step_.state, std::as_bytes(std::span(&state, 1)));
    }

    void update(int steps) {
        const StateWindows windows(backend_, device_, held_, pieces_, {});
        for (int i = 0; i < steps; ++i) {
            windows.update([&](const StateWindows::Part& part) {
                ++parts_;
                backend_.run(AdamW{.pieces = part.adamw, .step = step_});
            });
        }
    }
    void update_in_place(int steps) {
        for (int i = 0; i < steps; ++i)
            backend_.run(AdamW{.pieces = pieces_, .step = step_});
    }
    int parts() const { return parts_; }
    std::vector<std::byte> all() const {
        std::vector<std::byte> bytes;
        for (const AdamWPiece& piece : pieces_) {
            for (const Tensor& x :
                 {piece.main_param, piece.exp_avg, piece.exp_avg_sq, piece.weight}) {
                const auto begin = static_cast<std::ptrdiff_t>(bytes.size());
                bytes.resize(bytes.size() + static_cast<std::size_t>(x.bytes()));
                backend_.download(std::span(bytes).subspan(static_cast<std::size_t>(begin)), x);
            }
        }
        return bytes;
    }

private:
    Backend& backend_;
    HeldOnHost held_;
    Arena device_;
    Arena host_;
    StepRef step_;
    std::vector<AdamWPiece> pieces_;
    int parts_ = 0;
};

Arena use_scratch(Backend& backend) {
    const std::int64_t bytes = backend.scratch_bytes({});
    Arena scratch(backend, MemorySpace::device, "scratch", bytes);
    backend.use_scratch(scratch.allocate(DType::u8, {bytes}));
    return scratch;
}

TEST_CASE("state that visits the device has the bits of state that lives there", "[copies]") {
    const auto backend = cuda::make_backend();
    const Arena scratch = use_scratch(*backend);
    State resident(*backend, {});
    resident.update_in_place(3);
    const std::vector<std::byte> right = resident.all();
    using emulator::Haste;
    for (const HeldOnHost held : {HeldOnHost{true, true}, {true, false}, {false, true}}) {
        for (const Haste haste : {Haste::none, Haste::some, Haste::all}) {
            emulator::haste() = haste;
            State moving(*backend, held);
            moving.update(3);
            // An eighth of all each, in three steps.
            CHECK(moving.parts() >= 3 * 8);
            CHECK((moving.all() == right));
        }
    }
    emulator::haste() = Haste::none;
}

TEST_CASE("uploads to host memory and downloads from it do not pass the device", "[copies]") {
    const auto backend = cuda::make_backend();
    const Arena scratch = use_scratch(*backend);
    Arena staging(*backend, MemorySpace::host, "staging", backend->staging_bytes());
    const Tensor staged = staging.allocate(DType::u8, {backend->staging_bytes()});
    backend->use_staging(staged);
    const auto is_unused = [&] {
        return std::all_of(staged.data(), staged.data() + staged.bytes(),
                           [](std::byte byte) { return byte == std::byte{0xff}; });
    };
    std::vector<std::byte> bytes(1000, std::byte{7});
    for (const MemorySpace space : {MemorySpace::host, MemorySpace::device}) {
        Arena arena(*backend, space, "tested", 1024);
        const Tensor x = arena.allocate(DType::u8, {std::ssize(bytes)});
        backend->upload(x, bytes);
        std::vector<std::byte> back(bytes.size());
        backend->download(back, x);
        CHECK((back == bytes));
        CHECK(is_unused() == (space == MemorySpace::host));
    }
}

}  // namespace
}  // namespace gptrain
