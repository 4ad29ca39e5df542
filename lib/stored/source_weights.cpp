#include "stored/source_weights.h"

#include <algorithm>
#include <vector>

#include "base/crc32c.h"
#include "checkpoint/folder.h"
#include "checkpoint/shard_record.h"

namespace gptrain {
namespace {

constexpr std::int64_t compared_elements = 1024;

std::string fingerprint_of(const ModelSource& source) {
    SourceWeights weights(source);
    std::uint32_t crc = 0;
    std::vector<float> values;
    for (Shard tensor : whole_tensors(source.model())) {
        const std::string name = text(tensor.name, tensor.global.to_text());
        crc = crc32c(name.data(), name.size(), crc);
        tensor.flat_end = std::min(tensor.flat_end, compared_elements);
        values.resize(static_cast<std::size_t>(tensor.elements()));
        weights.read(tensor, values);
        crc = crc32c(values.data(), values.size() * sizeof(float), crc);
    }
    return text(crc);
}

}  // namespace

SourceWeights::SourceWeights(const ModelSource& source)
    : source_(source), folder_(source.folder()) {
    if (source.hf() != nullptr) return;
    if (source.adapted() != nullptr) adapted_ = std::make_unique<SourceWeights>(*source.adapted());
    if (source.peft() != nullptr) return;
    manifest_ = read_manifest(folder_);
    reader_.emplace(folder_, manifest_);
}

void SourceWeights::read(const Shard& part, std::span<float> to) {
    if (source_.hf() != nullptr) return source_.hf()->read(part, to);
    if (adapted_ && !is_adapter_parameter(part.name)) return adapted_->read(part, to);
    if (source_.peft() != nullptr) return source_.peft()->read(part, to);
    const TensorRecord* tensor = manifest_.find("weight", part.name);
    if (tensor == nullptr || tensor->shape != part.global) {
        fail(ExitCode::bad_input, folder_.string(), ": has no tensor weight/", part.name,
             " of shape ", part.global.to_text());
    }
    reader_->read(part, *tensor, std::as_writable_bytes(to));
}

std::string fingerprint(const ModelSource& source, const MpiSession& ranks) {
    std::string result;
    ranks.run_on_first([&] { result = fingerprint_of(source); });
    return ranks.broadcast(result);
}

void refuse_older_weights(const ModelSource& adapted) {
    const std::string folder = adapted.folder().string();
    fail(ExitCode::usage, folder,
         ": holds different weights from the newer checkpoint, for which the adapter was trained "
         "and which is damaged; restore the newer one, or train a new adapter with init_from: ",
         folder);
}

}  // namespace gptrain
