#include "cuda/peer/links.h"

#include <algorithm>
#include <array>
#include <exception>

#include "base/at.h"
#include "base/error.h"
#include "base/text.h"
#include "cuda/ops/sent_rows.h"

namespace gptrain::cuda {
namespace {

/// For a handle, or the beginning of an error.
constexpr std::int64_t longest_text = 240;

/// Each rank's text, in rank order, cut to longest_text.
std::vector<std::string> texts_of_all(Communicator& host, const std::string& mine) {
    struct Text {
        std::int64_t size = 0;
        std::array<char, longest_text> chars{};
    };
    std::vector<Text> all(static_cast<std::size_t>(host.size()));
    Text own = {.size = std::min(std::ssize(mine), longest_text)};
    std::copy_n(mine.begin(), own.size, own.chars.begin());
    constexpr auto bytes = static_cast<std::int64_t>(sizeof(Text));
    const Tensor to(reinterpret_cast<std::byte*>(all.data()), DType::u8, {host.size(), bytes});
    const Tensor from(reinterpret_cast<std::byte*>(&own), DType::u8, {1, bytes});
    host.all_gather(to, from, 0).wait();
    std::vector<std::string> texts;
    for (const Text& text : all)
        texts.emplace_back(text.chars.data(), static_cast<std::size_t>(text.size));
    return texts;
}

/// The first failure of `work` on any rank; empty if there is none.
std::string first_fault(Communicator& host, const auto& work) {
    std::string own;
    try {
        work();
    } catch (const Error& error) {
        own = error.what();
    }
    for (const std::string& fault : texts_of_all(host, own))
        if (!fault.empty()) return fault;
    return {};
}

void require_none(const std::string& fault) {
    if (!fault.empty()) fail(ExitCode::usage, "copies between GPUs: ", fault);
}

/// A flag counts in 32 bits.
std::uint32_t counted(std::int64_t number) {
    return static_cast<std::uint32_t>(number);
}

}  // namespace

void copy_piece(const ByteRuns& to, const ByteRuns& from, const Stream& stream) {
    GPTRAIN_CHECK(to.count == from.count && to.bytes == from.bytes, to.count, " runs of ", to.bytes,
                  " bytes from ", from.count, " of ", from.bytes);
    if (to.data == from.data) return;
    // The runtime bounds the strides of rows.
    if (to.contiguous() && from.contiguous()) return copy(to.data, from.data, to.total(), stream);
    copy_rows({.to = to.data,
               .to_stride = to.stride,
               .from = from.data,
               .from_stride = from.stride,
               .row_bytes = from.bytes,
               .rows = from.count},
              stream);
}

std::vector<ByteRuns> pieces_of(const ByteRuns& runs) {
    std::vector<ByteRuns> pieces;
    if (runs.total() == 0) return pieces;
    const std::int64_t per_piece = std::max<std::int64_t>(1, piece_bytes / runs.bytes);
    for (std::int64_t run = 0; run < runs.count; run += per_piece) {
        const std::int64_t count = std::min(per_piece, runs.count - run);
        for (std::int64_t begin = 0; begin < runs.bytes; begin += piece_bytes) {
            const std::int64_t bytes = std::min(piece_bytes, runs.bytes - begin);
            pieces.push_back({runs[run] + begin, count, bytes, runs.stride});
        }
    }
    return pieces;
}

PeerLinks::PeerLinks(Communicator& host, const std::string& name)
    : host_(host),
      rank_(host.rank()),
      size_(host.size()),
      links_(static_cast<std::size_t>(host.size())) {
    const auto open_flags = [&](PeerFlags::Role role) {
        flags_ = std::make_unique<PeerFlags>(name, aborted_flag() + 1, role);
    };
    require_none(first_fault(host_, [&] {
        if (rank_ == 0) open_flags(PeerFlags::Role::maker);
    }));
    const std::string fault = first_fault(host_, [&] {
        if (rank_ != 0) open_flags(PeerFlags::Role::opener);
    });
    if (rank_ == 0) flags_->unlink();
    require_none(fault);
    std::string handle;
    require_none(first_fault(host_, [&] {
        own_.emplace(mailbox_bytes(size_));
        handle = own_->handle();
    }));
    const std::vector<std::string> handles = texts_of_all(host_, handle);
    require_none(first_fault(host_, [&] {
        for (int rank = 0; rank < size_; ++rank)
            if (rank != rank_) at(links_, rank).mailbox.emplace(at(handles, rank));
    }));
}

PeerLinks::~PeerLinks() {
    for (Link& link : links_)
        link.mailbox.reset();
    if (std::uncaught_exceptions() > 0) return;
    // Memory is closed by all before its owner frees it.
    try {
        host_.barrier();
    } catch (const Error&) {
        // Any later use of the ranks reports it.
    }
}

std::byte* PeerLinks::place(std::byte* mailbox, int owner, int sender, std::int64_t number) const {
    const std::int64_t senders_before = sender - (sender > owner ? 1 : 0);
    const std::int64_t slot = number % pieces_on_way;
    return mailbox + (senders_before * pieces_on_way + slot) * piece_bytes;
}

void PeerLinks::push(std::span<const Outgoing> pieces, const Stream& stream) {
    std::vector<PeerFlags::Value> free;
    std::vector<PeerFlags::Value> there;
    for (const Outgoing& each : pieces) {
        const std::int64_t number = at(links_, each.to).pushed++;
        if (number >= pieces_on_way)
            free.push_back({taken_flag(rank_, each.to), counted(number + 1 - pieces_on_way)});
        there.push_back({arrived_flag(rank_, each.to), counted(number + 1)});
    }
    flags_->wait(free, stream);
    std::vector<SentRows> rows;
    for (const auto& [piece, to, slots] : pieces) {
        const Link& link = at(links_, to);
        std::byte* mailbox = place(link.mailbox->data(), to, rank_, link.pushed - 1);
        if (slots == nullptr) {
            copy_piece(contiguous_runs(mailbox, piece), piece, stream);
        } else {
            GPTRAIN_CHECK(piece.contiguous());
            rows.push_back({.to = mailbox,
                            .from = piece.data,
                            .slots = slots,
                            .rows = piece.count,
                            .row_bytes = piece.bytes});
        }
    }
    send_rows(rows, stream);
    flags_->write(there, stream);
}

std::vector<ByteRuns> PeerLinks::arrived(std::span<const ByteRuns> like, std::span<const int> from,
                                         const Stream& stream) {
    std::vector<PeerFlags::Value> there;
    std::vector<ByteRuns> pieces;
    for (std::size_t i = 0; i < from.size(); ++i) {
        const Link& link = at(links_, from[i]);
        there.push_back({arrived_flag(from[i], rank_), counted(link.taken + 1)});
        pieces.push_back(contiguous_runs(place(own_->data(), rank_, from[i], link.taken), like[i]));
    }
    flags_->wait(there, stream);
    return pieces;
}

void PeerLinks::taken(std::span<const int> from, const Stream& stream) {
    std::vector<PeerFlags::Value> free;
    for (const int rank : from)
        free.push_back({taken_flag(rank, rank_), counted(++at(links_, rank).taken)});
    flags_->write(free, stream);
}

void PeerLinks::release() noexcept {
    flags_->set(aborted_flag(), 1);
    for (int rank = 0; rank < size_; ++rank) {
        const Link& link = at(links_, rank);
        // At least what any stream waits for.
        flags_->set(arrived_flag(rank, rank_), counted(link.taken + 1));
        flags_->set(taken_flag(rank_, rank), counted(link.pushed));
    }
}

bool PeerLinks::aborted() const {
    return flags_->value(aborted_flag()) != 0;
}

}  // namespace gptrain::cuda
