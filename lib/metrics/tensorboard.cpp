#include "metrics/tensorboard.h"

#include <array>
#include <bit>
#include <cstring>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/process.h"
#include "base/text.h"
#include "metrics/tensorboard_settings.h"
#include "tokenizer/protobuf_wire.h"

namespace gptrain {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little endian");

/// Field numbers of the protobuf messages.
namespace event {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary {
constexpr int value = 1, tag = 1, simple_value = 2;
}
namespace session_log {
constexpr int status = 1, start = 1;
}

template <class T>
void put_raw(std::string& out, T value) {
    std::array<char, sizeof value> bytes;
    std::memcpy(bytes.data(), &value, sizeof value);
    out.append(bytes.data(), bytes.size());
}

std::uint32_t masked_crc(std::string_view bytes) {
    return std::rotr(crc32c(bytes.data(), bytes.size()), 15) + 0xa282ead8u;
}

std::string record(std::string_view payload) {
    std::string out;
    put_raw(out, static_cast<std::uint64_t>(payload.size()));
    put_raw(out, masked_crc(out));
    out += payload;
    put_raw(out, masked_crc(payload));
    return out;
}

std::string scalar_value(const Scalar& scalar) {
    std::string out;
    append_bytes_field(out, summary::tag, scalar.tag);
    append_float_field(out, summary::simple_value, static_cast<float>(scalar.value));
    return out;
}

/// The record of an Event with these fields besides its time and step.
std::string event_record(std::int64_t step, std::string_view content) {
    std::string payload;
    append_double_field(payload, event::wall_time, unix_seconds());
    append_varint_field(payload, event::step, static_cast<std::uint64_t>(step));
    payload += content;
    return record(payload);
}

/// `values`: `Summary.Value` messages.
std::string summary_record(std::int64_t step, const std::vector<std::string>& values) {
    std::string message;
    for (const std::string& value : values)
        append_bytes_field(message, summary::value, value);
    std::string content;
    append_bytes_field(content, event::summary, message);
    return event_record(step, content);
}

/// An unused name: containers often give every start the same host and process id.
std::filesystem::path unused_name(const std::filesystem::path& folder) {
    const std::string stem =
        text("events.out.tfevents.", static_cast<std::int64_t>(unix_seconds()), ".", host_name(),
             ".", static_cast<std::int64_t>(::getpid()), ".");
    int n = 0;
    while (std::filesystem::exists(folder / text(stem, n)))
        ++n;
    return folder / text(stem, n);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, std::int64_t resumed_from,
                                     const Json& settings)
    : file_(unused_name(folder), File::Mode::create) {
    std::string version;
    append_bytes_field(version, event::file_version, "brain.Event:2");

    std::string status;
    append_varint_field(status, session_log::status, session_log::start);
    std::string restart;
    append_bytes_field(restart, event::session_log, status);

    file_.begin(event_record(0, version));
    file_.append(event_record(resumed_from + 1, restart));
    // As step 0, which no restart drops.
    file_.append(summary_record(0, {settings_value(settings, unix_seconds())}));
}

void TensorBoardWriter::write(std::int64_t step, const std::vector<Scalar>& scalars) {
    std::vector<std::string> values;
    for (const Scalar& scalar : scalars)
        values.push_back(scalar_value(scalar));
    file_.append(summary_record(step, values));
}

}  // namespace gptrain
