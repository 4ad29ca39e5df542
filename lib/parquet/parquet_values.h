// The values of a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "parquet/parquet_page.h"
#include "parquet/parquet_schema.h"

namespace gptrain {

/// Integers of 32 bits are sign-extended.
using ParquetValue = std::variant<bool, std::int64_t, double, std::string_view>;

/// Decodes values one after another; nothing is decoded ahead, so memory does not depend on their
/// number. Errors (bad_input) have no place.
class ParquetValues {
public:
    virtual ~ParquetValues() = default;

    /// Error if there are no more. A text is valid until the next call.
    virtual ParquetValue next() = 0;
    /// Error if the data states more values than were read. Call it after the last.
    virtual void finish() const {}
};

/// The values of a dictionary page.
class ParquetDictionary {
public:
    /// `bytes`: as PLAIN; the dictionary refers to them.
    ParquetDictionary(ParquetType type, std::span<const std::byte> bytes, std::int64_t values);

    ParquetValue at(std::size_t index) const;

private:
    ParquetType type_;
    std::span<const std::byte> bytes_;
    std::size_t size_;
    std::vector<std::uint32_t> begins_;  ///< of texts
};

/// The values of a data page, behind its levels. `dictionary` may be null; it and the bytes must
/// outlive the values. Error (bad_input), without a place, for an encoding that the type does not
/// have.
std::unique_ptr<ParquetValues> parquet_values(ParquetType type, ParquetEncoding encoding,
                                              std::span<const std::byte> bytes,
                                              const ParquetDictionary* dictionary);

}  // namespace gptrain
