#include "data/token_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "data/kept_check.h"

namespace gptrain {
namespace {

constexpr SideFileKind weights_kind = {.words = "file of weights", .magic = {"GPTWGHT\0", 8}};

WeightRun run_in(std::span<const std::byte> bytes, std::int64_t index) {
    const auto at = static_cast<std::size_t>(index * weight_run_bytes);
    const auto first = value_at<std::uint64_t>(bytes, at);
    constexpr std::int64_t beyond = std::numeric_limits<std::int64_t>::max() / 2;
    return {.first = first > static_cast<std::uint64_t>(beyond) ? beyond
                                                                : static_cast<std::int64_t>(first),
            .count = value_at<std::uint32_t>(bytes, at + 8),
            .weight = value_at<float>(bytes, at + 12)};
}

}  // namespace

std::filesystem::path weights_path(const std::filesystem::path& prefix) {
    return prefix.string() + ".weights";
}

TokenWeights::TokenWeights(const std::filesystem::path& path, const LossMask& mask,
                           const MpiSession* ranks)
    : file_(open_side_file(path, weights_kind)) {
    check_header(mask);
    std::uint32_t found = 0;
    if (ranks == nullptr) {
        found = check(mask, Share{});
    } else {
        ranks->run_on_all([&] { found = check_or_recall(mask, {ranks->rank(), ranks->size()}); });
        found = static_cast<std::uint32_t>(ranks->exclusive_or(found));
    }
    if (found != checksum_)
        refuse_side_file(file_, "is damaged: its CRC-32C is not the one in its header");
}

void TokenWeights::check_header(const LossMask& mask) {
    const auto size = static_cast<std::int64_t>(file_.bytes().size());
    const auto [checksum, tokens, runs] = read_side_header(file_, weights_kind);
    if (tokens != static_cast<std::uint64_t>(mask.tokens()))
        refuse_side_file(file_, "is of ", tokens, " tokens, but the loss mask of ", mask.tokens());
    if (size % weight_run_bytes != 0 ||
        runs != static_cast<std::uint64_t>((size - side_header_bytes) / weight_run_bytes)) {
        refuse_side_file(file_, "is ", size, " bytes long, which does not match its ", runs,
                         " runs");
    }
    checksum_ = checksum;
    runs_ = static_cast<std::int64_t>(runs);
}

WeightRun TokenWeights::run(std::int64_t index) const {
    return run_in(file_.bytes().subspan(static_cast<std::size_t>(side_header_bytes)), index);
}

std::uint32_t TokenWeights::check(const LossMask& mask, Share share) const {
    const auto all = file_.bytes().subspan(static_cast<std::size_t>(side_header_bytes));
    const IndexRange range = share.of(runs_);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
        const WeightRun own = run(i);
        const std::int64_t from = i == 0 ? 0 : run(i - 1).end();
        if (own.first < from || own.count < 1 || own.end() > mask.tokens())
            refuse_side_file(file_, "run ", i, " is empty, out of order or behind the last token");
        if (!(own.weight > 0 && own.weight < 1))
            refuse_side_file(file_, "run ", i, " has weight ", own.weight,
                             ", which must be above 0 and below 1");
        if (mask.count(own.first, own.end()) != own.count)
            refuse_side_file(file_, "run ", i, " has tokens that the loss mask does not mark");
    }
    const auto part = all.subspan(static_cast<std::size_t>(range.begin * weight_run_bytes),
                                  static_cast<std::size_t>(range.size() * weight_run_bytes));
    std::uint32_t crc =
        crc32c_part(part, static_cast<std::uint64_t>((runs_ - range.end) * weight_run_bytes));
    if (share.first()) crc ^= counts_crc(file_, all.size());
    return crc;
}

std::uint32_t TokenWeights::check_or_recall(const LossMask& mask, Share share) const {
    const std::vector<std::filesystem::path> files = {file_.path(), mask.path()};
    const FoundNumbers found = check_or_recall_share(
        "weights", files, share, [&] { return FoundNumbers{check(mask, share)}; });
    return static_cast<std::uint32_t>(found[0]);
}

std::int64_t TokenWeights::tokens() const {
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < runs_; ++i)
        tokens += run(i).count;
    return tokens;
}

void TokenWeights::apply(std::int64_t begin, std::span<float> weights) const {
    const std::int64_t end = begin + std::ssize(weights);
    std::int64_t low = 0;  // the first run that ends behind `begin`
    for (std::int64_t high = runs_; low < high;) {
        const std::int64_t middle = low + (high - low) / 2;
        if (run(middle).end() > begin) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    for (; low < runs_ && run(low).first < end; ++low) {
        const WeightRun own = run(low);
        const std::int64_t from = std::max(own.first, begin);
        const std::int64_t to = std::min(own.end(), end);
        std::fill(weights.begin() + (from - begin), weights.begin() + (to - begin), own.weight);
    }
}

void WeightPacker::take(const WeightRun& run, std::vector<std::byte>& out) {
    std::array<std::byte, static_cast<std::size_t>(weight_run_bytes)> bytes{};
    const auto put = [&](std::size_t at, const auto& value) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
    };
    put(0, static_cast<std::uint64_t>(run.first));
    put(8, narrow<std::uint32_t>(run.count));
    put(12, run.weight);
    runs_crc_ = crc32c(bytes.data(), bytes.size(), runs_crc_);
    ++runs_;
    out.insert(out.end(), bytes.begin(), bytes.end());
}

void WeightPacker::add(std::int64_t first, std::span<const float> weights,
                       std::vector<std::byte>& out) {
    for (std::size_t begin = 0; begin < weights.size();) {
        const float weight = weights[begin];
        GPTRAIN_CHECK(weight >= 0 && weight <= 1, weight);
        std::size_t end = begin + 1;
        while (end < weights.size() && weights[end] == weight)
            ++end;
        if (weight > 0 && weight < 1) {
            take({first + static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin),
                  weight},
                 out);
        }
        begin = end;
    }
}

void WeightPacker::add_runs(std::span<const std::byte> runs, std::int64_t shift,
                            std::vector<std::byte>& out) {
    for (std::int64_t i = 0; i < std::ssize(runs) / weight_run_bytes; ++i) {
        WeightRun moved = run_in(runs, i);
        moved.first += shift;
        take(moved, out);
    }
}

std::uint32_t WeightPacker::checksum(std::int64_t tokens) const {
    return side_checksum(tokens, runs_, runs_crc_,
                         static_cast<std::uint64_t>(runs_ * weight_run_bytes));
}

std::array<std::byte, side_header_bytes> WeightPacker::header(std::int64_t tokens) const {
    return side_header(weights_kind, checksum(tokens), tokens, runs_);
}

}  // namespace gptrain
