#include "data/gpt_dataset.h"

#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "base/checked.h"
#include "base/error.h"
#include "data/numpy_shuffle.h"

namespace gptrain {
namespace {

/// The quantities defined at the top of the header.
struct Epochs {
    std::int64_t documents = 0;  ///< sequences per epoch
    std::int64_t epochs = 1;     ///< E
    std::int64_t samples = 0;    ///< floor((E T - 1) / S)
    bool separate_last = false;
    std::int64_t samples_before_last = 0;  ///< A
};

Epochs plan_epochs(SequenceRange range, std::int64_t tokens, const OrderOptions& options) {
    const std::int64_t length = options.seq_length;
    const std::int64_t wanted = checked_add(checked_mul(options.num_samples, length), 1);
    Epochs plan;
    plan.documents = range.end - range.begin;
    plan.epochs = div_ceil(wanted, tokens);
    plan.samples = (checked_mul(plan.epochs, tokens) - 1) / length;
    if (plan.epochs > 1) {
        plan.samples_before_last = ((plan.epochs - 1) * tokens - 1) / length;
        const std::int64_t per_epoch = (tokens - 1) / length;
        const std::int64_t from_last = options.num_samples - plan.samples_before_last;
        plan.separate_last =
            from_last < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
    }
    return plan;
}

void fill_documents(std::span<std::int32_t> index, SequenceRange range, const Epochs& plan,
                    NumpyRandom& random) {
    const auto documents = static_cast<std::size_t>(plan.documents);
    for (std::size_t begin = 0; begin < index.size(); begin += documents) {
        const auto epoch = index.subspan(begin, documents);
        std::iota(epoch.begin(), epoch.end(), static_cast<std::int32_t>(range.begin));
    }
    const std::size_t last = plan.separate_last ? documents : 0;
    random.shuffle(index.first(index.size() - last));
    random.shuffle(index.last(last));
}

void fill_samples(std::span<std::int64_t> positions, std::span<std::int32_t> offsets,
                  std::span<const std::int32_t> documents, const IndexedDataset& tokens,
                  std::int64_t seq_length) {
    std::int64_t token = 0;  // flat index of the first token at `position`
    std::size_t position = 0;
    // Megatron's row 0 is (0, 0) even if the first documents are empty; so it is here, because no
    // document has been examined yet.
    for (std::size_t row = 1; row < positions.size(); ++row) {
        const std::int64_t wanted = static_cast<std::int64_t>(row) * seq_length;
        while (true) {
            const std::int64_t length = tokens.sequence_length(documents[position]);
            if (wanted < token + length) break;
            token += length;
            ++position;
        }
        positions[row] = static_cast<std::int64_t>(position);
        offsets[row] = static_cast<std::int32_t>(wanted - token);
    }
}

void fill_shuffle(std::span<std::int64_t> index, const Epochs& plan, NumpyRandom& random) {
    std::iota(index.begin(), index.end(), 0);
    const auto first =
        plan.separate_last ? static_cast<std::size_t>(plan.samples_before_last) : index.size();
    random.shuffle(index.first(first));
    random.shuffle(index.subspan(first));
}

std::string key_of(const IndexedDataset& tokens, SequenceRange range, const OrderOptions& options) {
    const std::int64_t added = tokens.virtual_tokens();
    return text("GPTDataset order of ", tokens.fingerprint(),
                added > 0 ? text(" virtual tokens ", added) : "", " sequences ", range.begin, "-",
                range.end, " seed ", options.seed, " seq_length ", options.seq_length,
                " num_samples ", options.num_samples);
}

CachedArrays make_indices(const IndexedDataset& tokens, SequenceRange range,
                          const OrderOptions& options, const std::string& key,
                          const IndexCache& cache) {
    const std::int64_t count = tokens.num_tokens(range.begin, range.end);
    if (count == 0) {
        fail(ExitCode::bad_input, tokens.prefix().string(), ": sequences ", range.begin, " to ",
             range.end, " of ", tokens.num_sequences(), " contain no tokens");
    }
    GPTRAIN_CHECK(options.num_samples > 0 && options.seq_length > 0);
    const Epochs plan = plan_epochs(range, count, options);
    const std::int64_t entries = checked_mul(plan.documents, plan.epochs);
    const std::int64_t rows = plan.samples + 1;
    return CachedArrays(cache, "order", key,
                        {checked_mul(entries, 4), checked_mul(rows, 8), checked_mul(rows, 4),
                         checked_mul(plan.samples, 8)},
                        [&](const std::vector<std::span<std::byte>>& arrays) {
                            NumpyRandom random(options.seed);
                            const auto documents = elements<std::int32_t>(arrays[0]);
                            fill_documents(documents, range, plan, random);
                            fill_samples(elements<std::int64_t>(arrays[1]),
                                         elements<std::int32_t>(arrays[2]), documents, tokens,
                                         options.seq_length);
                            fill_shuffle(elements<std::int64_t>(arrays[3]), plan, random);
                        });
}

}  // namespace

std::int64_t samples_in_order(std::int64_t tokens, const OrderOptions& options) {
    return plan_epochs({}, tokens, options).samples;
}

std::int64_t samples_before_last_epoch(std::int64_t tokens, const OrderOptions& options) {
    const Epochs plan = plan_epochs({}, tokens, options);
    return plan.separate_last ? plan.samples_before_last : plan.samples;
}

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range,
                       const OrderOptions& options, const IndexCache& cache)
    : tokens_(std::move(tokens)),
      seq_length_(options.seq_length),
      key_(key_of(*tokens_, range, options)),
      cache_(make_indices(*tokens_, range, options, key_, cache)) {}

std::int64_t GptDataset::size() const {
    return static_cast<std::int64_t>(shuffle_index().size());
}

std::int64_t GptDataset::window_of(std::int64_t index) const {
    GPTRAIN_CHECK(index >= 0 && index < size(), index, " of ", size());
    return at(shuffle_index(), index);
}

std::int64_t GptDataset::length_at(std::int64_t position) const {
    GPTRAIN_CHECK(position >= 0 && position < static_cast<std::int64_t>(document_index().size()),
                  position);
    return tokens_->sequence_length(at(document_index(), position));
}

GptDataset::Place GptDataset::place_of_token(std::int64_t window, std::int64_t offset) const {
    GPTRAIN_CHECK(window >= 0 && window < size(), window, " of ", size());
    const auto row = static_cast<std::size_t>(window);
    Place place = {sample_positions()[row], sample_offsets()[row] + offset};
    for (std::int64_t length; place.offset >= (length = length_at(place.position));)
        place = {place.position + 1, place.offset - length};
    return place;
}

template <class T>
void GptDataset::for_each_part(std::int64_t window, std::int64_t offset, std::span<T> out,
                               const auto& read) const {
    Place place = place_of_token(window, offset);
    while (!out.empty()) {
        const std::int64_t left = length_at(place.position) - place.offset;
        const auto count = static_cast<std::size_t>(std::min(left, std::ssize(out)));
        read(at(document_index(), place.position), place.offset, out.first(count));
        out = out.subspan(count);
        place = {place.position + 1, 0};
    }
}

void GptDataset::read(std::int64_t window, std::int64_t offset,
                      std::span<std::int32_t> tokens) const {
    for_each_part(window, offset, tokens,
                  [&](std::int32_t sequence, std::int64_t begin, std::span<std::int32_t> part) {
                      tokens_->read(sequence, begin, std::ssize(part), part.data());
                  });
}

void GptDataset::read_weights(std::int64_t window, std::int64_t offset,
                              std::span<float> weights) const {
    for_each_part(window, offset, weights,
                  [&](std::int32_t sequence, std::int64_t begin, std::span<float> part) {
                      tokens_->read_weights(sequence, begin, part);
                  });
}

std::string GptDataset::place_in(std::int64_t window, std::int64_t offset) const {
    const Place place = place_of_token(window, offset);
    return text(tokens_->bin_path().string(), ": sequence ", at(document_index(), place.position),
                ", token ", place.offset);
}

}  // namespace gptrain
