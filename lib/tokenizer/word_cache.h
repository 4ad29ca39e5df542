// Remembers the ids of words, in fixed memory. Not thread-safe: each thread takes its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/large_pages.h"

namespace gptrain {

/// A table of 32 MiB with two places for each hash: a new word replaces the one used less recently.
class WordCache {
public:
    /// Longer words, words of no ids, and words with too many for a place are not kept.
    static constexpr std::size_t max_bytes = 30;

    explicit WordCache(std::size_t vocab_size) : narrow_(vocab_size <= no_narrow_id) {}

    /// A word in the form in which it is compared: padded with zeros, the length last.
    class Key {
    public:
        /// Sets the key of a nonempty word. Do not look up a word longer than max_bytes. Reads up
        /// to 32 bytes from the word's start, but never past `readable_end`.
        void assign(std::string_view word, const char* readable_end) {
            word = word.substr(0, max_bytes);
            const char* from = word.data();
            char copy[32] = {};
            if (readable_end - from < 32) {
                std::memcpy(copy, from, word.size());
                from = copy;
            }
            for (std::size_t i = 0; i < words_.size(); ++i) {
                std::uint64_t eight = 0;
                std::memcpy(&eight, from + 8 * i, 8);
                words_[i] = eight & mask(word.size(), 8 * i);
            }
            words_[3] |= std::uint64_t{word.size()} << 56;
        }
        bool operator==(const Key& other) const {
            return ((words_[0] ^ other.words_[0]) | (words_[1] ^ other.words_[1]) |
                    (words_[2] ^ other.words_[2]) | (words_[3] ^ other.words_[3])) == 0;
        }
        std::size_t place() const {
            constexpr std::uint64_t odd = 0x9E3779B97F4A7C15u;
            const std::uint64_t a = (words_[0] ^ words_[3]) * odd;
            const std::uint64_t b = (words_[1] + (words_[2] << 1)) * 0xC2B2AE3D27D4EB4Fu;
            const std::uint64_t mixed = (a ^ (a >> 29) ^ b) * odd;
            return static_cast<std::size_t>(mixed >> (64 - place_bits));
        }

    private:
        /// A mask for the eight bytes at offset `first`: it keeps those before `size`.
        static std::uint64_t mask(std::size_t size, std::size_t first) {
            if (size >= first + 8) return ~std::uint64_t{0};
            return size <= first ? 0 : (std::uint64_t{1} << 8 * (size - first)) - 1;
        }
        std::array<std::uint64_t, 4> words_;
    };

    /// Speeds up an `append` soon after.
    void prefetch(const Key& key) const { __builtin_prefetch(&places_[key.place()]); }
    /// Appends the ids of a word; false if it is not there.
    bool append(const Key& key, std::vector<std::int32_t>& out) {
        auto& [last, older] = places_[key.place()];
        if (!(last.key == key)) {
            if (!(older.key == key)) return false;
            std::swap(last, older);
        }
        if (narrow_) {
            append_to(last.ids.narrow, no_narrow_id, out);
        } else {
            append_to(last.ids.wide, no_id, out);
        }
        return true;
    }
    void add(const Key& key, std::span<const std::int32_t> ids) {
        const std::size_t room = narrow_ ? NarrowIds().size() : WideIds().size();
        if (ids.empty() || ids.size() > room) return;
        auto& [entry, older] = places_[key.place()];
        older = entry;
        entry.key = key;
        if (narrow_) {
            entry.ids.narrow = kept<NarrowIds>(ids, no_narrow_id);
        } else {
            entry.ids.wide = kept<WideIds>(ids, no_id);
        }
    }

private:
    static constexpr int place_bits = 18;
    /// The ids of a word in the smaller type that holds every id of the vocabulary, padded.
    using NarrowIds = std::array<std::uint16_t, 16>;
    using WideIds = std::array<std::int32_t, 8>;
    static constexpr std::uint16_t no_narrow_id = 0xFFFF;
    static constexpr std::int32_t no_id = -1;

    template <class Ids>
    static Ids kept(std::span<const std::int32_t> ids, auto none) {
        Ids kept;
        kept.fill(none);
        std::transform(ids.begin(), ids.end(), kept.begin(),
                       [](std::int32_t id) { return static_cast<typename Ids::value_type>(id); });
        return kept;
    }
    static void append_to(const auto& ids, auto none, std::vector<std::int32_t>& out) {
        for (std::size_t i = 0; i < ids.size() && ids[i] != none; ++i)
            out.push_back(ids[i]);
    }

    struct alignas(64) Entry {
        Key key;
        union {
            WideIds wide;
            NarrowIds narrow;
        } ids;
    };
    struct Place {
        Entry last, older;  ///< by use
    };
    bool narrow_;
    std::vector<Place, LargePages<Place>> places_ =
        std::vector<Place, LargePages<Place>>(std::size_t{1} << place_bits);
};

/// Lends caches to threads. There are as many as were ever in use at once.
class WordCaches {
public:
    explicit WordCaches(std::size_t vocab_size) : vocab_size_(vocab_size) {}
    /// Calls `work` with a cache that nobody else uses meanwhile.
    void with_cache(const auto& work) {
        std::unique_ptr<WordCache> cache = take();
        work(*cache);
        const std::lock_guard lock(mutex_);
        free_.push_back(std::move(cache));
    }

private:
    std::unique_ptr<WordCache> take() {
        const std::lock_guard lock(mutex_);
        if (free_.empty()) return std::make_unique<WordCache>(vocab_size_);
        std::unique_ptr<WordCache> cache = std::move(free_.back());
        free_.pop_back();
        return cache;
    }

    std::size_t vocab_size_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<WordCache>> free_;
};

}  // namespace gptrain
