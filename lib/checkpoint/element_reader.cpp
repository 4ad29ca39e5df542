#include "checkpoint/element_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/block.h"
#include "checkpoint/overlap.h"

namespace gptrain {

void BlockCache::read(const TensorRecord& tensor, const ExtentRecord& extent, std::int64_t index,
                      std::size_t begin, std::span<std::byte> to) {
    if (std::cmp_equal(to.size(), block_bytes(extent, index))) {
        read_block(file(extent.file), tensor, extent, index, to);
    } else {
        std::memcpy(to.data(), block(tensor, extent, index).data() + begin, to.size());
    }
}

std::span<const std::byte> BlockCache::block(const TensorRecord& tensor, const ExtentRecord& extent,
                                             std::int64_t index) {
    ++clock_;
    for (Entry& entry : entries_) {
        if (entry.extent == &extent && entry.index == index) {
            entry.last_used = clock_;
            return entry.block;
        }
    }
    Entry& entry = free_entry();
    // Invalid until the block is verified.
    entry.extent = nullptr;
    const std::span memory(entry.memory.get(), checkpoint_block_bytes);
    entry.block = read_block(file(extent.file), tensor, extent, index, memory);
    entry.extent = &extent;
    entry.index = index;
    entry.last_used = clock_;
    return entry.block;
}

BlockCache::Entry& BlockCache::free_entry() {
    if (entries_.size() < max_entries) {
        Entry& entry = entries_.emplace_back();
        entry.memory = std::make_unique_for_overwrite<std::byte[]>(checkpoint_block_bytes);
        return entry;
    }
    return *std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
        return a.last_used < b.last_used;
    });
}

const File& BlockCache::file(const std::string& name) {
    const auto open = files_.find(name);
    if (open != files_.end()) return open->second;
    if (files_.size() == max_files) files_.clear();
    return files_.emplace(name, open_listed(folder_, *manifest_.find_file(name))).first->second;
}

void ElementReader::read(const Shard& part, const TensorRecord& tensor, std::span<std::byte> to) {
    std::int64_t filled = 0;
    for (const ExtentRecord& extent : tensor.extents) {
        for_each_overlap(part, shard_of(tensor, extent),
                         [&](std::int64_t at, std::int64_t from, std::int64_t count) {
                             copy(tensor, extent, from, to.subspan(bytes_of(at), bytes_of(count)));
                             filled += count;
                         });
    }
    // Where not all records were read, nothing has shown that they have every element.
    if (filled != part.elements()) {
        fail(ExitCode::bad_input, cache_.folder().string(), ": the records have ", filled, " of ",
             part.elements(), " elements of ", tensor.group, "/", tensor.name);
    }
}

void ElementReader::copy(const TensorRecord& tensor, const ExtentRecord& extent, std::int64_t from,
                         std::span<std::byte> to) {
    while (!to.empty()) {
        const std::int64_t inside = from % block_elements;
        const std::size_t part = std::min(to.size(), bytes_of(block_elements - inside));
        cache_.read(tensor, extent, from / block_elements, bytes_of(inside), to.first(part));
        from += block_elements - inside;
        to = to.subspan(part);
    }
}

}  // namespace gptrain
