#include "schedule/stage_memory.h"

#include <algorithm>

namespace gptrain {
namespace {

/// Allocates one slot. The chunks use it in turn, so their allocations overlay each other.
void reserve_slot(Arena& arena, const std::vector<GptChunk>& chunks, const SavedSizes& sizes,
                  const StreamWindows& windows, std::vector<std::vector<SavedChunk>>& saved) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        const ArenaFrame frame(arena);
        const std::int64_t before = arena.used();
        saved[i].push_back(chunks[i].reserve(arena, sizes, windows));
        most = std::max(most, arena.used() - before);
    }
    arena.allocate(DType::u8, {most});
}

/// Allocates one head slot for all slots, or one for each.
void reserve_head_slots(Arena& arena, const GptChunk& last, const StageSizes& sizes,
                        std::vector<SavedChunk>& saved) {
    std::vector<SavedHead> heads;
    for (std::int64_t i = 0; i < sizes.head_slots; ++i)
        heads.push_back(last.reserve_head(arena, sizes.saved.seq_length));
    for (std::size_t slot = 0; slot < saved.size() && !heads.empty(); ++slot)
        saved[slot].head = heads[slot % heads.size()];
}

}  // namespace

StageMemory reserve_forward(const ModelContext& context, const StageSizes& sizes) {
    StageMemory memory;
    const Shape batch = {context.sequences, sizes.saved.seq_length};
    for (std::int64_t slot = 0; slot < sizes.slots; ++slot) {
        memory.batches.push_back(
            reserve_batch(context.memory[MemoryUse::batch], batch, sizes.masks, sizes.stream));
    }
    for (std::int64_t buffer = 0; buffer < sizes.buffers; ++buffer) {
        memory.buffers.push_back(context.memory[MemoryUse::boundaries].allocate(
            context.compute, context.stream_shape(batch.elements())));
    }
    return memory;
}

StageMemory reserve_stage(const ModelContext& context, const std::vector<GptChunk>& chunks,
                          const StageSizes& sizes) {
    StageMemory memory = reserve_forward(context, sizes);
    Arena& saved = context.memory[MemoryUse::saved];
    memory.saved.resize(chunks.size());
    for (std::vector<SavedChunk>& of_chunk : memory.saved)
        of_chunk.reserve(static_cast<std::size_t>(sizes.slots));
    StreamWindows windows;
    if (sizes.saved.on_host)
        windows = chunks.front().reserve_windows(saved, sizes.saved.seq_length);
    for (std::int64_t slot = 0; slot < sizes.slots; ++slot)
        reserve_slot(saved, chunks, sizes.saved, windows, memory.saved);
    reserve_head_slots(saved, chunks.back(), sizes, memory.saved.back());
    for (std::int64_t i = 0; i < sizes.deferred_heads; ++i) {
        memory.deferred_heads.push_back(
            chunks.back().reserve_deferred_head(saved, sizes.saved.seq_length));
    }
    return memory;
}

}  // namespace gptrain
