#include "cuda/peer/communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/at.h"
#include "base/error.h"
#include "base/text.h"
#include "cuda/ops/rank_sum.h"

namespace gptrain::cuda {

void PeerCommunicators::release() noexcept {
    for (PeerCommunicator* one : all_)
        one->links_.release();
}

void PeerCommunicators::abort() noexcept {
    if (!connected()) return;
    aborted_ = true;
    constexpr std::chrono::milliseconds pause(1);
    constexpr int most_pauses = 4000;
    try {
        std::deque<Event> done;
        for (const PeerCommunicator* one : all_) {
            done.emplace_back().record(one->out_);
            done.emplace_back().record(one->in_);
        }
        for (int i = 0; i < most_pauses; ++i) {
            release();
            if (std::ranges::all_of(done, &Event::done)) return;
            std::this_thread::sleep_for(pause);
        }
    } catch (const Error&) {
        // A failed device runs nothing any more.
        release();
    }
}

void PeerCommunicators::poll() const {
    for (const PeerCommunicator* one : all_)
        one->poll();
}

PeerCommunicator::PeerCommunicator(std::shared_ptr<PeerCommunicators> siblings,
                                   std::unique_ptr<Communicator> host, const Stream& compute,
                                   const RankGroup& group, const std::string& name,
                                   std::shared_ptr<DeviceOperations> operations)
    : siblings_(std::move(siblings)),
      host_(std::move(host)),
      compute_(compute),
      name_(name_of(group.axis)),
      traffic_(group.traffic),
      operations_(std::move(operations)),
      links_(*host_, name) {
    siblings_->all_.push_back(this);
}

PeerCommunicator::~PeerCommunicator() {
    if (std::uncaught_exceptions() > 0) {
        siblings_->abort();
    } else {
        try {
            out_.synchronize();
            in_.synchronize();
        } catch (const Error&) {
            // Any later use of a failed device reports it.
        }
    }
    std::erase(siblings_->all_, this);
}

void PeerCommunicator::poll() const {
    if (links_.aborted()) fail(ExitCode::hang, "a rank of ", name_, " has aborted its messages");
}

std::shared_ptr<Event> PeerCommunicator::free_event() {
    // Others may still wait for the event, or ask whether it is done.
    const bool reuses = !events_.empty() && events_.front().use_count() == 1;
    std::shared_ptr<Event> event = reuses ? events_.front() : std::make_shared<Event>();
    if (reuses) events_.pop_front();
    events_.push_back(event);
    return event;
}

Pending PeerCommunicator::issue(bool Traffic::*kind, std::string_view call, const auto& issue) {
    GPTRAIN_CHECK(traffic_.*kind, call, " on ", name_, ", whose ranks are not connected for it");
    poll();
    const std::shared_ptr<Event> computed = free_event();
    computed->record(compute_);
    out_.wait(*computed);
    in_.wait(*computed);
    issue();
    // It ends when all has been pushed and taken.
    const std::shared_ptr<Event> pushed = free_event();
    pushed->record(out_);
    in_.wait(*pushed);
    const std::shared_ptr<Event> finished = free_event();
    finished->record(in_);
    if (operations_) operations_->add(computed, finished);
    return Pending([this, finished] {
        if (std::uncaught_exceptions() > 0) return;
        poll();
        operations_ ? operations_->timer().wait(*finished) : compute_.wait(*finished);
    });
}

std::vector<int> PeerCommunicator::others() const {
    std::vector<int> ranks;
    for (int distance = 1; distance < size(); ++distance)
        ranks.push_back((rank() + distance) % size());
    return ranks;
}

std::vector<PeerCommunicator::Part> PeerCommunicator::parts_of_others(
    const std::function<ByteRuns(int rank)>& part) const {
    std::vector<Part> parts;
    for (const int other : others())
        parts.push_back({pieces_of(part(other)), other});
    return parts;
}

void PeerCommunicator::push(const std::vector<Part>& parts, std::size_t index) {
    std::vector<PeerLinks::Outgoing> pieces;
    for (const Part& part : parts) {
        if (index >= part.pieces.size()) continue;
        const ByteRuns& piece = part.pieces[index];
        const std::int64_t first_row = (piece.data - part.pieces.front().data) / piece.bytes;
        pieces.push_back({.piece = piece,
                          .to = part.rank,
                          .slots = part.slots == nullptr ? nullptr : part.slots + first_row});
    }
    links_.push(pieces, out_);
}

void PeerCommunicator::take(const std::vector<Part>& parts, std::size_t index) {
    std::vector<ByteRuns> to;
    std::vector<int> from;
    for (const Part& part : parts) {
        if (index >= part.pieces.size()) continue;
        to.push_back(part.pieces[index]);
        from.push_back(part.rank);
    }
    const std::vector<ByteRuns> arrived = links_.arrived(to, from, in_);
    for (std::size_t i = 0; i < to.size(); ++i)
        copy_piece(to[i], arrived[i], in_);
    links_.taken(from, in_);
}

void PeerCommunicator::exchange(const std::vector<Part>& out, const std::vector<Part>& in) {
    std::size_t most = 0;
    for (const std::vector<Part>* parts : {&out, &in})
        for (const Part& part : *parts)
            most = std::max(most, part.pieces.size());
    // Piece by piece, so that neither stream is issued far ahead of the other.
    for (std::size_t piece = 0; piece < most; ++piece) {
        push(out, piece);
        take(in, piece);
    }
}

void PeerCommunicator::sum_parts(const ByteRuns& to, const std::function<ByteRuns(int rank)>& part,
                                 DType dtype, Reduce reduce) {
    const std::vector<Part> out = parts_of_others(part);
    const std::vector<ByteRuns> own = pieces_of(part(rank()));
    const std::vector<ByteRuns> sums = pieces_of(to);
    std::size_t most = own.size();
    for (const Part& each : out)
        most = std::max(most, each.pieces.size());
    const std::vector<int> senders = others();
    for (std::size_t piece = 0; piece < most; ++piece) {
        push(out, piece);
        if (piece >= own.size()) continue;
        const std::vector<ByteRuns> arrived =
            links_.arrived(std::vector(senders.size(), own[piece]), senders, in_);
        std::vector<ByteRuns> sources(senders.size() + 1, own[piece]);
        for (std::size_t i = 0; i < senders.size(); ++i)
            sources[static_cast<std::size_t>(senders[i])] = arrived[i];
        reduce_ranks(sums[piece], sources, dtype, reduce, in_);
        links_.taken(senders, in_);
    }
}

void PeerCommunicator::spread(const ByteRuns& own, const std::function<ByteRuns(int rank)>& part) {
    exchange(parts_of_others([&](int /*other*/) { return own; }), parts_of_others(part));
}

Pending PeerCommunicator::all_reduce(const Tensor& x, Reduce reduce) {
    GPTRAIN_CHECK(x.contiguous(), "all_reduce of ", x.shape().to_text());
    if (x.elements() == 0) return {};
    return issue(&Traffic::collectives, "all_reduce", [&] {
        const auto share = [&](int rank) { return share_of(x, rank, size()); };
        sum_parts(share(rank()), share, x.dtype(), reduce);
        const std::shared_ptr<Event> summed = free_event();
        summed->record(in_);
        out_.wait(*summed);
        spread(share(rank()), share);
    });
}

Pending PeerCommunicator::reduce_scatter(const Tensor& to, const Tensor& from, int dim) {
    if (to.elements() == 0) return {};
    return issue(&Traffic::collectives, "reduce_scatter", [&] {
        const auto part = [&](int rank) { return runs_of(part_of(from, dim, rank, size()), dim); };
        sum_parts(runs_of(to, dim), part, to.dtype(), Reduce::sum);
    });
}

Pending PeerCommunicator::all_gather(const Tensor& to, const Tensor& from, int dim) {
    if (from.elements() == 0) return {};
    return issue(&Traffic::collectives, "all_gather", [&] {
        const auto part = [&](int rank) { return runs_of(part_of(to, dim, rank, size()), dim); };
        const ByteRuns own = runs_of(from, dim);
        copy_piece(part(rank()), own, in_);
        spread(own, part);
    });
}

Pending PeerCommunicator::all_to_all(const Tensor& to, const Tensor& from) {
    GPTRAIN_CHECK(to.contiguous() && from.contiguous() && to.dtype() == from.dtype() &&
                      to.shape() == from.shape(),
                  "all_to_all from ", from.shape().to_text(), " to ", to.shape().to_text());
    if (from.elements() == 0) return {};
    return issue(&Traffic::all_pairs, "all_to_all", [&] {
        const auto part = [&](const Tensor& x, int rank) {
            return run_of(part_of(x, 0, rank, size()));
        };
        copy_piece(part(to, rank()), part(from, rank()), in_);
        exchange(parts_of_others([&](int other) { return part(from, other); }),
                 parts_of_others([&](int other) { return part(to, other); }));
    });
}

Pending PeerCommunicator::all_to_all_rows(const Tensor& to, const Tensor& from,
                                          const Tensor& slots) {
    GPTRAIN_CHECK(to.contiguous() && from.contiguous() && slots.contiguous() &&
                      to.dtype() == from.dtype() && to.shape() == from.shape() &&
                      slots.dtype() == DType::i32 && slots.size(0) == size(),
                  "all_to_all_rows from ", from.shape().to_text(), " to ", to.shape().to_text(),
                  " by ", slots.shape().to_text());
    if (from.elements() == 0) return {};
    const std::int64_t row_bytes = div_exact(from.bytes(), slots.elements());
    if (row_bytes > piece_bytes) return all_to_all(to, from);
    return issue(&Traffic::all_pairs, "all_to_all_rows", [&] {
        // One run for each row, so that no piece ends inside a row.
        const auto part = [&](const Tensor& x, int rank) {
            const ByteRuns whole = run_of(part_of(x, 0, rank, size()));
            return ByteRuns{whole.data, whole.bytes / row_bytes, row_bytes, row_bytes};
        };
        copy_piece(part(to, rank()), part(from, rank()), in_);
        std::vector<Part> out = parts_of_others([&](int other) { return part(from, other); });
        for (Part& each : out)
            each.slots = slots.at(each.rank).as<std::int32_t>();
        exchange(out, parts_of_others([&](int other) { return part(to, other); }));
    });
}

Pending PeerCommunicator::broadcast(const Tensor& x, int root) {
    if (x.elements() == 0) return {};
    return issue(&Traffic::collectives, "broadcast", [&] {
        if (rank() == root) {
            exchange(parts_of_others([&](int /*other*/) { return run_of(x); }), {});
        } else {
            exchange({}, {{pieces_of(run_of(x)), root}});
        }
    });
}

Pending PeerCommunicator::send(const Tensor& x, int to) {
    if (x.elements() == 0) return {};
    return issue(&Traffic::one_way, "send", [&] { exchange({{pieces_of(run_of(x)), to}}, {}); });
}

Pending PeerCommunicator::recv(const Tensor& x, int from) {
    if (x.elements() == 0) return {};
    return issue(&Traffic::one_way, "recv", [&] { exchange({}, {{pieces_of(run_of(x)), from}}); });
}

Pending PeerCommunicator::send_recv(const Tensor& sent, int to, const Tensor& received, int from) {
    if (sent.elements() == 0 && received.elements() == 0) return {};
    return issue(&Traffic::ring, "send_recv", [&] {
        exchange({{pieces_of(run_of(sent)), to}}, {{pieces_of(run_of(received)), from}});
    });
}

}  // namespace gptrain::cuda
