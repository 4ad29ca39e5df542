#include "data/indexed_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/signals.h"
#include "data/chat_template_file.h"

namespace gptrain {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::int64_t header_bytes = 34;

std::filesystem::path with_suffix(const std::filesystem::path& path, const char* suffix) {
    return path.string() + suffix;
}

std::filesystem::path bin_path_of(const std::filesystem::path& prefix) {
    return with_suffix(prefix, ".bin");
}
std::filesystem::path idx_path_of(const std::filesystem::path& prefix) {
    return with_suffix(prefix, ".idx");
}
std::filesystem::path documents_path_of(const std::filesystem::path& prefix) {
    return with_suffix(prefix, ".documents");
}
std::filesystem::path temporary_path_of(const std::filesystem::path& path) {
    return with_suffix(path, ".tmp");
}

std::vector<std::byte> reserved_buffer() {
    std::vector<std::byte> buffer;
    buffer.reserve(buffer_bytes);
    return buffer;
}

using Header = std::array<char, header_bytes>;

Header make_header(DType dtype, const TokenCounts& counts) {
    Header header{'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1};
    header[17] = dtype == DType::u16 ? 8 : 4;
    const std::int64_t entries = counts.documents + 1;
    std::memcpy(header.data() + 18, &counts.sequences, sizeof counts.sequences);
    std::memcpy(header.data() + 26, &entries, sizeof entries);
    return header;
}

void remove_old(const std::filesystem::path& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        fail_errno(errno, path.string(), ": cannot replace");
    }
}

/// Calls `use` with consecutive parts of [begin, end) of the file.
void for_each_block(const File& file, std::int64_t begin, std::int64_t end, const auto& use) {
    std::vector<std::byte> block(buffer_bytes);
    while (begin < end) {
        const auto bytes = std::min<std::int64_t>(std::ssize(block), end - begin);
        const auto part = std::span(block).first(static_cast<std::size_t>(bytes));
        file.read_at(begin, part);
        use(std::span<const std::byte>(part));
        begin += bytes;
    }
}

template <class T>
constexpr std::int64_t entry_bytes = sizeof(T);

/// Calls `use` with each T of a block, which holds only whole values.
template <class T>
void for_each_entry(std::span<const std::byte> block, const auto& use) {
    for (std::size_t at = 0; at < block.size(); at += sizeof(T)) {
        T entry = 0;
        std::memcpy(&entry, block.data() + at, sizeof entry);
        use(entry);
    }
}

/// A file of a finished part, which must have that size.
File open_part(const std::filesystem::path& path, std::int64_t bytes) {
    File file(temporary_path_of(path), File::Mode::read);
    if (file.size() == bytes) return file;
    fail(ExitCode::io, file.path().string(), ": has ", file.size(), " bytes instead of ", bytes,
         "; another program has changed it");
}

/// Gives back the disk space of a file whose writer still has it open, so that to remove it would
/// not.
void empty(const File& part) {
    if (::truncate(part.path().c_str(), 0) != 0)
        fail_errno(errno, part.path().string(), ": cannot empty");
}

}  // namespace

IndexedWriter::Spool::Spool(const std::filesystem::path& path)
    : buffer_(reserved_buffer()), file_(path) {}

void IndexedWriter::Spool::move_into_place() {
    file_.move_into_place();
}

void IndexedWriter::Spool::write(const void* bytes, std::size_t count) {
    if (buffer_.size() + count > buffer_bytes) flush();
    const auto* begin = static_cast<const std::byte*>(bytes);
    if (count >= buffer_bytes) {
        file().write(std::span(begin, count));
    } else {
        buffer_.insert(buffer_.end(), begin, begin + count);
    }
}

void IndexedWriter::Spool::write_whole(std::string_view contents) {
    write(contents.data(), contents.size());
    sync();
}

void IndexedWriter::Spool::flush() {
    file().write(buffer_);
    buffer_.clear();
}

void IndexedWriter::Spool::sync() {
    flush();
    file().sync();
}

std::vector<std::filesystem::path> IndexedWriter::files_of(const std::filesystem::path& prefix) {
    return {bin_path_of(prefix), idx_path_of(prefix),  meta_path(prefix),
            mask_path(prefix),   weights_path(prefix), template_path(prefix)};
}

std::vector<std::filesystem::path> IndexedWriter::unfinished_files_of(
    const std::filesystem::path& prefix) {
    std::vector<std::filesystem::path> paths = files_of(prefix);
    paths.push_back(documents_path_of(prefix));
    for (std::filesystem::path& path : paths)
        path = temporary_path_of(path);
    return paths;
}

IndexedWriter::IndexedWriter(const std::filesystem::path& prefix, DType dtype, bool masked)
    : bin_path_(bin_path_of(prefix)),
      idx_path_(idx_path_of(prefix)),
      meta_path_(meta_path(prefix)),
      mask_path_(mask_path(prefix)),
      weights_path_(weights_path(prefix)),
      template_path_(template_path(prefix)),
      dtype_(dtype),
      bin_(bin_path_),
      idx_(idx_path_),
      documents_(documents_path_of(prefix)) {
    GPTRAIN_CHECK(dtype == DType::u16 || dtype == DType::i32, name_of(dtype));
    for (const std::filesystem::path& file : files_of(prefix))
        require_replaceable(file);
    const Header unset{};
    idx_.write(unset.data(), unset.size());
    const std::int64_t first = 0;
    documents_.write(&first, sizeof first);
    if (!masked) return;
    mask_.emplace(mask_path_);
    weights_.emplace(weights_path_);
}

IndexedWriter::Mask::Mask(const std::filesystem::path& path) : file(path) {
    const std::array<std::byte, side_header_bytes> unset{};
    file.write(unset.data(), unset.size());
}

void IndexedWriter::Mask::add(std::span<const std::uint8_t> learned) {
    bytes.clear();
    packer.add(learned, bytes);
    file.write(bytes.data(), bytes.size());
}

void IndexedWriter::Mask::finish() {
    bytes.clear();
    packer.finish(bytes);
    file.write(bytes.data(), bytes.size());
    file.sync();
}

IndexedWriter::Weights::Weights(const std::filesystem::path& path) : file(path) {
    const std::array<std::byte, side_header_bytes> unset{};
    file.write(unset.data(), unset.size());
}

void IndexedWriter::Weights::add(std::int64_t first, std::span<const float> weights) {
    bytes.clear();
    packer.add(first, weights, bytes);
    file.write(bytes.data(), bytes.size());
}

void IndexedWriter::Weights::add_runs(std::span<const std::byte> runs, std::int64_t shift) {
    bytes.clear();
    packer.add_runs(runs, shift, bytes);
    file.write(bytes.data(), bytes.size());
}

void IndexedWriter::add_sequence(std::span<const std::int32_t> ids,
                                 std::span<const std::uint8_t> learned,
                                 std::span<const float> weights) {
    GPTRAIN_CHECK(learned.size() == (mask_ ? ids.size() : 0), learned.size());
    GPTRAIN_CHECK(weights.empty() || (mask_ && weights.size() == ids.size()), weights.size());
    if (mask_) mask_->add(learned);
    if (weights_) weights_->add(counts_.tokens, weights);
    require_sequences(1);
    const auto length = narrow<std::int32_t>(std::ssize(ids));
    if (dtype_ == DType::i32) {
        bin_.write(ids.data(), ids.size_bytes());
    } else {
        narrow_.resize(ids.size());
        std::transform(ids.begin(), ids.end(), narrow_.begin(), [](std::int32_t id) {
            GPTRAIN_CHECK(id >= 0 && id <= std::numeric_limits<std::uint16_t>::max(), id);
            return static_cast<std::uint16_t>(id);
        });
        bin_.write(narrow_.data(), narrow_.size() * sizeof narrow_[0]);
    }
    idx_.write(&length, sizeof length);
    ++counts_.sequences;
    counts_.tokens += length;
}

void IndexedWriter::end_document() {
    documents_.write(&counts_.sequences, sizeof counts_.sequences);
    ++counts_.documents;
}

void IndexedWriter::finish_part() {
    bin_.sync();
    idx_.sync();
    documents_.sync();
    if (mask_) mask_->finish();
    if (weights_) weights_->file.sync();
}

void IndexedWriter::require_sequences(std::int64_t more) const {
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    if (more <= limit - counts_.sequences) return;
    fail(ExitCode::bad_input, idx_path_.string(), ": would have more than ", limit,
         " documents, the limit of this format; split the corpus");
}

void IndexedWriter::append_part(const std::filesystem::path& prefix, const TokenCounts& counts) {
    require_sequences(counts.sequences);
    const File bin = open_part(bin_path_of(prefix), counts.tokens * size_of(dtype_));
    const File idx =
        open_part(idx_path_of(prefix), header_bytes + counts.sequences * entry_bytes<std::int32_t>);
    const File documents =
        open_part(documents_path_of(prefix), (counts.documents + 1) * entry_bytes<std::int64_t>);
    for_each_block(bin, 0, bin.size(),
                   [&](std::span<const std::byte> ids) { bin_.write(ids.data(), ids.size()); });
    for_each_block(idx, header_bytes, idx.size(), [&](std::span<const std::byte> lengths) {
        idx_.write(lengths.data(), lengths.size());
    });
    // The first entry is the start of the part, which the last entry here is already.
    for_each_block(documents, entry_bytes<std::int64_t>, documents.size(),
                   [&](std::span<const std::byte> entries) {
                       for_each_entry<std::int64_t>(entries, [&](std::int64_t sequence) {
                           sequence += counts_.sequences;
                           documents_.write(&sequence, sizeof sequence);
                       });
                   });
    if (mask_) append_mask(prefix, counts.tokens);
    if (weights_) append_weights(prefix);
    for (const File* file : {&bin, &idx, &documents})
        empty(*file);
    counts_.sequences += counts.sequences;
    counts_.documents += counts.documents;
    counts_.tokens += counts.tokens;
}

void IndexedWriter::append_mask(const std::filesystem::path& prefix, std::int64_t tokens) {
    const std::int64_t end = side_header_bytes + mask_bit_bytes(tokens);
    const File part = open_part(mask_path(prefix), end);
    std::vector<std::uint8_t> learned;
    for_each_block(part, side_header_bytes, end, [&](std::span<const std::byte> bits) {
        learned.clear();
        for (const std::byte byte : bits) {
            for (int bit = 0; bit < 8; ++bit)
                learned.push_back(
                    static_cast<std::uint8_t>(std::to_integer<unsigned>(byte) >> bit & 1U));
        }
        const auto count = std::min<std::int64_t>(tokens, std::ssize(learned));
        mask_->add(std::span(learned).first(static_cast<std::size_t>(count)));
        tokens -= count;
    });
    empty(part);
}

void IndexedWriter::append_weights(const std::filesystem::path& prefix) {
    const File part(temporary_path_of(weights_path(prefix)), File::Mode::read);
    static_assert(buffer_bytes % weight_run_bytes == 0);
    for_each_block(part, side_header_bytes, part.size(), [&](std::span<const std::byte> runs) {
        weights_->add_runs(runs, counts_.tokens);
    });
    empty(part);
}

void IndexedWriter::commit(const std::optional<TokenMeta>& meta, std::string_view chat_template) {
    bin_.sync();
    idx_.flush();
    write_offsets();
    write_documents();
    const Header header = make_header(dtype_, counts_);
    idx_.file().write_at(0, std::as_bytes(std::span(header)));
    idx_.file().sync();
    if (mask_) {
        GPTRAIN_CHECK(meta);
        mask_->finish();
        mask_->file.file().write_at(0, mask_->packer.header());
        mask_->file.sync();
    }
    if (weights_ && weights_->packer.runs() == 0) weights_.reset();
    if (weights_) {
        weights_->file.flush();
        weights_->file.file().write_at(0, weights_->packer.header(counts_.tokens));
        weights_->file.sync();
    }
    std::optional<Spool> description;
    if (meta) description.emplace(meta_path_).write_whole(meta_text(*meta));
    std::optional<Spool> conversations;
    if (!chat_template.empty()) conversations.emplace(template_path_).write_whole(chat_template);
    replace_files(description, conversations);
    sync_folder(folder_of(idx_path_));
}

void IndexedWriter::replace_files(std::optional<Spool>& description,
                                  std::optional<Spool>& chat_template) {
    const DeferSignals held;
    // Without its index the old .bin is no data set, so no crash can combine a new .bin with an old
    // index, description, mask, weights or template.
    for (const auto* old : {&idx_path_, &meta_path_, &mask_path_, &weights_path_, &template_path_})
        remove_old(*old);
    bin_.move_into_place();
    std::vector<std::string> others = {".idx"};
    const auto add = [&](Spool& file, std::string name) {
        file.move_into_place();
        others.push_back(std::move(name));
    };
    if (mask_) add(mask_->file, ".mask");
    if (weights_) add(weights_->file, ".weights");
    if (chat_template) add(*chat_template, template_path("").string());
    if (description) add(*description, ".meta.json");
    idx_.move_into_place();
    written_ = bin_path_.string();
    for (const std::string& name : others)
        written_ += (name == others.back() ? " and " : ", ") + name;
}

std::string IndexedWriter::meta_text(TokenMeta meta) const {
    meta.documents = counts_.documents;
    meta.tokens = counts_.tokens;
    meta.mask = std::nullopt;
    if (mask_) meta.mask = {mask_->packer.checksum(), mask_->packer.learned()};
    meta.weights = std::nullopt;
    if (weights_)
        meta.weights = {weights_->packer.checksum(counts_.tokens), weights_->packer.runs()};
    return to_text(meta);
}

void IndexedWriter::write_offsets() {
    std::int64_t offset = 0;
    std::vector<std::int64_t> offsets;
    const std::int64_t end = header_bytes + counts_.sequences * entry_bytes<std::int32_t>;
    for_each_block(idx_.file(), header_bytes, end, [&](std::span<const std::byte> lengths) {
        offsets.clear();
        for_each_entry<std::int32_t>(lengths, [&](std::int32_t length) {
            offsets.push_back(offset);
            offset += length * size_of(dtype_);
        });
        idx_.write(offsets.data(), offsets.size() * sizeof offsets[0]);
    });
}

void IndexedWriter::write_documents() {
    documents_.flush();
    const std::int64_t end = (counts_.documents + 1) * entry_bytes<std::int64_t>;
    for_each_block(documents_.file(), 0, end, [&](std::span<const std::byte> entries) {
        idx_.write(entries.data(), entries.size());
    });
    idx_.flush();
}

}  // namespace gptrain
