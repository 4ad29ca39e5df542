#include "parquet/parquet_values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "parquet/delta_decoder.h"
#include "parquet/hybrid_decoder.h"

namespace gptrain {
namespace {

[[noreturn]] void fail_short() {
    fail(ExitCode::bad_input, "its values end early");
}

/// Takes bytes from the front of a span.
class Bytes {
public:
    explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::span<const std::byte> take(std::size_t count) {
        if (count > bytes_.size() - at_) fail_short();
        at_ += count;
        return bytes_.subspan(at_ - count, count);
    }
    std::string_view text(std::size_t count) {
        const auto bytes = take(count);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    std::string_view sized_text() { return text(value_at<std::uint32_t>(take(4), 0)); }
    std::size_t position() const { return at_; }

private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

template <class T>
ParquetValue widened(T value) {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
    return static_cast<Wide>(value);
}

class PlainTexts final : public ParquetValues {
public:
    explicit PlainTexts(std::span<const std::byte> bytes) : bytes_(bytes) {}
    ParquetValue next() override { return bytes_.sized_text(); }

private:
    Bytes bytes_;
};

template <class T>
class PlainNumbers final : public ParquetValues {
public:
    explicit PlainNumbers(std::span<const std::byte> bytes) : bytes_(bytes) {}
    ParquetValue next() override { return widened(value_at<T>(bytes_.take(sizeof(T)), 0)); }

private:
    Bytes bytes_;
};

/// Byte k of all numbers, then byte k + 1.
template <class T>
class SplitNumbers final : public ParquetValues {
public:
    explicit SplitNumbers(std::span<const std::byte> bytes)
        : bytes_(bytes), count_(bytes.size() / sizeof(T)) {
        if (bytes.size() % sizeof(T) != 0) fail_short();
    }
    ParquetValue next() override {
        if (at_ == count_) fail_short();
        std::byte number[sizeof(T)];
        for (std::size_t k = 0; k < sizeof(T); ++k)
            number[k] = bytes_[k * count_ + at_];
        ++at_;
        return widened(value_at<T>(number, 0));
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t count_;
    std::size_t at_ = 0;
};

class PlainBooleans final : public ParquetValues {
public:
    explicit PlainBooleans(std::span<const std::byte> bytes) : bytes_(bytes) {}
    ParquetValue next() override {
        if (at_ / 8 == bytes_.size()) fail_short();
        const auto byte = static_cast<unsigned>(bytes_[at_ / 8]);
        return (byte >> (at_++ % 8) & 1) != 0;
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

class RunBooleans final : public ParquetValues {
public:
    explicit RunBooleans(std::span<const std::byte> bytes) {
        Bytes front(bytes);
        const auto size = value_at<std::uint32_t>(front.take(4), 0);
        runs_ = HybridDecoder(front.take(size), 1);
    }
    ParquetValue next() override { return runs_.next() != 0; }

private:
    HybridDecoder runs_;
};

class IndexedValues final : public ParquetValues {
public:
    IndexedValues(std::span<const std::byte> bytes, const ParquetDictionary& dictionary)
        : dictionary_(dictionary) {
        if (bytes.empty()) return;  // a page of nulls
        indexes_ = HybridDecoder(bytes.subspan(1), static_cast<int>(bytes[0]));
    }
    ParquetValue next() override { return dictionary_.at(indexes_.next()); }

private:
    const ParquetDictionary& dictionary_;
    HybridDecoder indexes_;
};

void require_all_read(const DeltaDecoder& numbers) {
    if (numbers.left() > 0)
        fail(ExitCode::bad_input, "its encoding has ", numbers.count(), " values, ", numbers.left(),
             " more than the page");
}

template <class T>
class DeltaNumbers final : public ParquetValues {
public:
    explicit DeltaNumbers(std::span<const std::byte> bytes) : numbers_(bytes) {}
    ParquetValue next() override { return widened(static_cast<T>(numbers_.next())); }
    void finish() const override { require_all_read(numbers_); }

private:
    DeltaDecoder numbers_;
};

std::size_t length_from(std::int64_t number) {
    if (number < 0) fail(ExitCode::bad_input, "a text has a negative length");
    return static_cast<std::size_t>(number);
}

/// All lengths, then all bytes.
class DeltaLengthTexts final : public ParquetValues {
public:
    explicit DeltaLengthTexts(std::span<const std::byte> bytes)
        : lengths_(bytes), bytes_(bytes.subspan(lengths_.size())) {}
    ParquetValue next() override { return next_text(); }
    void finish() const override { require_all_read(lengths_); }

    std::string_view next_text() { return bytes_.text(length_from(lengths_.next())); }

private:
    DeltaDecoder lengths_;
    Bytes bytes_;
};

/// A text begins with a part of the text before it.
class DeltaTexts final : public ParquetValues {
public:
    explicit DeltaTexts(std::span<const std::byte> bytes)
        : prefixes_(bytes), suffixes_(bytes.subspan(prefixes_.size())) {}
    ParquetValue next() override {
        const std::size_t prefix = length_from(prefixes_.next());
        if (prefix > text_.size())
            fail(ExitCode::bad_input, "a text shares ", prefix, " bytes with one of ",
                 text_.size());
        text_.resize(prefix);
        text_ += suffixes_.next_text();
        return std::string_view(text_);
    }
    void finish() const override {
        require_all_read(prefixes_);
        suffixes_.finish();
    }

private:
    DeltaDecoder prefixes_;
    DeltaLengthTexts suffixes_;
    std::string text_;
};

/// A decoder template for the numbers of a type; null for other types.
template <template <class> class Decoder>
std::unique_ptr<ParquetValues> numbers(ParquetType type, std::span<const std::byte> bytes) {
    switch (type) {
        case ParquetType::int32: return std::make_unique<Decoder<std::int32_t>>(bytes);
        case ParquetType::int64: return std::make_unique<Decoder<std::int64_t>>(bytes);
        case ParquetType::float32: return std::make_unique<Decoder<float>>(bytes);
        case ParquetType::float64: return std::make_unique<Decoder<double>>(bytes);
        default: return nullptr;
    }
}

std::unique_ptr<ParquetValues> plain_values(ParquetType type, std::span<const std::byte> bytes) {
    if (type == ParquetType::byte_array) return std::make_unique<PlainTexts>(bytes);
    if (type == ParquetType::boolean) return std::make_unique<PlainBooleans>(bytes);
    return numbers<PlainNumbers>(type, bytes);
}

/// Null: the type does not have the encoding.
std::unique_ptr<ParquetValues> values_of(ParquetType type, ParquetEncoding encoding,
                                         std::span<const std::byte> bytes,
                                         const ParquetDictionary* dictionary) {
    const bool is_text = type == ParquetType::byte_array;
    const bool is_integer = type == ParquetType::int32 || type == ParquetType::int64;
    switch (encoding) {
        case ParquetEncoding::plain: return plain_values(type, bytes);
        case ParquetEncoding::plain_dictionary:
        case ParquetEncoding::rle_dictionary:
            if (dictionary == nullptr)
                fail(ExitCode::bad_input, "its values refer to a dictionary, but there is none");
            return std::make_unique<IndexedValues>(bytes, *dictionary);
        case ParquetEncoding::rle:
            if (type == ParquetType::boolean) return std::make_unique<RunBooleans>(bytes);
            break;
        case ParquetEncoding::delta_binary_packed:
            if (is_integer) return numbers<DeltaNumbers>(type, bytes);
            break;
        case ParquetEncoding::delta_length_byte_array:
            if (is_text) return std::make_unique<DeltaLengthTexts>(bytes);
            break;
        case ParquetEncoding::delta_byte_array:
            if (is_text) return std::make_unique<DeltaTexts>(bytes);
            break;
        case ParquetEncoding::byte_stream_split: return numbers<SplitNumbers>(type, bytes);
        case ParquetEncoding::bit_packed: break;
    }
    return nullptr;
}

std::size_t size_of_number(ParquetType type) {
    return type == ParquetType::int32 || type == ParquetType::float32 ? 4 : 8;
}

ParquetValue number_at(ParquetType type, std::span<const std::byte> bytes, std::int64_t begin) {
    switch (type) {
        case ParquetType::int32: return widened(value_at<std::int32_t>(bytes, begin));
        case ParquetType::float32: return widened(value_at<float>(bytes, begin));
        case ParquetType::float64: return widened(value_at<double>(bytes, begin));
        default: return widened(value_at<std::int64_t>(bytes, begin));
    }
}

}  // namespace

ParquetDictionary::ParquetDictionary(ParquetType type, std::span<const std::byte> bytes,
                                     std::int64_t values)
    : type_(type), bytes_(bytes), size_(static_cast<std::size_t>(values)) {
    const std::size_t least = type == ParquetType::byte_array ? 4 : size_of_number(type);
    if (type == ParquetType::boolean) fail(ExitCode::bad_input, "a dictionary of booleans");
    if (size_ > bytes.size() / least)
        fail(ExitCode::bad_input, "its dictionary of ", values, " values ends early");
    if (type != ParquetType::byte_array) return;
    Bytes texts(bytes);
    begins_.reserve(size_);
    for (std::size_t i = 0; i < size_; ++i) {
        begins_.push_back(static_cast<std::uint32_t>(texts.position()));
        texts.sized_text();
    }
}

ParquetValue ParquetDictionary::at(std::size_t index) const {
    if (index >= size_)
        fail(ExitCode::bad_input, "a value refers to entry ", index, " of a dictionary of ", size_);
    if (type_ == ParquetType::byte_array) return Bytes(bytes_.subspan(begins_[index])).sized_text();
    return number_at(type_, bytes_, static_cast<std::int64_t>(index * size_of_number(type_)));
}

std::unique_ptr<ParquetValues> parquet_values(ParquetType type, ParquetEncoding encoding,
                                              std::span<const std::byte> bytes,
                                              const ParquetDictionary* dictionary) {
    if (auto values = values_of(type, encoding, bytes, dictionary)) return values;
    fail(ExitCode::bad_input, "values in encoding ", static_cast<std::int64_t>(encoding),
         " of Parquet, which is not read");
}

}  // namespace gptrain
