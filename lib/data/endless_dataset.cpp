#include "data/endless_dataset.h"

#include <limits>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {

EndlessDataset::EndlessDataset(OpenPass open, std::int64_t samples_per_pass,
                               const IndexCache& cache)
    : open_(std::move(open)),
      samples_per_pass_(samples_per_pass),
      cache_(cache.alone()),
      source_(open_(0, cache)) {
    GPTRAIN_CHECK(samples_per_pass > 0 && source_->size() >= samples_per_pass, samples_per_pass);
}

std::int64_t EndlessDataset::size() const {
    return std::numeric_limits<std::int64_t>::max();
}

std::shared_ptr<const SampleSource> EndlessDataset::pass_of(std::int64_t index) const {
    const std::int64_t pass = index / samples_per_pass_;
    const std::lock_guard lock(mutex_);
    if (pass != pass_) {
        if (announces_pass(pass + 1)) {
            print("data: pass ", pass + 1, " over the training samples starts at sample ",
                  pass * samples_per_pass_, " (reshuffled)");
        }
        source_ = open_(pass, cache_);
        pass_ = pass;
    }
    return source_;
}

std::int64_t EndlessDataset::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
    return pass_of(index)->sample(index % samples_per_pass_, tokens);
}

void EndlessDataset::weights(std::int64_t index, std::span<float> weights) const {
    pass_of(index)->weights(index % samples_per_pass_, weights);
}

std::string EndlessDataset::place_of(std::int64_t index, std::int64_t offset) const {
    return pass_of(index)->place_of(index % samples_per_pass_, offset);
}

}  // namespace gptrain
