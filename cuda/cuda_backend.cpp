#include "cuda/cuda_backend.h"

#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <map>
#include <thread>

#include "cuda/attention/merge.h"
#include "cuda/attention/sinks.h"
#include "cuda/attention_check.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/tuning.h"
#include "cuda/graph_cache.h"
#include "cuda/needs.h"
#include "cuda/norm/norm.h"
#include "cuda/ops/activation.h"
#include "cuda/ops/attention.h"
#include "cuda/ops/checksum.h"
#include "cuda/ops/cross_entropy.h"
#include "cuda/ops/embedding.h"
#include "cuda/ops/expert_rows.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/grouped_linear.h"
#include "cuda/ops/int8.h"
#include "cuda/ops/linear.h"
#include "cuda/ops/linear_bias.h"
#include "cuda/ops/memory.h"
#include "cuda/ops/muon.h"
#include "cuda/ops/nf4.h"
#include "cuda/ops/optimizer.h"
#include "cuda/ops/random.h"
#include "cuda/ops/rope.h"
#include "cuda/ops/router.h"
#include "cuda/ops/router_losses.h"
#include "cuda/ops/step.h"
#include "cuda/ops/values.h"
#include "cuda/runtime/context.h"
#include "cuda/runtime/event_stopwatch.h"
#include "cuda/runtime/ranges.h"
#include "cuda/runtime/runtime.h"
#include "cuda/runtime/side_copies.h"
#include "cuda/runtime/staging.h"

namespace gptrain::cuda {
namespace {

/// Issues ops to one stream and returns at once. Staged copies and those beside computation have
/// streams apart.
class CudaBackend final : public EachOp<Backend, CudaBackend> {
public:
    CudaBackend(int device, const Options& options)
        : device_(open_device(device)),
          tunes_(options.tune_gemms),
          tuning_(options.tuning_file),
          gemms_(device_, tunes_ ? &tuning_ : nullptr, options.tune_sm90_gemms),
          graphs_(options.graphs),
          deterministic_(options.deterministic),
          gemm_multiprocessors_(options.gemm_multiprocessors),
          sm90_attention_(choose_sm90_attention(options.attention, device_, [&] {
              return options.check_attention ? options.check_attention(device)
                                             : sm90_attention_difference(device_, stream_);
          })) {}
    ~CudaBackend() override {
        // Free memory and events only when nothing uses them any more. A failed device has already
        // reported its failure.
        try {
            stream_.synchronize();
        } catch (const Error&) {
        }
    }

    std::string_view name() const override { return "cuda"; }
    const Stream& stream() const { return stream_; }
    int device() const { return device_.index; }

    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        Buffer buffer(*this, space, cuda::allocate(bytes, space), bytes);
        if (space == MemorySpace::device) allocated_ += bytes;
        if (space == MemorySpace::host) host_ends_[buffer.data()] = buffer.data() + bytes;
        return buffer;
    }
    std::int64_t scratch_bytes(const OpLimits& limits) const override {
        return backend_memory().scratch(limits);
    }
    void use_scratch(const Tensor& bytes) override {
        constexpr std::int64_t landing = Staging::all_bytes;
        staging_.use_device(bytes.slice(0, 0, landing));
        scratch_.use(bytes.slice(0, landing, bytes.size(0) - landing));
        graph_cache_.clear();  // of an earlier engine, whose memory is gone
    }
    std::int64_t staging_bytes() const override { return backend_memory().staging; }
    std::int64_t row_alignment() const override { return backend_memory().row_alignment; }
    void use_staging(const Tensor& bytes) override { staging_.use_host(bytes); }
    std::int64_t bytes_outside_arenas() const override {
        const MemoryInfo memory = memory_info();
        return memory.total - memory.free - allocated_;
    }
    std::int64_t reserve_bytes() const override { return backend_memory().reserve; }
    std::optional<std::int64_t> free_bytes() const override { return memory_info().free; }
    void copy(const Tensor& to, const Tensor& from) override { cuda::copy(to, from, context()); }
    void upload(const Tensor& to, std::span<const std::byte> from) override {
        GPTRAIN_CHECK(to.contiguous() && to.bytes() == std::ssize(from), "upload of ", from.size(),
                      " bytes to ", to.shape().to_text());
        if (!is_on_host(to)) return staging_.upload(to.data(), from, stream_);
        stream_.synchronize();
        if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    }
    void download(std::span<std::byte> to, const Tensor& from) override {
        GPTRAIN_CHECK(from.contiguous() && from.bytes() == std::ssize(to), "download of ",
                      from.shape().to_text(), " to ", to.size(), " bytes");
        if (!is_on_host(from)) return staging_.download(to, from.data(), stream_);
        stream_.synchronize();
        if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
    }
    std::int64_t fetch(std::span<const HostTwin> twins) override {
        return side_copies_.start(SideCopies::Direction::to_device, twins, stream_);
    }
    std::int64_t store(std::span<const HostTwin> twins) override {
        return side_copies_.start(SideCopies::Direction::to_host, twins, stream_);
    }
    void join(std::int64_t copies) override { side_copies_.join(copies, stream_); }
    std::optional<double> take_join_seconds() override { return side_copies_.take_waited(); }
    void synchronize() override { stream_.synchronize(); }
    std::int64_t mark() override {
        mark_event(next_mark_).record(stream_);
        return next_mark_++;
    }
    void wait(std::int64_t mark) override {
        GPTRAIN_CHECK(mark < next_mark_ && next_mark_ - mark <= std::ssize(marks_), "mark ", mark,
                      " of ", next_mark_, " has expired");
        const Event& event = mark_event(mark);
        if (!wait_callback_) return event.synchronize();
        // Short compared to a step.
        constexpr std::chrono::microseconds pause(50);
        while (!event.done()) {
            wait_callback_();
            std::this_thread::sleep_for(pause);
        }
    }
    void set_wait_callback(std::function<void()> poll) { wait_callback_ = std::move(poll); }
    void set_messages_in_flight(std::function<bool()> in_flight) {
        messages_in_flight_ = std::move(in_flight);
    }
    void replay(std::int64_t key, const std::function<void()>& work) override {
        // A graph keeps the GEMMs that were chosen when it was recorded.
        graphs_ && !beside_messages() ? graph_cache_.run(key, work, stream_) : work();
    }

    bool can_tune() const override { return tunes_; }
    std::string tune(const std::function<void()>& ops) override {
        gemms_.tune([&] {
            ops();
            if (gemm_multiprocessors_ == 0) return;
            tunes_beside_messages_ = true;
            ops();
            tunes_beside_messages_ = false;
        });
        stream_.synchronize();
        return tuning_.to_text();
    }
    bool set_choices(std::string_view choices) override { return gemms_.use_table(choices); }
    // CUDA_MODULE_LOADING=EAGER need not cover the code that cuBLASLt loads itself.
    bool loads_code_late() const override { return true; }

    void on(const auto& op) {
        if constexpr (requires { cuda::run(op, gemms_, context()); }) {
            cuda::run(op, gemms_, context());
        } else {
            cuda::run(op, context());
        }
    }

    std::unique_ptr<Stopwatch> stopwatch() override {
        return std::make_unique<EventStopwatch>(stream_);
    }
    void begin_range(std::string_view name) override { begin_profile_range(name); }
    void end_range() override { end_profile_range(); }

private:
    void release(std::byte* data, std::int64_t bytes, MemorySpace space) noexcept override {
        cuda::release(data, space);
        if (space == MemorySpace::device) allocated_ -= bytes;
        if (space == MemorySpace::host) host_ends_.erase(data);
    }
    /// True for a tensor in pinned host memory of this backend.
    bool is_on_host(const Tensor& x) const {
        const auto after = host_ends_.upper_bound(x.data());
        return after != host_ends_.begin() && x.data() < std::prev(after)->second;
    }
    /// The context for the next op.
    OpContext context() {
        scratch_.reset();
        return {.stream = stream_,
                .scratch = scratch_,
                .device = device_,
                .sm90_attention = sm90_attention_,
                .deterministic = deterministic_,
                .gemm_multiprocessors = beside_messages() ? gemm_multiprocessors_ : 0};
    }
    /// True if GEMMs have to leave multiprocessors to messages.
    bool beside_messages() const {
        if (gemm_multiprocessors_ == 0) return false;
        return tunes_beside_messages_ || (messages_in_flight_ && messages_in_flight_());
    }
    const Event& mark_event(std::int64_t mark) const {
        return marks_[static_cast<std::size_t>(mark % std::ssize(marks_))];
    }

    DeviceProperties device_;
    Stream stream_;
    Staging staging_;
    SideCopies side_copies_;
    bool tunes_;
    TuningTable tuning_;
    Gemms gemms_;
    Scratch scratch_;
    bool graphs_;
    bool deterministic_;
    std::int32_t gemm_multiprocessors_;
    bool sm90_attention_;
    bool tunes_beside_messages_ = false;
    GraphCache graph_cache_;
    std::array<Event, 8> marks_;
    std::int64_t next_mark_ = 0;
    std::function<void()> wait_callback_;
    std::function<bool()> messages_in_flight_;
    std::int64_t allocated_ = 0;                              ///< device bytes
    std::map<const std::byte*, const std::byte*> host_ends_;  ///< of host memory, by its beginning
};

}  // namespace

std::unique_ptr<Backend> make_backend(int device, const Options& options) {
    return std::make_unique<CudaBackend>(device, options);
}

std::string attention_fault(int device) {
    const DeviceProperties properties = open_device(device);
    if (properties.major != 9 || properties.minor != 0) return "";
    const Stream stream;
    return sm90_attention_difference(properties, stream);
}

const Stream* compute_stream(const Backend& backend) {
    const auto* own = dynamic_cast<const CudaBackend*>(&backend);
    return own == nullptr ? nullptr : &own->stream();
}

int device_index(const Backend& backend) {
    const auto* own = dynamic_cast<const CudaBackend*>(&backend);
    GPTRAIN_CHECK(own != nullptr, "not a CUDA backend: ", backend.name());
    return own->device();
}

void set_wait_callback(Backend& backend, std::function<void()> poll) {
    auto* own = dynamic_cast<CudaBackend*>(&backend);
    GPTRAIN_CHECK(own != nullptr, "not a CUDA backend: ", backend.name());
    own->set_wait_callback(std::move(poll));
}

void set_messages_in_flight(Backend& backend, std::function<bool()> in_flight) {
    auto* own = dynamic_cast<CudaBackend*>(&backend);
    GPTRAIN_CHECK(own != nullptr, "not a CUDA backend: ", backend.name());
    own->set_messages_in_flight(std::move(in_flight));
}

}  // namespace gptrain::cuda
